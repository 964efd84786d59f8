//! Contrast: a blend with the mean luma.

pub mod plain;

use crate::image::Planes;
use crate::simd::twin;

twin! {
    /// Spreads values about the mean luma by `factor`; 1 changes nothing.
    pub fn apply(view: &mut Planes, factor: f32) = plain::apply;
}
