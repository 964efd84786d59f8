//! Levels looked up in a table that is held in registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::simd::Vbmi;
use crate::simd::x86::{load_64, store_64};

/// Values of a vector.
const LANES: usize = 64;

/// Puts what the table has for a value in its place.
pub(super) fn map(_: Vbmi, values: &mut [u8], table: &[u8; 256]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(values, table) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn compiled(values: &mut [u8], table: &[u8; 256]) {
    let (quarters, _) = table.as_chunks::<LANES>();
    let [a, b, c, d] = [0, 1, 2, 3].map(|n| load_64(&quarters[n]));
    let (vectors, rest) = values.as_chunks_mut::<LANES>();
    for vector in vectors {
        let levels = load_64(vector);
        // The lookups go by the lower seven bits; the highest chooses between them.
        let low = _mm512_permutex2var_epi8(a, levels, b);
        let high = _mm512_permutex2var_epi8(c, levels, d);
        store_64(vector, _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(levels), high));
    }
    for value in rest {
        *value = table[usize::from(*value)];
    }
}
