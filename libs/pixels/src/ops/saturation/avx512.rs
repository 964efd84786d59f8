//! The blend with each pixel's luma in AVX-512 with VBMI, 64 pixels at a time: steps from a table in registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::image::Planes;
use crate::ops::blend::steps::Steps;
use crate::ops::lookup::avx512::{Quarters, found, quarters};
use crate::ops::luma::avx512::luma_64;
use crate::ops::saturation::plain;
use crate::simd::Vbmi;
use crate::simd::x86::{load_64, store_64};

/// Pixels of a vector.
const LANES: usize = 64;

/// Spreads the channels of each pixel about its luma by `factor`, unless it has no steps. Whether it has.
pub(super) fn apply(_: Vbmi, view: &mut Planes, factor: f32) -> bool {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(view, factor) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
fn compiled(view: &mut Planes, factor: f32) -> bool {
    let Some(steps) = Steps::of(factor) else { return false };
    match steps.away {
        true => spread::<true>(view, &steps),
        false => spread::<false>(view, &steps),
    }
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>().1);
    plain::spread([red, green, blue], factor);
    true
}

/// All whole vectors, whose values go away from the luma or towards it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
fn spread<const AWAY: bool>(view: &mut Planes, steps: &Steps) {
    let up = quarters(&steps.up);
    let [red, green, blue] = view.planes_mut().map(|plane| plane.as_chunks_mut::<LANES>().0);
    for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
        let rgb = [load_64(r), load_64(g), load_64(b)];
        let luma = luma_64(rgb);
        store_64(r, moved::<AWAY>(rgb[0], luma, up));
        store_64(g, moved::<AWAY>(rgb[1], luma, up));
        store_64(b, moved::<AWAY>(rgb[2], luma, up));
    }
}

/// 64 values after their steps.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
fn moved<const AWAY: bool>(values: __m512i, luma: __m512i, up: Quarters) -> __m512i {
    let (low, high) = (_mm512_min_epu8(values, luma), _mm512_max_epu8(values, luma));
    let step = found(_mm512_sub_epi8(high, low), up);
    let step_down = _mm512_adds_epu8(step, _mm512_set1_epi8(1));
    let (a, b) = if AWAY { (values, luma) } else { (luma, values) };
    let down = _mm512_cmplt_epu8_mask(a, b);
    let moved = _mm512_adds_epu8(values, step);
    _mm512_mask_subs_epu8(moved, down, values, step_down)
}
