//! Four registers hold the table.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::simd::Vbmi;
use crate::simd::x86::{load_64, store_64};

/// Values of a vector.
const LANES: usize = 64;

/// A table in registers.
pub(in crate::ops) type Quarters = [__m512i; 4];

/// Puts what the table has for each value in its place.
pub(super) fn map(_: Vbmi, values: &mut [u8], table: &[u8; 256]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { in_place(values, table) }
}

/// Writes what the table has for each value; what is left of the longer of the two stays as it is.
pub(super) fn map_into(_: Vbmi, values: &[u8], table: &[u8; 256], to: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { elsewhere(values, table, to) }
}

/// Writes the word that the table has for each value, little-endian; what is left of the longer of the two stays
/// as it is.
pub(super) fn map_into_words(_: Vbmi, values: &[u8], table: &[[u8; 256]; 2], to: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { words_elsewhere(values, table, to) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn in_place(values: &mut [u8], table: &[u8; 256]) {
    let quarters = quarters(table);
    let (vectors, rest) = values.as_chunks_mut::<LANES>();
    for vector in vectors {
        store_64(vector, found(load_64(vector), quarters));
    }
    for value in rest {
        *value = table[usize::from(*value)];
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn elsewhere(values: &[u8], table: &[u8; 256], to: &mut [u8]) {
    let quarters = quarters(table);
    let (vectors, rest) = values.as_chunks::<LANES>();
    let (places, places_left) = to.as_chunks_mut::<LANES>();
    for (vector, place) in vectors.iter().zip(places) {
        store_64(place, found(load_64(vector), quarters));
    }
    for (value, place) in rest.iter().zip(places_left) {
        *place = table[usize::from(*value)];
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn words_elsewhere(values: &[u8], table: &[[u8; 256]; 2], to: &mut [u8]) {
    let (lower, upper) = (quarters(&table[0]), quarters(&table[1]));
    // So that the lower halves of all lanes make the first vector of words.
    let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    let (vectors, rest) = values.as_chunks::<LANES>();
    let (places, _) = to.as_chunks_mut::<LANES>();
    for (vector, [first, second]) in vectors.iter().zip(places.as_chunks_mut().0) {
        let levels = _mm512_permutexvar_epi64(order, load_64(vector));
        let (lower, upper) = (found(levels, lower), found(levels, upper));
        store_64(first, _mm512_unpacklo_epi8(lower, upper));
        store_64(second, _mm512_unpackhi_epi8(lower, upper));
    }
    let (_, words) = to.split_at_mut(2 * (values.len() - rest.len()));
    for (value, word) in rest.iter().zip(words.as_chunks_mut().0) {
        *word = table.each_ref().map(|bytes| bytes[usize::from(*value)]);
    }
}

/// A table to registers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::ops) fn quarters(table: &[u8; 256]) -> Quarters {
    let (quarters, _) = table.as_chunks::<LANES>();
    [0, 1, 2, 3].map(|n| load_64(&quarters[n]))
}

/// What the table has for each of 64 values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(in crate::ops) fn found(levels: __m512i, [a, b, c, d]: Quarters) -> __m512i {
    // The lookups go by the lower seven bits; the highest chooses between them.
    let low = _mm512_permutex2var_epi8(a, levels, b);
    let high = _mm512_permutex2var_epi8(c, levels, d);
    _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(levels), high)
}
