//! The inverse DCT in AVX-512: four blocks at a time. Equal to `plain`: a block that passes the check has the same
//! 32-bit integers here.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_simd::Avx512;

use super::pairs::SOURCES;
use super::{BLOCK, MAX_PAIR, MAX_SAMPLE, MIN_SAMPLE, Pick, SIDE, assert_fits};

/// Blocks of one step.
const STEP: usize = 4;
/// Eight rows of four samples in each of four blocks, or as many columns.
type Rows = [__m512i; SIDE];

/// For each place of the order of multiplication, which coefficient in zigzag order is there.
const PLACES: [[i16; BLOCK / 2]; 2] = places();

const fn places() -> [[i16; BLOCK / 2]; 2] {
    let mut places = [[0; BLOCK / 2]; 2];
    let mut n = 0;
    while n < BLOCK {
        places[n / 32][n % 32] = SOURCES[n] as i16;
        n += 1;
    }
    places
}

/// Writes samples as [`super::Idct::blocks`] says, which also says what is returned.
pub(super) fn blocks(
    _: Avx512,
    steps: &[i16; BLOCK],
    coefficients: &mut [[i16; BLOCK]],
    picks: &[Pick],
    plane: &mut [u8],
    stride: usize,
) -> bool {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { compiled(steps, coefficients, picks, plane, stride) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn compiled(
    steps: &[i16; BLOCK],
    coefficients: &mut [[i16; BLOCK]],
    picks: &[Pick],
    plane: &mut [u8],
    stride: usize,
) -> bool {
    let mut checks = Checks::none();
    for picks in picks.chunks(STEP) {
        // The last step repeats its last block.
        let picks: [Pick; STEP] = std::array::from_fn(|n| picks[n.min(picks.len() - 1)]);
        let blocks = picks.map(|pick| pick.block);
        let places = picks.map(|pick| pick.place);
        let values = gathered(blocks.map(|block| &coefficients[block]));
        for block in blocks {
            coefficients[block] = [0; BLOCK];
        }
        let quads = step(steps, values, &mut checks);
        store(&quads, places, plane, stride);
    }
    checks.are_passed()
}

/// What has been seen of the blocks so far.
struct Checks {
    /// All magnitudes of coefficients: the sign is there if one is -32768.
    magnitudes: __m512i,
    /// The largest sums of magnitudes of two columns.
    sums: __m512i,
    /// All samples from the lowest one, in quarters: high bits are there if one is out of range.
    samples: __m512i,
}

// === impl Checks ===

impl Checks {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn none() -> Self {
        let zero = _mm512_setzero_si512();
        Self { magnitudes: zero, sums: zero, samples: zero }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn are_passed(&self) -> bool {
        let above = _mm512_set1_epi16(!(4 * (MAX_SAMPLE - MIN_SAMPLE + 1) - 1) as i16);
        let sums = _mm512_cmpgt_epu32_mask(self.sums, _mm512_set1_epi32(MAX_PAIR as i32));
        let samples = _mm512_test_epi16_mask(self.samples, above);
        sums == 0 && samples == 0 && _mm512_movepi16_mask(self.magnitudes) == 0
    }
}

/// Samples of four blocks. Vector n holds in each of four parts, one for each block, rows 2n and 2n + 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn step(steps: &[i16; BLOCK], coefficients: Rows, checks: &mut Checks) -> [__m512i; 4] {
    let (parts, _) = steps.as_chunks::<SIDE>();
    let mut values = coefficients;
    let mut sums = _mm512_setzero_si512();
    for n in 0..SIDE {
        let steps = _mm512_broadcast_i32x4(load_8(&parts[n]));
        values[n] = _mm512_mullo_epi16(coefficients[n], steps);
        let magnitudes = _mm512_abs_epi16(coefficients[n]);
        sums = products(sums, magnitudes, steps);
        checks.magnitudes = _mm512_or_si512(checks.magnitudes, magnitudes);
    }
    checks.sums = _mm512_max_epu32(checks.sums, sums);

    let rows = first_pass(values);
    let upper = second_pass(transposed([rows[0], rows[1], rows[2], rows[3]]), checks);
    let lower = second_pass(transposed([rows[4], rows[5], rows[6], rows[7]]), checks);
    [upper[0], upper[1], lower[0], lower[1]]
}

/// Bits that are in any of three vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn any(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xfe>(a, b, c)
}

/// Coefficients in the order of multiplication: part n of that order, of all four blocks, in vector n.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn gathered(blocks: [&[i16; BLOCK]; STEP]) -> Rows {
    let sources = [load_32(&PLACES[0]), load_32(&PLACES[1])];
    let mut arranged = [[_mm512_setzero_si512(); STEP]; 2];
    for (n, block) in blocks.into_iter().enumerate() {
        let (halves, _) = block.as_chunks::<{ BLOCK / 2 }>();
        let (first, last) = (load_32(&halves[0]), load_32(&halves[1]));
        arranged[0][n] = _mm512_permutex2var_epi16(first, sources[0], last);
        arranged[1][n] = _mm512_permutex2var_epi16(first, sources[1], last);
    }
    let (low, high) = (turned(arranged[0]), turned(arranged[1]));
    [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]]
}

