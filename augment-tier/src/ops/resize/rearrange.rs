//! Bytes put in the order that the passes want. Nothing is computed here.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::resize::layout::{BLOCK_BYTES, Cut, LANE_BLOCK, QUAD, Quads, upright_from};
use crate::simd::x86::{load_16, store_16, store_32, store_64};
use crate::simd::{Avx2, Avx512};

/// Bytes of four pixels.
const PIXELS_BYTES: usize = 3 * QUAD;

/// Cuts 16 rows or 16 columns of an image into `u8[3, quads, 16, 4]`.
pub(super) fn cut_avx2(_: Avx2, cut: &Cut<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe {
        match cut.of {
            Quads::Columns => cut_rows_avx2(&Rows::of(cut), cut.quads, out),
            Quads::Rows => cut_columns_avx2(cut, out),
        }
    }
}

/// As [`cut_avx2`], all 16 lanes at once.
pub(super) fn cut_avx512(_: Avx512, cut: &Cut<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX-512.
    unsafe {
        match cut.of {
            Quads::Columns => cut_rows_avx512(&Rows::of(cut), cut.quads, out),
            Quads::Rows => cut_columns_avx512(cut, out),
        }
    }
}

/// Turns `u8[lanes, 16]` into `u8[4, lanes, 4]`.
pub(super) fn turn(_: Avx2, columns: &[u8], out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { turn_compiled(columns, out) }
}

/// Turns a view on its side, `u8[width, lanes]`, into a plane `u8[height, width]`.
pub(super) fn upright(_: Avx2, columns: &[u8], lanes: usize, plane: &mut [u8], width: usize) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { upright_compiled(columns, lanes, plane, width) }
}

/// The 16 rows of a cut, from its first column on: each is long enough for a vector of 16 bytes
/// at the beginning of every quad.
struct Rows<'a>([&'a [u8]; LANE_BLOCK]);

// === impl Rows ===

impl<'a> Rows<'a> {
    fn of(cut: &Cut<'a>) -> Self {
        let Cut { image, row, column, quads, .. } = *cut;
        let last_row = image.extent().height as usize - 1;
        // The vector of the last quad may reach beyond its pixels, into the next row or the
        // slack.
        let len = quads * PIXELS_BYTES + 16 - PIXELS_BYTES;
        Self(std::array::from_fn(|n| {
            let row = (row + n).min(last_row);
            &image.padded()[row * image.row_bytes() + 3 * column..][..len]
        }))
    }

    /// Four pixels and four bytes more.
    ///
    /// # Safety
    /// `quad` is one of the cut.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn pixels(&self, row: usize, quad: usize) -> __m128i {
        debug_assert!(quad * PIXELS_BYTES + 16 <= self.0[row].len());
        // SAFETY: rows are long enough for a vector at every quad; no alignment is asked for.
        unsafe { _mm_loadu_si128(self.0[row].as_ptr().add(quad * PIXELS_BYTES).cast()) }
    }
}

/// R R R R G G G G B B B B out of four pixels.
#[inline]
#[target_feature(enable = "sse2")]
fn by_channel() -> __m128i {
    _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1)
}

