//! Eight pixels at a time, in vectors of binary64: the filters' taps of a row are four neighbours, which one gather
//! brings as one word for each pixel.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::rows::Rows;
use super::{Map, Warp};
use crate::image::Planes;
use crate::simd::Avx512;

/// Pixels of a vector.
const LANES: usize = 8;

/// Where a block's pixels come from.
struct Places {
    /// Places in a plane of the word at each pixel's left uppermost tap.
    words: __m256i,
    dx: __m512d,
    dy: __m512d,
    /// Pixels that come from within the view.
    within: u8,
}

/// As `plain::apply`, with a filter over `TAPS` pixels: 2 or 4. `rows` have the view too, of fewer than 2^31 pixels, so
/// that places fit the gather's numbers; `rows::apply` sees to it.
pub(super) fn apply<const TAPS: usize>(
    _: Avx512,
    view: &Planes,
    warp: &Warp,
    to: &mut Planes,
    rows: &mut Rows,
) {
    assert!(view.planes()[0].len() <= i32::MAX as usize, "places fit 32 bits");
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { moved::<TAPS>(view, warp, to, rows) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn moved<const TAPS: usize>(view: &Planes, warp: &Warp, to: &mut Planes, rows: &mut Rows) {
    let extent = view.extent();
    let (width, height) = (extent.width as usize, extent.height as usize);
    let planes = view.planes();
    let mut to = to.planes_mut();
    for row in 0..height {
        for left in (0..width).step_by(LANES) {
            let count = LANES.min(width - left);
            let Some(places) = places_of::<TAPS>(&warp.map, (width, height), (left, row)) else {
                rows.write::<TAPS>(warp, row, left..left + count, &mut to);
                continue;
            };
            for (channel, to) in to.iter_mut().enumerate() {
                let line = &mut to[row * width + left..][..count];
                let fill = _mm_set1_epi8(warp.fill[channel] as i8);
                let levels = if places.within == 0 {
                    fill
                } else {
                    // SAFETY: `places_of` has seen to it that all words lie within a plane of the view, and `apply` that
                    // their places fit 32 bits.
                    let levels = unsafe { levels_of::<TAPS>(&places, planes[channel], width) };
                    _mm_mask_mov_epi8(fill, places.within.into(), levels)
                };
                let levels = _mm_cvtsi128_si64(levels).to_le_bytes();
                line.copy_from_slice(&levels[..count]);
            }
        }
    }
}

/// The places of `LANES` pixels from `left` on; none where a tap of one lies beyond the view.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn places_of<const TAPS: usize>(
    map: &Map,
    (width, height): (usize, usize),
    (left, row): (usize, usize),
) -> Option<Places> {
    let set = |value: f64| _mm512_set1_pd(value);
    let counted = _mm512_setr_pd(0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5);
    let (x, y) = (_mm512_add_pd(set(left as f64), counted), set(row as f64 + 0.5));
    let line = |a: f64, b: f64, c: f64| {
        let sum = _mm512_add_pd(_mm512_mul_pd(set(a), x), _mm512_mul_pd(set(b), y));
        _mm512_add_pd(sum, set(c))
    };
    let (x, y) = match *map {
        Map::Affine([a, b, c, d, e, f]) => (line(a, b, c), line(d, e, f)),
        Map::Perspective([a, b, c, d, e, f, g, h]) => {
            let far = line(g, h, 1.0);
            (_mm512_div_pd(line(a, b, c), far), _mm512_div_pd(line(d, e, f), far))
        }
    };
    let zero = _mm512_setzero_pd();
    let inside = |at: __m512d, side: usize| {
        let above = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(at, zero);
        above & _mm512_cmp_pd_mask::<_CMP_LT_OQ>(at, set(side as f64))
    };
    let within = inside(x, width) & inside(y, height);
    let half = set(0.5);
    let (x, y) = (_mm512_sub_pd(x, half), _mm512_sub_pd(y, half));
    const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    let floor = |at: __m512d| _mm512_roundscale_pd::<DOWN>(at);
    let (columns, rows) = (floor(x), floor(y));
    let (dx, dy) = (_mm512_sub_pd(x, columns), _mm512_sub_pd(y, rows));
    // The left uppermost tap, and what lies after it: a word's four bytes, and the rows of taps.
    let before = set(((TAPS - 1) / 2) as f64);
    let (columns, rows) = (_mm512_sub_pd(columns, before), _mm512_sub_pd(rows, before));
    let fits = |at: __m512d, side: usize, count: usize| {
        let last = side as f64 - count as f64;
        let above = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(at, zero);
        above & _mm512_cmp_pd_mask::<_CMP_LE_OQ>(at, set(last))
    };
    let whole = fits(columns, width, 4) & fits(rows, height, TAPS);
    if within & !whole != 0 || width < 4 || height < TAPS {
        return None;
    }
    // Others look at the first pixel, and count nothing.
    let columns = _mm512_cvttpd_epi32(_mm512_maskz_mov_pd(within, columns));
    let rows = _mm512_cvttpd_epi32(_mm512_maskz_mov_pd(within, rows));
    let words = _mm256_mullo_epi32(rows, _mm256_set1_epi32(width as i32));
    Some(Places { words: _mm256_add_epi32(words, columns), dx, dy, within })
}

/// The levels of the pixels, in the lowest bytes.
///
/// # Safety
/// Each of the places' words, and those in the rows below it, lie within the plane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn levels_of<const TAPS: usize>(places: &Places, plane: &[u8], width: usize) -> __m128i {
    let Places { words, dx, dy, .. } = *places;
    let mut values = [_mm512_setzero_pd(); TAPS];
    for (row, value) in values.iter_mut().enumerate() {
        let place = _mm256_add_epi32(words, _mm256_set1_epi32((row * width) as i32));
        // SAFETY: as the caller promises.
        let word = unsafe { _mm256_i32gather_epi32::<1>(plane.as_ptr().cast(), place) };
        let tap = |shifted: __m256i| _mm256_and_si256(shifted, _mm256_set1_epi32(255));
        let a = tap(word);
        let b = tap(_mm256_srli_epi32::<8>(word));
        *value = if TAPS == 2 {
            linear(_mm512_cvtepi32_pd(a), _mm512_cvtepi32_pd(b), dx)
        } else {
            cubic_of_levels(
                a,
                b,
                tap(_mm256_srli_epi32::<16>(word)),
                _mm256_srli_epi32::<24>(word),
                dx,
            )
        };
    }
    let value = if TAPS == 2 {
        linear(values[0], values[1], dy)
    } else {
        cubic([values[0], values[1], values[2 % TAPS], values[3 % TAPS]], dy)
    };
    let value = _mm512_max_pd(value, _mm512_setzero_pd());
    let value = _mm512_cvttpd_epi32(_mm512_min_pd(value, _mm512_set1_pd(255.0)));
    _mm256_cvtepi32_epi8(value)
}