/// Quarter m of vector n becomes quarter n of vector m.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn turned([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
    let (ab_high, cd_high) =
        (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(ab, cd),
        _mm512_shuffle_i32x4::<0xdd>(ab, cd),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}

/// Row n of the first pass's results in vector n: columns c and c + 4 beside each other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn first_pass(v: Rows) -> Rows {
    const BITS: u32 = 11;
    let half = _mm512_set1_epi32(1 << (BITS - 1));
    let mut left = transform([v[0], v[2], v[4], v[6]], half);
    let right = transform([v[1], v[3], v[5], v[7]], half);
    for n in 0..SIDE {
        let low = _mm512_srli_epi32::<BITS>(left[n]);
        let high = _mm512_slli_epi32::<{ 16 - BITS }>(right[n]);
        left[n] = _mm512_mask_blend_epi16(0xaaaa_aaaa, low, high);
    }
    left
}

/// From four rows of column pairs to the pairs of four rows, as the second pass needs them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn transposed(rows: [__m512i; 4]) -> [__m512i; 4] {
    let a = _mm512_unpacklo_epi32(rows[0], rows[1]);
    let b = _mm512_unpackhi_epi32(rows[0], rows[1]);
    let c = _mm512_unpacklo_epi32(rows[2], rows[3]);
    let d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    [
        _mm512_unpacklo_epi64(a, c),
        _mm512_unpacklo_epi64(b, d),
        _mm512_unpackhi_epi64(a, c),
        _mm512_unpackhi_epi64(b, d),
    ]
}

/// The second pass over four rows: two vectors of two rows each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn second_pass(pairs: [__m512i; 4], checks: &mut Checks) -> [__m512i; 2] {
    let half = _mm512_set1_epi32((128 << 18) + (1 << 17));
    let lowest = _mm512_set1_epi16(-4 * (MIN_SAMPLE + 128) as i16);
    let columns = transform(pairs, half);
    // The upper 16 bits hold two binary places.
    let mut quarters = [half; 4];
    for n in 0..4 {
        let even = _mm512_srli_epi32::<16>(columns[2 * n]);
        quarters[n] = _mm512_mask_blend_epi16(0xaaaa_aaaa, even, columns[2 * n + 1]);
    }
    for n in [0, 2] {
        let above = _mm512_add_epi16(quarters[n], lowest);
        let above_too = _mm512_add_epi16(quarters[n + 1], lowest);
        checks.samples = any(checks.samples, above, above_too);
    }
    for quarters in &mut quarters {
        *quarters = _mm512_srai_epi16::<2>(*quarters);
    }
    let [a, b, c, d] = quarters;
    let order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    let order = _mm512_broadcast_i32x4(order);
    let left = _mm512_shuffle_epi8(_mm512_packus_epi16(a, b), order);
    let right = _mm512_shuffle_epi8(_mm512_packus_epi16(c, d), order);
    [_mm512_unpacklo_epi32(left, right), _mm512_unpackhi_epi32(left, right)]
}