#[target_feature(enable = "avx2")]
fn cut_rows_avx2(rows: &Rows<'_>, quads: usize, out: &mut [u8]) {
    let (red, rest) = out.split_at_mut(quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(quads * BLOCK_BYTES);
    let (red, _) = red.as_chunks_mut::<BLOCK_BYTES>();
    let (green, _) = green.as_chunks_mut::<BLOCK_BYTES>();
    let (blue, _) = blue.as_chunks_mut::<BLOCK_BYTES>();
    let by_channel = _mm256_broadcastsi128_si256(by_channel());
    let blocks = red.iter_mut().zip(green).zip(blue);
    for (quad, ((red, green), blue)) in blocks.enumerate() {
        for half in 0..2 {
            let mut pairs = [_mm256_setzero_si256(); 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                let row = half * 8 + n;
                // SAFETY: there are as many blocks as quads.
                let both =
                    unsafe { _mm256_set_m128i(rows.pixels(row + 4, quad), rows.pixels(row, quad)) };
                *pair = _mm256_shuffle_epi8(both, by_channel);
            }
            // The fourth is empty.
            let [of_red, of_green, of_blue, _] = transposed(pairs);
            store_32(&mut red.as_chunks_mut().0[half], of_red);
            store_32(&mut green.as_chunks_mut().0[half], of_green);
            store_32(&mut blue.as_chunks_mut().0[half], of_blue);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn cut_rows_avx512(rows: &Rows<'_>, quads: usize, out: &mut [u8]) {
    let (red, rest) = out.split_at_mut(quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(quads * BLOCK_BYTES);
    let (red, _) = red.as_chunks_mut::<BLOCK_BYTES>();
    let (green, _) = green.as_chunks_mut::<BLOCK_BYTES>();
    let (blue, _) = blue.as_chunks_mut::<BLOCK_BYTES>();
    let by_channel = _mm512_broadcast_i32x4(by_channel());
    let blocks = red.iter_mut().zip(green).zip(blue);
    for (quad, ((red, green), blue)) in blocks.enumerate() {
        let mut fours = [_mm512_setzero_si512(); 4];
        for (row, four) in fours.iter_mut().enumerate() {
            // SAFETY: there are as many blocks as quads.
            let pixels = unsafe {
                let low = _mm512_castsi128_si512(rows.pixels(row, quad));
                let low = _mm512_inserti32x4::<1>(low, rows.pixels(row + 4, quad));
                let low = _mm512_inserti32x4::<2>(low, rows.pixels(row + 8, quad));
                _mm512_inserti32x4::<3>(low, rows.pixels(row + 12, quad))
            };
            *four = _mm512_shuffle_epi8(pixels, by_channel);
        }
        let [of_red, of_green, of_blue] = by_colour(fours);
        store_64(red, of_red);
        store_64(green, of_green);
        store_64(blue, of_blue);
    }
}

/// The pixels of 16 columns of a row, and four bytes more.
const COLUMNS_BYTES: usize = 3 * LANE_BLOCK + 4;

/// The four rows of quad number `quad` of a cut of columns.
fn quad_of_rows<'a>(cut: &Cut<'a>, quad: usize) -> [&'a [u8; COLUMNS_BYTES]; QUAD] {
    let Cut { image, row, column, .. } = *cut;
    let last_row = image.extent().height as usize - 1;
    std::array::from_fn(|n| {
        let row = (row + quad * QUAD + n).min(last_row);
        // Columns beyond the image are the next row's, or the slack.
        let from = &image.padded()[row * image.row_bytes() + 3 * column..];
        from.first_chunk().expect("the slack is longer")
    })
}

/// Four pixels of a row, from pixel `4 * four` of 16 on.
#[inline]
#[target_feature(enable = "sse2")]
fn four_pixels(row: &[u8; COLUMNS_BYTES], four: usize) -> __m128i {
    load_16(row[four * PIXELS_BYTES..].first_chunk().expect("four bytes more"))
}

/// Exchanges rows and columns of 4 x 4 bytes.
#[inline]
#[target_feature(enable = "sse2")]
fn by_column() -> __m128i {
    _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
}

#[target_feature(enable = "avx2")]
fn cut_columns_avx2(cut: &Cut<'_>, out: &mut [u8]) {
    let (red, rest) = out.split_at_mut(cut.quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(cut.quads * BLOCK_BYTES);
    let by_channel = _mm256_broadcastsi128_si256(by_channel());
    let by_column = _mm256_broadcastsi128_si256(by_column());
    let blocks = red.as_chunks_mut::<32>().0.chunks_exact_mut(2);
    let blocks = blocks.zip(green.as_chunks_mut::<32>().0.chunks_exact_mut(2));
    let blocks = blocks.zip(blue.as_chunks_mut::<32>().0.chunks_exact_mut(2));
    for (quad, ((red, green), blue)) in blocks.enumerate() {
        let rows = quad_of_rows(cut, quad);
        for half in 0..2 {
            let mut fours = [_mm256_setzero_si256(); 4];
            for (four, row) in fours.iter_mut().zip(rows) {
                let (first, second) = (four_pixels(row, 2 * half), four_pixels(row, 2 * half + 1));
                *four = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), by_channel);
            }
            // The fourth is empty.
            let [of_red, of_green, of_blue, _] = transposed(fours);
            store_32(&mut red[half], _mm256_shuffle_epi8(of_red, by_column));
            store_32(&mut green[half], _mm256_shuffle_epi8(of_green, by_column));
            store_32(&mut blue[half], _mm256_shuffle_epi8(of_blue, by_column));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn cut_columns_avx512(cut: &Cut<'_>, out: &mut [u8]) {
    let (red, rest) = out.split_at_mut(cut.quads * BLOCK_BYTES);
    let (green, blue) = rest.split_at_mut(cut.quads * BLOCK_BYTES);
    let by_channel = _mm512_broadcast_i32x4(by_channel());
    let by_column = _mm512_broadcast_i32x4(by_column());
    let blocks = red.as_chunks_mut::<BLOCK_BYTES>().0.iter_mut();
    let blocks = blocks.zip(green.as_chunks_mut::<BLOCK_BYTES>().0);
    let blocks = blocks.zip(blue.as_chunks_mut::<BLOCK_BYTES>().0);
    for (quad, ((red, green), blue)) in blocks.enumerate() {
        let rows = quad_of_rows(cut, quad);
        let mut fours = [_mm512_setzero_si512(); 4];
        for (four, row) in fours.iter_mut().zip(rows) {
            let pixels = _mm512_castsi128_si512(four_pixels(row, 0));
            let pixels = _mm512_inserti32x4::<1>(pixels, four_pixels(row, 1));
            let pixels = _mm512_inserti32x4::<2>(pixels, four_pixels(row, 2));
            let pixels = _mm512_inserti32x4::<3>(pixels, four_pixels(row, 3));
            *four = _mm512_shuffle_epi8(pixels, by_channel);
        }
        let [of_red, of_green, of_blue] = by_colour(fours);
        store_64(red, _mm512_shuffle_epi8(of_red, by_column));
        store_64(green, _mm512_shuffle_epi8(of_green, by_column));
        store_64(blue, _mm512_shuffle_epi8(of_blue, by_column));
    }
}

/// Rows and columns of words exchanged, in each quarter of the vectors on its own; the fourth, which
/// is empty, is left out.
#[inline]
#[target_feature(enable = "avx512f")]
fn by_colour([a, b, c, d]: [__m512i; 4]) -> [__m512i; 3] {
    let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
    let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
    ]
}

#[target_feature(enable = "avx2")]
fn turn_compiled(columns: &[u8], out: &mut [u8]) {
    let (columns, _) = columns.as_chunks::<LANE_BLOCK>();
    let (first, rest) = out.split_at_mut(columns.len() * QUAD);
    let (second, rest) = rest.split_at_mut(columns.len() * QUAD);
    let (third, fourth) = rest.split_at_mut(columns.len() * QUAD);
    let (first, _) = first.as_chunks_mut::<32>();
    let (second, _) = second.as_chunks_mut::<32>();
    let (third, _) = third.as_chunks_mut::<32>();
    let (fourth, _) = fourth.as_chunks_mut::<32>();
    let (eights, _) = columns.as_chunks::<8>();
    let quads = first.iter_mut().zip(second).zip(third).zip(fourth);
    for (eight, (((first, second), third), fourth)) in eights.iter().zip(quads) {
        let mut pairs = [_mm256_setzero_si256(); 4];
        for n in 0..4 {
            pairs[n] = _mm256_set_m128i(load_16(&eight[n + 4]), load_16(&eight[n]));
        }
        let [a, b, c, d] = transposed(pairs);
        store_32(first, a);
        store_32(second, b);
        store_32(third, c);
        store_32(fourth, d);
    }
}

/// Rows and columns of words exchanged, in each half of the vectors on its own.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let low = [_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d)];
    let high = [_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d)];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}

#[target_feature(enable = "avx2")]
fn upright_compiled(columns: &[u8], lanes: usize, plane: &mut [u8], width: usize) {
    let done = width / LANE_BLOCK * LANE_BLOCK;
    for left in (0..done).step_by(LANE_BLOCK) {
        for (number, rows) in plane.chunks_mut(LANE_BLOCK * width).enumerate() {
            let mut block = [_mm_setzero_si128(); LANE_BLOCK];
            for (n, column) in block.iter_mut().enumerate() {
                let from = &columns[(left + n) * lanes + number * LANE_BLOCK..];
                *column = load_16(from.first_chunk().expect("lanes are whole blocks"));
            }
            for (row, bytes) in rows.chunks_exact_mut(width).zip(exchanged(block)) {
                store_16(row[left..].first_chunk_mut().expect("a whole block"), bytes);
            }
        }
    }
    upright_from(columns, lanes, plane, width, done);
}

/// Rows and columns of 16 x 16 bytes exchanged.
#[inline]
#[target_feature(enable = "sse2")]
fn exchanged(mut block: [__m128i; LANE_BLOCK]) -> [__m128i; LANE_BLOCK] {
    // Each round puts the bytes of vectors n and n + 8 side by side; after four of them a byte's
    // vector and place have changed roles.
    for _ in 0..4 {
        let before = block;
        for n in 0..LANE_BLOCK / 2 {
            let (first, second) = (before[n], before[n + LANE_BLOCK / 2]);
            block[2 * n] = _mm_unpacklo_epi8(first, second);
            block[2 * n + 1] = _mm_unpackhi_epi8(first, second);
        }
    }
    block
}
