//! The blend with each pixel's luma in AVX2, 32 pixels at a time, by steps.
#![allow(unsafe_code)]

use crate::image::Planes;
use crate::ops::blend::avx2::moved;
use crate::ops::blend::steps::{Multiplier, Steps};
use crate::ops::luma::avx2::luma_32;
use crate::ops::saturation::plain;
use crate::simd::Avx2;
use crate::simd::x86::{load_32, store_32};

/// Pixels of a vector.
const LANES: usize = 32;

/// Spreads the channels of each pixel about its luma by `factor`, unless it has no steps. Whether it has.
pub(super) fn apply(_: Avx2, view: &mut Planes, factor: f32) -> bool {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { compiled(view, factor) }
}

#[target_feature(enable = "avx2")]
fn compiled(view: &mut Planes, factor: f32) -> bool {
    let Some(steps) = Steps::of(factor) else { return false };
    let Some(multiplier) = steps.multiplier() else { return false };
    match steps.away {
        true => spread::<true>(view, multiplier),
        false => spread::<false>(view, multiplier),
    }
    plain::spread(view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>().1), factor);
    true
}

/// All whole vectors, whose values go away from the luma or towards it.
#[inline]
#[target_feature(enable = "avx2")]
fn spread<const AWAY: bool>(view: &mut Planes, multiplier: Multiplier) {
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>().0);
    for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
        let rgb = [load_32(r), load_32(g), load_32(b)];
        let luma = luma_32(rgb);
        store_32(r, moved::<AWAY>(rgb[0], luma, multiplier));
        store_32(g, moved::<AWAY>(rgb[1], luma, multiplier));
        store_32(b, moved::<AWAY>(rgb[2], luma, multiplier));
    }
}
