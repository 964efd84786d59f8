//! Filter weights of 16 outputs at a time, as bytes that the passes multiply by.
//!
//! See `taps` for what is computed: each output's numbers go through the same operations in the same
//! order as there, so that they are the same to the last bit.

use std::arch::x86_64::*;

use headwater_core::draw::Filter as Kind;

use crate::ops::resize::taps::{Filter, PRECISION_BITS};
use crate::ops::resize::windows::{LANES, QUAD, VECTOR};
use crate::simd::x86::store_64;

/// A vector in memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; VECTOR]);

/// The weights of a quad of taps for 16 outputs: digits to the base 256, the lowest first, each
/// `i8[16, 4]`.
pub(super) type Digits = [Line; 3];

/// Memory between axes.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// For each tap those of 16 outputs before they are divided by their sum.
    shares: Vec<[__m512d; 2]>,
}

/// 16 outputs: where their filters lie over the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    centres: [__m512d; 2],
    /// The first source position of each, and one past the last.
    pub(super) firsts: __m512i,
    pub(super) ends: __m512i,
}

impl Default for Line {
    fn default() -> Self {
        Self([0; VECTOR])
    }
}

/// 0 to 15.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn counted() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn to_f64(numbers: __m512i) -> [__m512d; 2] {
    [
        _mm512_cvtepi32_pd(_mm512_castsi512_si256(numbers)),
        _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64::<1>(numbers)),
    ]
}

/// Numbers without their fractions.
#[inline]
#[target_feature(enable = "avx512f")]
fn to_i32(numbers: [__m512d; 2]) -> __m512i {
    let [low, high] = numbers.map(|numbers| _mm512_cvttpd_epi32(numbers));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

// === impl Spans ===

impl Spans {
    /// As `Filter::span` of each position.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn of(filter: &Filter, positions: __m512i) -> Self {
        let (half, step) = (_mm512_set1_pd(0.5), _mm512_set1_pd(filter.step));
        let (begin, support) = (_mm512_set1_pd(filter.begin), _mm512_set1_pd(filter.support));
        let centres = to_f64(positions).map(|position| {
            _mm512_add_pd(begin, _mm512_mul_pd(_mm512_add_pd(position, half), step))
        });
        let firsts = centres.map(|centre| {
            let first = _mm512_add_pd(_mm512_sub_pd(centre, support), half);
            _mm512_max_pd(first, _mm512_setzero_pd())
        });
        let ends = centres.map(|centre| _mm512_add_pd(_mm512_add_pd(centre, support), half));
        let ends = _mm512_min_epi32(to_i32(ends), _mm512_set1_epi32(filter.len as i32));
        Self { centres, firsts: to_i32(firsts), ends }
    }
}

// === impl Scratch ===

impl Scratch {
    /// Writes the weights of `spans` as quads of taps, the first tap of each output at source position
    /// `starts`, which is not beyond the first that it has; what is not in its span has weight 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn write(
        &mut self,
        filter: &Filter,
        spans: &Spans,
        starts: __m512i,
        digits: &mut [Digits],
    ) {
        let inverse_scale = _mm512_set1_pd(1.0 / filter.scale);
        let (half, zero) = (_mm512_set1_pd(0.5), _mm512_setzero_pd());
        let (from, is_cubic) = (to_f64(starts), filter.kind == Kind::Bicubic);
        let mut sums = [zero; 2];
        self.shares.clear();
        for tap in 0..digits.len() * QUAD {
            let at = _mm512_add_epi32(starts, _mm512_set1_epi32(tap as i32));
            let within =
                _mm512_cmple_epi32_mask(spans.firsts, at) & _mm512_cmplt_epi32_mask(at, spans.ends);
            let mut shares = [zero; 2];
            for n in 0..2 {
                let at = _mm512_add_pd(from[n], _mm512_set1_pd(tap as f64));
                let from_centre = _mm512_add_pd(_mm512_sub_pd(at, spans.centres[n]), half);
                let x = _mm512_mul_pd(from_centre, inverse_scale);
                let share = if is_cubic { bicubic(x) } else { bilinear(x) };
                shares[n] = _mm512_maskz_mov_pd((within >> (8 * n)) as u8, share);
                sums[n] = _mm512_add_pd(sums[n], shares[n]);
            }
            self.shares.push(shares);
        }
        let sums = sums.map(|sum| {
            let none = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(sum, zero);
            _mm512_mask_mov_pd(sum, none, _mm512_set1_pd(1.0))
        });
        for (shares, digits) in self.shares.as_chunks::<QUAD>().0.iter().zip(digits) {
            *digits = digits_of(shares.map(|shares| fixed(shares, sums)));
        }
    }
}

