//! Bytes put in the order that the passes want. Nothing is computed here.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::ops::resize::layout::{BLOCK_BYTES, Cut, LANE_BLOCK, QUAD, Quads, upright_from};
use crate::simd::x86::{load_16, store_16, store_32, store_64};
use crate::simd::{Avx2, Avx512};

/// Cuts 16 rows or 16 columns of a plane into `u8[quads, 16, 4]`.
pub(super) fn cut(_: Avx2, cut: &Cut<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe {
        match cut.of {
            Quads::Columns => cut_rows(cut, out),
            Quads::Rows => cut_columns(cut, out),
        }
    }
}

/// As [`cut`], all 16 rows at once.
pub(super) fn cut_avx512(_: Avx512, cut: &Cut<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX-512.
    unsafe {
        match cut.of {
            Quads::Columns => cut_rows_avx512(cut, out),
            Quads::Rows => cut_columns(cut, out),
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

#[target_feature(enable = "avx2")]
fn cut_rows(cut: &Cut<'_>, out: &mut [u8]) {
    let (halves, _) = out.as_chunks_mut::<32>();
    let (fours, _) = halves.as_chunks_mut::<8>();
    for (number, four) in fours.iter_mut().enumerate() {
        let column = number * LANE_BLOCK;
        for half in 0..2 {
            let mut pairs = [_mm256_setzero_si256(); 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                let row = 8 * half + n;
                let (low, high) = (cut.bytes(row, column), cut.bytes(row + 4, column));
                *pair = _mm256_set_m128i(load_16(high), load_16(low));
            }
            for (n, quad) in transposed(pairs).into_iter().enumerate() {
                store_32(&mut four[2 * n + half], quad);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn cut_rows_avx512(cut: &Cut<'_>, out: &mut [u8]) {
    let (quads, _) = out.as_chunks_mut::<BLOCK_BYTES>();
    let (fours, _) = quads.as_chunks_mut::<QUAD>();
    for (number, four) in fours.iter_mut().enumerate() {
        let column = number * LANE_BLOCK;
        let mut rows = [_mm512_setzero_si512(); QUAD];
        for (n, row) in rows.iter_mut().enumerate() {
            let low = _mm512_castsi128_si512(load_16(cut.bytes(n, column)));
            let low = _mm512_inserti32x4::<1>(low, load_16(cut.bytes(n + 4, column)));
            let low = _mm512_inserti32x4::<2>(low, load_16(cut.bytes(n + 8, column)));
            *row = _mm512_inserti32x4::<3>(low, load_16(cut.bytes(n + 12, column)));
        }
        let [a, b, c, d] = rows;
        let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
        let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
        store_64(&mut four[0], _mm512_unpacklo_epi64(low[0], low[1]));
        store_64(&mut four[1], _mm512_unpackhi_epi64(low[0], low[1]));
        store_64(&mut four[2], _mm512_unpacklo_epi64(high[0], high[1]));
        store_64(&mut four[3], _mm512_unpackhi_epi64(high[0], high[1]));
    }
}

#[target_feature(enable = "avx2")]
fn cut_columns(cut: &Cut<'_>, out: &mut [u8]) {
    let (fours, _) = out.as_chunks_mut::<LANE_BLOCK>();
    let (quads, _) = fours.as_chunks_mut::<QUAD>();
    for (number, places) in quads.iter_mut().enumerate() {
        let rows = [0, 1, 2, 3].map(|n| load_16(cut.bytes(number * QUAD + n, 0)));
        let [a, b, c, d] = rows;
        let upper = [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)];
        let lower = [_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d)];
        for n in 0..2 {
            store_16(&mut places[2 * n], _mm_unpacklo_epi16(upper[n], lower[n]));
            store_16(&mut places[2 * n + 1], _mm_unpackhi_epi16(upper[n], lower[n]));
        }
    }
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
