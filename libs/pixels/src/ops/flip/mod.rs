//! Horizontal flip.

pub mod plain;

use crate::image::Planes;
use crate::simd::twin;

twin! {
    /// Reverses each row.
    pub fn apply(view: &mut Planes) = plain::apply;
}
