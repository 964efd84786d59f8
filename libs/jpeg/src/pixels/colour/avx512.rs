//! Colour conversion in AVX-512. Equal to `plain`: each factor is split into a whole number and a part of 15 or 16
//! binary places, whose rounded product is the same for every sample.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_simd::x86::{load_64, store_64};
use headwater_simd::{Avx512, Vbmi};

use super::super::steps::starts;
use super::{BLUE_PART, GREEN_PARTS, RED_PART};

/// Pixels of a step.
pub(super) const STEP: usize = 64;

/// For each byte of the 192 of 64 pixels: where its red or green is in both vectors (64 further), where its blue
/// is, and whether it is blue. Vectors hold even pixels and then odd ones in each quarter.
const PLACES: Places = places();

struct Places {
    red_green: [[u8; STEP]; 3],
    blue: [[u8; STEP]; 3],
    is_blue: [u64; 3],
}

const fn places() -> Places {
    let mut places = Places { red_green: [[0; STEP]; 3], blue: [[0; STEP]; 3], is_blue: [0; 3] };
    let mut byte = 0;
    while byte < 3 * STEP {
        let (pixel, channel) = (byte / 3, byte % 3);
        let place = (pixel / 16 * 16 + pixel % 16 / 2 + pixel % 2 * 8) as u8;
        let (vector, at) = (byte / STEP, byte % STEP);
        if channel == 2 {
            places.blue[vector][at] = place;
            places.is_blue[vector] |= 1 << at;
        } else {
            places.red_green[vector][at] = place + channel as u8 * STEP as u8;
        }
        byte += 1;
    }
    places
}

pub(super) fn ycc_to_planes(_: Avx512, ycc: [&[u8]; 3], rgb: [&mut [u8]; 3]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { planes_compiled(ycc, rgb) }
}

pub(super) fn ycc_to_rgb(_: Vbmi, ycc: [&[u8]; 3], pixels: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { pixels_compiled(ycc, pixels) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn planes_compiled(ycc: [&[u8]; 3], [red, green, blue]: [&mut [u8]; 3]) {
    let order = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    let order = _mm512_broadcast_i32x4(order);
    for at in starts(ycc[0].len(), STEP) {
        let [r, g, b] = converted(ycc, at);
        store_64(chunk(red, at), _mm512_shuffle_epi8(r, order));
        store_64(chunk(green, at), _mm512_shuffle_epi8(g, order));
        store_64(chunk(blue, at), _mm512_shuffle_epi8(b, order));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
fn pixels_compiled(ycc: [&[u8]; 3], pixels: &mut [u8]) {
    for at in starts(ycc[0].len(), STEP) {
        let [r, g, b] = converted(ycc, at);
        let (chunks, _) = pixels[3 * at..].as_chunks_mut::<STEP>();
        #[allow(clippy::needless_range_loop)]
        for n in 0..3 {
            let red_green = load_64(&PLACES.red_green[n]);
            let red_green = _mm512_permutex2var_epi8(r, red_green, g);
            let blue = load_64(&PLACES.blue[n]);
            let all = _mm512_mask_permutexvar_epi8(red_green, PLACES.is_blue[n], blue, b);
            store_64(&mut chunks[n], all);
        }
    }
}

/// Red, green and blue of the 64 pixels from `at` on: in each quarter even pixels and then odd ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn converted([y, cb, cr]: [&[u8]; 3], at: usize) -> [__m512i; 3] {
    let low = _mm512_set1_epi16(255);
    let [y, cb, cr] = [load(y, at), load(cb, at), load(cr, at)];
    let even =
        words(_mm512_and_si512(y, low), _mm512_and_si512(cb, low), _mm512_and_si512(cr, low));
    let odd =
        words(_mm512_srli_epi16::<8>(y), _mm512_srli_epi16::<8>(cb), _mm512_srli_epi16::<8>(cr));
    [
        _mm512_packus_epi16(even[0], odd[0]),
        _mm512_packus_epi16(even[1], odd[1]),
        _mm512_packus_epi16(even[2], odd[2]),
    ]
}

/// Red, green and blue in 16 bits, not clamped.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn words(y: __m512i, cb: __m512i, cr: __m512i) -> [__m512i; 3] {
    let grey = _mm512_set1_epi16(128);
    let (cb, cr) = (_mm512_sub_epi16(cb, grey), _mm512_sub_epi16(cr, grey));
    let red = _mm512_mulhrs_epi16(cr, _mm512_set1_epi16(RED_PART));
    let blue = _mm512_mulhrs_epi16(cb, _mm512_set1_epi16(BLUE_PART));
    let parts = i32::from(GREEN_PARTS[1]) << 16 | i32::from(GREEN_PARTS[0] as u16);
    let (parts, half) = (_mm512_set1_epi32(parts), _mm512_set1_epi32(1 << 15));
    let low = _mm512_dpwssd_epi32(half, _mm512_unpacklo_epi16(cb, cr), parts);
    let high = _mm512_dpwssd_epi32(half, _mm512_unpackhi_epi16(cb, cr), parts);
    let green = _mm512_packs_epi32(_mm512_srai_epi32::<16>(low), _mm512_srai_epi32::<16>(high));
    [
        _mm512_add_epi16(_mm512_add_epi16(y, cr), red),
        _mm512_add_epi16(_mm512_sub_epi16(y, cr), green),
        _mm512_add_epi16(_mm512_add_epi16(y, _mm512_add_epi16(cb, cb)), blue),
    ]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn load(row: &[u8], at: usize) -> __m512i {
    load_64(row[at..].first_chunk().expect("a step within the row"))
}

#[inline(always)]
fn chunk(row: &mut [u8], at: usize) -> &mut [u8; STEP] {
    row[at..].first_chunk_mut().expect("a step within the row")
}
