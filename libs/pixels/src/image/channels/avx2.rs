//! 32 pixels at a time, 16 in each half of a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_core::draw::Extent;

use crate::simd::Avx2;
use crate::simd::x86::{load_16, store_32};

/// Pixels of a vector, and of its halves.
const LANES: usize = 32;
const HALF: usize = 16;

/// For each channel, and each of three vectors of 16 interleaved values: where those of 16 pixels
/// are, or that they are elsewhere.
const ORDERS: [[[u8; HALF]; 3]; 3] = [orders(0), orders(1), orders(2)];

const fn orders(channel: usize) -> [[u8; HALF]; 3] {
    let mut orders = [[0x80; HALF]; 3];
    let mut pixel = 0;
    while pixel < HALF {
        let at = 3 * pixel + channel;
        orders[at / HALF][pixel] = (at % HALF) as u8;
        pixel += 1;
    }
    orders
}

/// See [`super::split`].
pub(super) fn split(_: Avx2, pixels: &[u8], extent: Extent, planes: [&mut [u8]; 3], stride: usize) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { split_compiled(pixels, extent, planes, stride) }
}

#[target_feature(enable = "avx2")]
fn split_compiled(pixels: &[u8], extent: Extent, planes: [&mut [u8]; 3], stride: usize) {
    let width = extent.width as usize;
    let [red, green, blue] = planes;
    for row in 0..extent.height as usize {
        let pixels = &pixels[3 * width * row..][..3 * width.next_multiple_of(LANES)];
        // The last vector of a row goes on over the next one, which is written after it.
        let row = row * stride..row * stride + width.next_multiple_of(LANES);
        let places = red[row.clone()].as_chunks_mut().0.iter_mut();
        let places = places.zip(green[row.clone()].as_chunks_mut().0);
        let places = places.zip(blue[row].as_chunks_mut().0);
        let sixes = pixels.as_chunks::<HALF>().0.as_chunks::<6>().0;
        for ([a, b, c, d, e, f], ((red, green), blue)) in sixes.iter().zip(places) {
            let parts = [
                _mm256_set_m128i(load_16(d), load_16(a)),
                _mm256_set_m128i(load_16(e), load_16(b)),
                _mm256_set_m128i(load_16(f), load_16(c)),
            ];
            store_32(red, picked(parts, &ORDERS[0]));
            store_32(green, picked(parts, &ORDERS[1]));
            store_32(blue, picked(parts, &ORDERS[2]));
        }
    }
}

/// The values of one channel.
#[inline]
#[target_feature(enable = "avx2")]
fn picked([a, b, c]: [__m256i; 3], orders: &[[u8; HALF]; 3]) -> __m256i {
    let a = _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(load_16(&orders[0])));
    let b = _mm256_shuffle_epi8(b, _mm256_broadcastsi128_si256(load_16(&orders[1])));
    let c = _mm256_shuffle_epi8(c, _mm256_broadcastsi128_si256(load_16(&orders[2])));
    _mm256_or_si256(_mm256_or_si256(a, b), c)
}
