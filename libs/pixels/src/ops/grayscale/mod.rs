//! Grayscale with three equal channels.

pub mod plain;

use crate::image::Planes;
use crate::simd::twin;

twin! {
    /// Replaces all channels by the luma.
    pub fn apply(view: &mut Planes) = plain::apply;
}
