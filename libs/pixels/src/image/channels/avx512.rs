//! 64 pixels at a time, by permutations of bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_core::draw::Extent;

use crate::simd::Vbmi;
use crate::simd::x86::{load_64, store_64};

/// Pixels of a vector.
const LANES: usize = 64;

/// Where the values of one channel are among 192 interleaved ones: of those in the first two
/// vectors, then of those in the third, and which these are.
const SPLIT: [([u8; LANES], [u8; LANES], u64); 3] =
    [split_order(0), split_order(1), split_order(2)];

/// Where the bytes of one of three interleaved vectors come from: of red and green, then of blue,
/// and which these are.
const MERGE: [([u8; LANES], [u8; LANES], u64); 3] =
    [merge_order(0), merge_order(1), merge_order(2)];

const fn split_order(channel: usize) -> ([u8; LANES], [u8; LANES], u64) {
    let (mut first, mut third, mut of_third) = ([0; LANES], [0; LANES], 0);
    let mut pixel = 0;
    while pixel < LANES {
        let at = 3 * pixel + channel;
        if at < 2 * LANES {
            first[pixel] = at as u8;
        } else {
            third[pixel] = (at - 2 * LANES) as u8;
            of_third |= 1 << pixel;
        }
        pixel += 1;
    }
    (first, third, of_third)
}

const fn merge_order(vector: usize) -> ([u8; LANES], [u8; LANES], u64) {
    let (mut first, mut blue, mut of_blue) = ([0; LANES], [0; LANES], 0);
    let mut byte = 0;
    while byte < LANES {
        let (pixel, channel) = ((vector * LANES + byte) / 3, (vector * LANES + byte) % 3);
        if channel < 2 {
            first[byte] = (channel * LANES + pixel) as u8;
        } else {
            blue[byte] = pixel as u8;
            of_blue |= 1 << byte;
        }
        byte += 1;
    }
    (first, blue, of_blue)
}

/// See [`super::split`].
pub(super) fn split(_: Vbmi, pixels: &[u8], extent: Extent, planes: [&mut [u8]; 3], stride: usize) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { split_compiled(pixels, extent, planes, stride) }
}

/// See [`super::merge`].
pub(super) fn merge(_: Vbmi, planes: [&[u8]; 3], stride: usize, extent: Extent, pixels: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { merge_compiled(planes, stride, extent, pixels) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn split_compiled(pixels: &[u8], extent: Extent, planes: [&mut [u8]; 3], stride: usize) {
    let width = extent.width as usize;
    let orders = SPLIT.map(|(first, third, of)| (load_64(&first), load_64(&third), of));
    let [red, green, blue] = planes;
    for row in 0..extent.height as usize {
        let pixels = &pixels[3 * width * row..][..3 * width.next_multiple_of(LANES)];
        // The last vector of a row goes on over the next one, which is written after it.
        let row = row * stride..row * stride + width.next_multiple_of(LANES);
        let places = red[row.clone()].as_chunks_mut().0.iter_mut();
        let places = places.zip(green[row.clone()].as_chunks_mut().0);
        let places = places.zip(blue[row].as_chunks_mut().0);
        let threes = pixels.as_chunks::<LANES>().0.as_chunks::<3>().0;
        for ([a, b, c], ((red, green), blue)) in threes.iter().zip(places) {
            let (a, b, c) = (load_64(a), load_64(b), load_64(c));
            let [of_red, of_green, of_blue] = orders.map(|(first, third, of)| {
                let values = _mm512_permutex2var_epi8(a, first, b);
                _mm512_mask_permutexvar_epi8(values, of, third, c)
            });
            store_64(red, of_red);
            store_64(green, of_green);
            store_64(blue, of_blue);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn merge_compiled(planes: [&[u8]; 3], stride: usize, extent: Extent, pixels: &mut [u8]) {
    let width = extent.width as usize;
    let orders = MERGE.map(|(first, blue, of)| (load_64(&first), load_64(&blue), of));
    for row in 0..extent.height as usize {
        let rows = planes.map(|plane| &plane[row * stride..][..width.next_multiple_of(LANES)]);
        let [red, green, blue] = rows.map(|row| row.as_chunks::<LANES>().0);
        let to = &mut pixels[3 * width * row..];
        for (n, ((red, green), blue)) in red.iter().zip(green).zip(blue).enumerate() {
            let (red, green, blue) = (load_64(red), load_64(green), load_64(blue));
            let vectors = orders.map(|(first, of_blue, of)| {
                let values = _mm512_permutex2var_epi8(red, first, green);
                _mm512_mask_permutexvar_epi8(values, of, of_blue, blue)
            });
            let to = &mut to[3 * LANES * n..];
            // The last vectors of a row go on over the next one, which is written after them; those of
            // the last row do not fit.
            if let Some(to) = to.first_chunk_mut::<{ 3 * LANES }>() {
                for (to, vector) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(vectors) {
                    store_64(to, vector);
                }
            } else {
                let mut threes = [[0; LANES]; 3];
                for (three, vector) in threes.iter_mut().zip(vectors) {
                    store_64(three, vector);
                }
                let len = to.len();
                to.copy_from_slice(&threes.as_flattened()[..len]);
            }
        }
    }
}
