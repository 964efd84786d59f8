//! The passes in AVX-512 with VNNI. Equal to `plain`: the sum of a weight's three signed digits
//! to the base 256, each summed on its own in 32 bits, is the same integer.

use std::arch::x86_64::*;

use crate::ops::resize::quads::{BLOCK_BYTES, LANE_BLOCK, Pass, QUAD, QuadSpan};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Avx512;
use crate::simd::x86::{load_64, store_16, store_64};

/// The four weights as three words, the lowest digits first: each word holds one digit of all
/// four.
pub(super) fn pack(weights: [i32; QUAD]) -> [u32; QUAD] {
    let mut words = [0; QUAD];
    let mut rest = weights;
    for word in words.iter_mut().take(3) {
        let digits = rest.map(|r| r as i8);
        *word = u32::from_le_bytes(digits.map(|d| d as u8));
        rest = std::array::from_fn(|tap| (rest[tap] - i32::from(digits[tap])) >> 8);
    }
    words
}

/// The horizontal pass over one block of lanes of three channels.
pub(super) fn pass_across(_: Avx512, pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { across_compiled(pass, out, channel_stride) }
}

/// The vertical pass over one channel.
pub(super) fn pass_down(_: Avx512, pass: &Pass<'_, 1>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { down_compiled(pass, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn across_compiled(pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
    let (red, rest) = out.split_at_mut(channel_stride);
    let (green, blue) = rest.split_at_mut(channel_stride);
    let out = [red, green, blue].map(|channel| channel.as_chunks_mut::<LANE_BLOCK>().0);
    let [red, green, blue] = out;
    let positions = red.iter_mut().zip(green).zip(blue);
    for (span, ((red, green), blue)) in pass.taps.spans.iter().zip(positions) {
        let blocks = pass.sources.map(|source| Blocks { source, start: 0 });
        let sums = weighed(blocks, pass, span);
        store_16(red, _mm512_cvtusepi32_epi8(sums[0]));
        store_16(green, _mm512_cvtusepi32_epi8(sums[1]));
        store_16(blue, _mm512_cvtusepi32_epi8(sums[2]));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn down_compiled(pass: &Pass<'_, 1>, out: &mut [u8]) {
    assert!(pass.lanes.is_multiple_of(LANE_BLOCK), "{} lanes", pass.lanes);
    for (span, out) in pass.taps.spans.iter().zip(out.chunks_exact_mut(pass.lanes)) {
        let mut lane = 0;
        while lane + 4 * LANE_BLOCK <= pass.lanes {
            let sums = weighed(blocks::<4>(pass, lane), pass, span);
            let bytes = _mm512_packus_epi16(
                _mm512_packs_epi32(sums[0], sums[1]),
                _mm512_packs_epi32(sums[2], sums[3]),
            );
            // Packing goes by quarters of a vector; put the quarters of each sum together.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let to = out[lane..].first_chunk_mut().expect("64 lanes");
            store_64(to, _mm512_permutexvar_epi32(order, bytes));
            lane += 4 * LANE_BLOCK;
        }
        let (rest, _) = out[lane..].as_chunks_mut::<LANE_BLOCK>();
        match rest {
            [a, b, c] => {
                let sums = weighed(blocks::<3>(pass, lane), pass, span);
                store_16(a, _mm512_cvtusepi32_epi8(sums[0]));
                store_16(b, _mm512_cvtusepi32_epi8(sums[1]));
                store_16(c, _mm512_cvtusepi32_epi8(sums[2]));
            }
            [a, b] => {
                let sums = weighed(blocks::<2>(pass, lane), pass, span);
                store_16(a, _mm512_cvtusepi32_epi8(sums[0]));
                store_16(b, _mm512_cvtusepi32_epi8(sums[1]));
            }
            [a] => {
                let sums = weighed(blocks::<1>(pass, lane), pass, span);
                store_16(a, _mm512_cvtusepi32_epi8(sums[0]));
            }
            _ => {}
        }
    }
}

/// A block of lanes through all quads.
#[derive(Clone, Copy)]
struct Blocks<'a> {
    source: &'a [u8],
    /// Where the block is in each quad, in bytes.
    start: usize,
}

/// `N` blocks side by side, from `lane` on.
#[inline(always)]
fn blocks<'a, const N: usize>(pass: &Pass<'a, 1>, lane: usize) -> [Blocks<'a>; N] {
    let [source] = pass.sources;
    std::array::from_fn(|n| Blocks { source, start: (lane + n * LANE_BLOCK) * QUAD })
}

/// `N` vectors of 16 rounded sums, none below 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn weighed<const N: usize, const CHANNELS: usize>(
    blocks: [Blocks<'_>; N],
    pass: &Pass<'_, CHANNELS>,
    span: &QuadSpan,
) -> [__m512i; N] {
    let mut low = [_mm512_set1_epi32(1 << (PRECISION_BITS - 1)); N];
    let mut middle = [_mm512_setzero_si512(); N];
    let mut high = [_mm512_setzero_si512(); N];
    let mut at = span.first_quad * pass.quad_stride;
    for word in &pass.taps.words[span.start..span.end] {
        let digits = [
            _mm512_set1_epi32(word[0] as i32),
            _mm512_set1_epi32(word[1] as i32),
            _mm512_set1_epi32(word[2] as i32),
        ];
        for n in 0..N {
            let bytes = &blocks[n].source[blocks[n].start + at..][..BLOCK_BYTES];
            let taps = load_64(bytes.first_chunk().expect("a block"));
            low[n] = _mm512_dpbusd_epi32(low[n], taps, digits[0]);
            middle[n] = _mm512_dpbusd_epi32(middle[n], taps, digits[1]);
            high[n] = _mm512_dpbusd_epi32(high[n], taps, digits[2]);
        }
        at += pass.quad_stride;
    }
    for n in 0..N {
        let upper = _mm512_add_epi32(_mm512_slli_epi32::<8>(high[n]), middle[n]);
        let sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(upper), low[n]);
        let rounded = _mm512_srai_epi32::<PRECISION_BITS>(sum);
        low[n] = _mm512_max_epi32(rounded, _mm512_setzero_si512());
    }
    low
}