/// The inverse DCT of eight numbers, as in `plain`. Two of the numbers are beside each other; `half` is added to
/// each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn transform([x04, x26, x15, x37]: [__m512i; 4], half: __m512i) -> Rows {
    let sum = two(half, x04, 8192, 8192);
    let difference = two(half, x04, 8192, -8192);
    let even = [
        two(sum, x26, 10703, 4433),
        two(difference, x26, 4433, -10704),
        two(difference, x26, -4433, 10704),
        two(sum, x26, -10703, -4433),
    ];
    let odd = [
        two(_mm512_madd_epi16(x15, both(11363, 6437)), x37, 9633, 2260),
        two(_mm512_madd_epi16(x15, both(9633, -11362)), x37, -2259, -6436),
        two(_mm512_madd_epi16(x15, both(6437, 2261)), x37, -11362, 9633),
        two(_mm512_madd_epi16(x15, both(2260, 9633)), x37, -6436, -11363),
    ];
    let mut results = [half; SIDE];
    for n in 0..4 {
        results[n] = _mm512_add_epi32(even[n], odd[n]);
        results[7 - n] = _mm512_sub_epi32(even[n], odd[n]);
    }
    results
}

/// The sum of `sum` and two products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn two(sum: __m512i, x: __m512i, a: i16, b: i16) -> __m512i {
    products(sum, x, both(a, b))
}

/// `_mm512_dpwssd_epi32`, which the compiler would take apart into a product and a sum: 70 instructions
/// more in each step.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn products(mut sum: __m512i, x: __m512i, factors: __m512i) -> __m512i {
    // SAFETY: the instruction is of the sets that are enabled here, and touches nothing but these registers.
    unsafe {
        std::arch::asm!(
            "vpdpwssd {0}, {1}, {2}",
            inout(zmm_reg) sum, in(zmm_reg) x, in(zmm_reg) factors,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Two factors in each 32 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn both(first: i16, second: i16) -> __m512i {
    _mm512_set1_epi32(i32::from(second) << 16 | i32::from(first as u16))
}

/// Writes the samples of four blocks to their places. Panics if one does not fit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn store(quads: &[__m512i; 4], places: [usize; STEP], plane: &mut [u8], stride: usize) {
    let [a, b, c, d] = places;
    let last = a.max(b).max(c.max(d));
    assert_fits(last, stride, plane);
    if b == a + SIDE && c == b + SIDE && d == c + SIDE {
        let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        for (n, quad) in quads.iter().enumerate() {
            let rows = _mm512_permutexvar_epi64(order, *quad);
            let place = a + 2 * n * stride;
            // SAFETY: the last block's last row ends within the plane, so all 32 bytes of both rows do.
            unsafe {
                let to = plane.as_mut_ptr().add(place);
                _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(rows));
                _mm256_storeu_si256(to.add(stride).cast(), _mm512_extracti64x4_epi64::<1>(rows));
            }
        }
        return;
    }
    for (n, quad) in quads.iter().enumerate() {
        let blocks = [
            _mm512_castsi512_si128(*quad),
            _mm512_extracti32x4_epi32::<1>(*quad),
            _mm512_extracti32x4_epi32::<2>(*quad),
            _mm512_extracti32x4_epi32::<3>(*quad),
        ];
        for (rows, place) in blocks.into_iter().zip(places) {
            let place = place + 2 * n * stride;
            // SAFETY: no place is after the last one, whose eighth row ends within the plane.
            unsafe {
                let to = plane.as_mut_ptr().add(place);
                _mm_storel_epi64(to.cast(), rows);
                _mm_storeh_pd(to.add(stride).cast(), _mm_castsi128_pd(rows));
            }
        }
    }
}

/// Eight numbers to a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn load_8(numbers: &[i16; 8]) -> __m128i {
    // SAFETY: the reference covers the 16 bytes that are read; no alignment is asked for.
    unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) }
}

/// 32 numbers to a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn load_32(numbers: &[i16; 32]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read; no alignment is asked for.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}
