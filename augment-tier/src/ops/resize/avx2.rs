//! The passes in AVX2, and the rearranging of bytes that AVX-512 shares. Equal to `plain`: a
//! weight is split into an upper part and 12 lower bits, each summed on its own in 32 bits.

use std::arch::x86_64::*;

use crate::image::RgbImage;
use crate::ops::resize::quads::{LANE_BLOCK, Pass, QUAD, QuadSpan, Quads, Turn};
use crate::ops::resize::taps::PRECISION_BITS;
use crate::simd::Avx2;
use crate::simd::x86::{load_16, store_16, store_32};

/// Bits of the lower part of a weight; both parts fit in signed 16 bits.
const LOW_BITS: u32 = 12;

/// The upper parts of four weights in two words, then the lower parts.
pub(super) fn pack(weights: [i32; QUAD]) -> [u32; QUAD] {
    let high = weights.map(|w| (w >> LOW_BITS) as u16);
    let low = weights.map(|w| (w & ((1 << LOW_BITS) - 1)) as u16);
    let word = |a: u16, b: u16| u32::from(a) | u32::from(b) << 16;
    [word(high[0], high[1]), word(high[2], high[3]), word(low[0], low[1]), word(low[2], low[3])]
}

/// One pass over one channel.
pub(super) fn pass(_: Avx2, pass: &Pass<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { pass_compiled(pass, out) }
}

/// Cuts an image into quads of columns.
pub(super) fn cut(_: Avx2, image: &RgbImage, quads: &mut Quads) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { cut_compiled(image, quads) }
}

/// Turns `u8[lanes][positions]` into quads of positions.
pub(super) fn turn(_: Avx2, turn: &Turn<'_>, out: &mut [u8]) {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { turn_compiled(turn, out) }
}

#[target_feature(enable = "avx2")]
fn pass_compiled(pass: &Pass<'_>, out: &mut [u8]) {
    assert!(pass.lanes.is_multiple_of(LANE_BLOCK), "{} lanes", pass.lanes);
    for (span, out) in pass.taps.spans.iter().zip(out.chunks_exact_mut(pass.out_stride)) {
        let (blocks, _) = out[..pass.lanes].as_chunks_mut::<LANE_BLOCK>();
        for (number, block) in blocks.iter_mut().enumerate() {
            store_16(block, sixteen(pass, span, number * LANE_BLOCK));
        }
    }
}

/// 16 lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(pass: &Pass<'_>, span: &QuadSpan, lane: usize) -> __m128i {
    // Each vector holds four lanes, each in two halves that are added at the end.
    let mut high = [_mm256_setzero_si256(); 4];
    let mut low = [_mm256_setzero_si256(); 4];
    let mut at = span.first_quad * pass.quad_stride + lane * QUAD;
    for word in &pass.taps.words[span.start..span.end] {
        let upper = _mm256_set1_epi64x(i64::from(word[0]) | i64::from(word[1]) << 32);
        let lower = _mm256_set1_epi64x(i64::from(word[2]) | i64::from(word[3]) << 32);
        let (vectors, _) = pass.source[at..][..LANE_BLOCK * QUAD].as_chunks::<16>();
        for n in 0..4 {
            let taps = _mm256_cvtepu8_epi16(load_16(&vectors[n]));
            high[n] = _mm256_add_epi32(high[n], _mm256_madd_epi16(taps, upper));
            low[n] = _mm256_add_epi32(low[n], _mm256_madd_epi16(taps, lower));
        }
        at += pass.quad_stride;
    }
    let half = _mm256_set1_epi32(1 << (PRECISION_BITS - 1));
    let mut eights = [_mm256_setzero_si256(); 2];
    for (n, eight) in eights.iter_mut().enumerate() {
        let whole = [2 * n, 2 * n + 1].map(|n| {
            _mm256_add_epi32(_mm256_slli_epi32::<{ LOW_BITS as i32 }>(high[n]), low[n])
        });
        let sums = _mm256_hadd_epi32(whole[0], whole[1]);
        let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(sums);
        let rounded = _mm256_add_epi32(in_order, half);
        *eight = _mm256_srai_epi32::<{ PRECISION_BITS as i32 }>(rounded);
    }
    let words = _mm256_packs_epi32(eights[0], eights[1]);
    let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
    _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words))
}

#[target_feature(enable = "avx2")]
fn cut_compiled(image: &RgbImage, quads: &mut Quads) {
    quads.reset(image.extent());
    let Quads { bytes, quads, lanes } = quads;
    let (row_bytes, last_row) = (image.row_bytes(), image.extent().height as usize - 1);
    // R R R R G G G G B B B B out of four pixels.
    let by_channel = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1,
    ));
    let channel_stride = *quads * *lanes * QUAD;
    for row in (0..*lanes).step_by(8) {
        // Rows beyond the image repeat its last one; they are never weighed.
        let starts: [usize; 8] = std::array::from_fn(|n| (row + n).min(last_row) * row_bytes);
        let rows = starts.map(|start| &image.padded()[start..]);
        for quad in 0..*quads {
            let mut pairs = [_mm256_setzero_si256(); 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                let both = load_two(rows[n], rows[n + 4], quad * 3 * QUAD);
                *pair = _mm256_shuffle_epi8(both, by_channel);
            }
            // The fourth is empty.
            let [red, green, blue, _] = transposed(pairs);
            let at = (quad * *lanes + row) * QUAD;
            for (channel, vector) in [red, green, blue].into_iter().enumerate() {
                let to = &mut bytes[channel * channel_stride + at..];
                store_32(to.first_chunk_mut().expect("a block of lanes"), vector);
            }
        }
    }
}

#[target_feature(enable = "avx2")]
fn turn_compiled(turn: &Turn<'_>, out: &mut [u8]) {
    let Turn { source, lanes, positions } = *turn;
    assert!(lanes.is_multiple_of(LANE_BLOCK) && positions.is_multiple_of(16), "whole blocks");
    for lane in (0..lanes).step_by(8) {
        for position in (0..positions).step_by(16) {
            let mut pairs = [_mm256_setzero_si256(); 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                let first = &source[(lane + n) * positions..];
                *pair = load_two(first, &first[4 * positions..], position);
            }
            for (n, vector) in transposed(pairs).into_iter().enumerate() {
                let at = ((position / QUAD + n) * lanes + lane) * QUAD;
                store_32(out[at..].first_chunk_mut().expect("a block of lanes"), vector);
            }
        }
    }
}

/// 16 bytes from `at` on of each of two rows.
#[inline]
#[target_feature(enable = "avx2")]
fn load_two(low: &[u8], high: &[u8], at: usize) -> __m256i {
    let low = load_16(low[at..].first_chunk().expect("a block and slack"));
    let high = load_16(high[at..].first_chunk().expect("a block and slack"));
    _mm256_set_m128i(high, low)
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