/// As `plain::linear`.
#[inline]
#[target_feature(enable = "avx512f")]
fn linear(a: __m512d, b: __m512d, at: __m512d) -> __m512d {
    _mm512_add_pd(a, _mm512_mul_pd(_mm512_sub_pd(b, a), at))
}

/// As `plain::cubic`; sums of levels are exact in whole numbers as they are there.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn cubic_of_levels(a: __m256i, b: __m256i, c: __m256i, d: __m256i, at: __m512d) -> __m512d {
    let (a_b, c_d) = (_mm256_sub_epi32(a, b), _mm256_sub_epi32(c, d));
    let p2 = _mm256_sub_epi32(c, a);
    let p3 = _mm256_add_epi32(_mm256_add_epi32(a_b, a_b), c_d);
    let p4 = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_add_epi32(a_b, c_d));
    let [p1, p2, p3, p4] = [b, p2, p3, p4].map(|p| _mm512_cvtepi32_pd(p));
    horner(p1, p2, p3, p4, at)
}

/// As `plain::cubic`.
#[inline]
#[target_feature(enable = "avx512f")]
fn cubic([a, b, c, d]: [__m512d; 4], at: __m512d) -> __m512d {
    let p2 = _mm512_sub_pd(c, a);
    let twice = _mm512_mul_pd(_mm512_set1_pd(2.0), _mm512_sub_pd(a, b));
    let p3 = _mm512_sub_pd(_mm512_add_pd(twice, c), d);
    let p4 = _mm512_add_pd(_mm512_sub_pd(_mm512_sub_pd(b, a), c), d);
    horner(b, p2, p3, p4, at)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn horner(p1: __m512d, p2: __m512d, p3: __m512d, p4: __m512d, at: __m512d) -> __m512d {
    let inner = _mm512_add_pd(p3, _mm512_mul_pd(at, p4));
    let inner = _mm512_add_pd(p2, _mm512_mul_pd(at, inner));
    _mm512_add_pd(p1, _mm512_mul_pd(at, inner))
}
