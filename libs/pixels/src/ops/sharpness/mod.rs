//! Sharpness: a blend with a smoothed copy.

pub mod plain;

use crate::image::Planes;
use crate::simd::twin;

twin! {
    /// Blends with the smoothed view: 0 is that, 1 changes nothing, 2 sharpens. `spare` is memory.
    pub fn apply(view: &mut Planes, factor: f32, spare: &mut Planes) = plain::apply;
}
