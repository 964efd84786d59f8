//! Saturation: a blend with the luma of each pixel.

pub mod plain;

use crate::image::Planes;
use crate::simd::twin;

twin! {
    /// Spreads the channels of each pixel about its luma by `factor`; 1 changes nothing.
    pub fn apply(view: &mut Planes, factor: f32) = plain::apply;
}
