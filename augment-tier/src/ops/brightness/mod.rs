//! Brightness: a blend with black.

pub mod plain;

use crate::image::Planes;
use crate::simd::twin;

twin! {
    /// Multiplies by `factor`; 1 changes nothing.
    pub fn apply(view: &mut Planes, factor: f32) = plain::apply;
}