/// As `taps::bilinear`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn bilinear(x: __m512d) -> __m512d {
    let left = _mm512_sub_pd(_mm512_set1_pd(1.0), _mm512_abs_pd(x));
    _mm512_max_pd(left, _mm512_setzero_pd())
}

/// As `taps::bicubic`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn bicubic(x: __m512d) -> __m512d {
    let (one, two) = (_mm512_set1_pd(1.0), _mm512_set1_pd(2.0));
    let x = _mm512_abs_pd(x);
    let near = _mm512_sub_pd(_mm512_mul_pd(_mm512_set1_pd(1.5), x), _mm512_set1_pd(2.5));
    let near = _mm512_add_pd(_mm512_mul_pd(_mm512_mul_pd(near, x), x), one);
    let far = _mm512_mul_pd(_mm512_sub_pd(x, _mm512_set1_pd(5.0)), x);
    let far = _mm512_mul_pd(_mm512_add_pd(far, _mm512_set1_pd(8.0)), x);
    let far = _mm512_mul_pd(_mm512_sub_pd(far, _mm512_set1_pd(4.0)), _mm512_set1_pd(-0.5));
    let beyond = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_LT_OQ>(x, two), far);
    _mm512_mask_mov_pd(beyond, _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x, one), near)
}

/// As `taps::fixed` of the quotients.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn fixed(shares: [__m512d; 2], sums: [__m512d; 2]) -> __m512i {
    let (half, sign) = (_mm512_set1_pd(0.5), _mm512_set1_pd(-0.0));
    let mut rounded = shares;
    for (share, sum) in rounded.iter_mut().zip(sums) {
        *share = _mm512_div_pd(*share, sum);
        let half = _mm512_or_pd(half, _mm512_and_pd(*share, sign));
        let one = _mm512_set1_pd(f64::from(1 << PRECISION_BITS));
        *share = _mm512_add_pd(_mm512_mul_pd(*share, one), half);
    }
    to_i32(rounded)
}

/// The digits of four taps' weights.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn digits_of(weights: [__m512i; QUAD]) -> Digits {
    // Half of the base is added to each digit, so that it carries to the next, and taken away again.
    let halves = _mm512_set1_epi32(0x0080_8080);
    let [a, b, c, d] =
        weights.map(|weights| _mm512_xor_si512(_mm512_add_epi32(weights, halves), halves));
    let odd = 0xaaaa_aaaa;
    let low = [
        _mm512_mask_blend_epi16(odd, a, _mm512_slli_epi32::<16>(b)),
        _mm512_mask_blend_epi16(odd, c, _mm512_slli_epi32::<16>(d)),
    ];
    let high = [
        _mm512_mask_blend_epi16(odd, _mm512_srli_epi32::<16>(a), b),
        _mm512_mask_blend_epi16(odd, _mm512_srli_epi32::<16>(c), d),
    ];
    // The lower bytes of the four words of each lane.
    let lower = _mm512_add_epi32(
        _mm512_mullo_epi32(counted(), _mm512_set1_epi32(0x0404_0404)),
        _mm512_set1_epi32(0x4240_0200),
    );
    let upper = _mm512_add_epi32(lower, _mm512_set1_epi32(0x0101_0101));
    let mut digits = Digits::default();
    store_64(&mut digits[0].0, _mm512_permutex2var_epi8(low[0], lower, low[1]));
    store_64(&mut digits[1].0, _mm512_permutex2var_epi8(low[0], upper, low[1]));
    store_64(&mut digits[2].0, _mm512_permutex2var_epi8(high[0], lower, high[1]));
    digits
}

/// The weights of an output, by taps.
#[cfg(test)]
pub(super) fn of_output(digits: &[Digits], lane: usize) -> impl Iterator<Item = i32> + Clone {
    let tap = move |quad: &Digits, tap: usize| {
        let digit = |n: usize| i32::from(quad[n].of(lane).to_le_bytes()[tap] as i8);
        digit(0) + 256 * (digit(1) + 256 * digit(2))
    };
    digits.iter().flat_map(move |quad| (0..QUAD).map(move |number| tap(quad, number)))
}

// === impl Line ===

impl Line {
    /// The four digits of an output.
    #[inline(always)]
    pub(super) fn of(&self, lane: usize) -> i32 {
        i32::from_le_bytes(self.0.as_chunks::<QUAD>().0[lane % LANES])
    }
}
