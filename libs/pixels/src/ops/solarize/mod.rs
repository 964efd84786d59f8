//! Solarise: bright values are inverted.

pub mod plain;

use crate::image::Planes;
use crate::simd::twin;

twin! {
    /// Inverts values from `threshold` upwards.
    pub fn apply(view: &mut Planes, threshold: u8) = plain::apply;
}
