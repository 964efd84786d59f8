//! Unstuffing by 64 bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_simd::Vbmi2;
use headwater_simd::x86::load_64;

use super::Copied;

/// Copies up to the first 64 bytes that hold a marker, or to the last 64. `to` has a vector's room beyond what `scan` needs.
pub(super) fn copy(_proof: Vbmi2, scan: &[u8], to: &mut [u8]) -> Copied {
    // SAFETY: the proof exists only where the processor has these sets.
    unsafe { copy_vectors(scan, to) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn copy_vectors(scan: &[u8], to: &mut [u8]) -> Copied {
    let ones = _mm512_set1_epi8(-1);
    let (mut read, mut written) = (0, 0);
    // One byte is kept back, so that what follows a last 0xff is always looked at here.
    while let Some(chunk) = scan.get(read..read + 65)
        && let Some((bytes, &[next])) = chunk.split_first_chunk::<64>()
        && let Some(room) = to.get_mut(written..written + 64)
    {
        let vector = load_64(bytes);
        let escapes = _mm512_cmpeq_epi8_mask(vector, ones);
        let zeros = _mm512_testn_epi8_mask(vector, vector);
        // Only the second of a pair may be in the next vector: then that vector begins one later.
        let pairs = escapes << 1;
        if pairs & !zeros != 0 || (escapes >> 63 == 1 && next != 0) {
            break;
        }
        let kept = !pairs;
        let packed = _mm512_maskz_compress_epi8(kept, vector);
        // SAFETY: `room` covers the 64 bytes that are written; no alignment is asked for.
        unsafe { _mm512_storeu_si512(room.as_mut_ptr().cast(), packed) };
        written += kept.count_ones() as usize;
        read += 64 + (escapes >> 63) as usize;
    }
    Copied { read, written }
}
