//! The inverse DCT in AVX2: two blocks at a time. Equal to `plain`: a block that passes the check has the same
//! 32-bit integers here.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_simd::Avx2;

use super::pairs::SOURCES;
use super::{BLOCK, MAX_PAIR, MAX_SAMPLE, MIN_SAMPLE, Pick, SIDE, assert_fits};

/// Blocks of one step.
const STEP: usize = 2;
/// Eight rows of four samples in each of two blocks, or as many columns.
type Rows = [__m256i; SIDE];

/// For each part of the order of multiplication and each eight coefficients in zigzag order: which bytes
/// of these go where in the part.
const SHUFFLES: [[[u8; 16]; SIDE]; SIDE] = shuffles();
/// Whether any of them do.
const IS_SOURCE: [[bool; SIDE]; SIDE] = are_sources();
/// Gives a zero where a byte comes from.
const NOTHING: u8 = 0x80;

const fn shuffles() -> [[[u8; 16]; SIDE]; SIDE] {
    let mut shuffles = [[[NOTHING; 16]; SIDE]; SIDE];
    let mut n = 0;
    while n < BLOCK {
        let k = SOURCES[n] as usize;
        let shuffle = &mut shuffles[n / SIDE][k / SIDE];
        shuffle[n % SIDE * 2] = (k % SIDE * 2) as u8;
        shuffle[n % SIDE * 2 + 1] = (k % SIDE * 2 + 1) as u8;
        n += 1;
    }
    shuffles
}

const fn are_sources() -> [[bool; SIDE]; SIDE] {
    let mut are_sources = [[false; SIDE]; SIDE];
    let mut n = 0;
    while n < BLOCK {
        are_sources[n / SIDE][SOURCES[n] as usize / SIDE] = true;
        n += 1;
    }
    are_sources
}

/// Writes samples as [`super::Idct::blocks`] says, which also says what is returned.
pub(super) fn blocks(
    _: Avx2,
    steps: &[i16; BLOCK],
    coefficients: &mut [[i16; BLOCK]],
    picks: &[Pick],
    plane: &mut [u8],
    stride: usize,
) -> bool {
    // SAFETY: the proof exists only where the processor has AVX2.
    unsafe { compiled(steps, coefficients, picks, plane, stride) }
}

#[target_feature(enable = "avx2,fma")]
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
        let [first, last] = [picks[0], picks[picks.len() - 1]];
        let blocks = [&coefficients[first.block], &coefficients[last.block]];
        let values = gathered(blocks, steps, &mut checks);
        coefficients[first.block] = [0; BLOCK];
        coefficients[last.block] = [0; BLOCK];
        let rows = first_pass(values);
        let [a, b, c, d, e, f, g, h] = rows;
        let upper = second_pass(transposed([a, b, c, d]), &mut checks);
        let lower = second_pass(transposed([e, f, g, h]), &mut checks);
        let quads = [upper[0], upper[1], lower[0], lower[1]];
        store(quads, [first.place, last.place], plane, stride);
    }
    checks.are_passed()
}

/// What has been seen of the blocks so far.
struct Checks {
    /// All magnitudes of coefficients: the sign is there if one is -32768.
    magnitudes: __m256i,
    /// The largest sums of magnitudes of two columns.
    sums: __m256i,
    /// All samples from the lowest one, in quarters: high bits are there if one is out of range.
    samples: __m256i,
}

// === impl Checks ===

impl Checks {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn none() -> Self {
        let zero = _mm256_setzero_si256();
        Self { magnitudes: zero, sums: zero, samples: zero }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn are_passed(&self) -> bool {
        let above = _mm256_set1_epi16(!(4 * (MAX_SAMPLE - MIN_SAMPLE + 1) - 1) as i16);
        let sums = _mm256_cmpgt_epi32(self.sums, _mm256_set1_epi32(MAX_PAIR as i32));
        let magnitudes = _mm256_srai_epi16::<15>(self.magnitudes);
        let samples = _mm256_and_si256(self.samples, above);
        let any = _mm256_or_si256(_mm256_or_si256(sums, magnitudes), samples);
        _mm256_testz_si256(any, any) == 1
    }
}

/// Products of coefficients and quantisation steps in the order of multiplication: a part of that order,
/// of both blocks, in each vector.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn gathered(blocks: [&[i16; BLOCK]; STEP], steps: &[i16; BLOCK], checks: &mut Checks) -> Rows {
    let zero = _mm256_setzero_si256();
    let mut raw = [zero; SIDE];
    let [(first, _), (second, _)] = [blocks[0].as_chunks::<SIDE>(), blocks[1].as_chunks::<SIDE>()];
    for n in 0..SIDE {
        let low = _mm256_castsi128_si256(load(&first[n]));
        raw[n] = _mm256_inserti128_si256::<1>(low, load(&second[n]));
    }
    let (parts, _) = steps.as_chunks::<SIDE>();
    let mut values = [
        part::<0>(&raw),
        part::<1>(&raw),
        part::<2>(&raw),
        part::<3>(&raw),
        part::<4>(&raw),
        part::<5>(&raw),
        part::<6>(&raw),
        part::<7>(&raw),
    ];
    let mut sums = zero;
    for n in 0..SIDE {
        let steps = _mm256_broadcastsi128_si256(load(&parts[n]));
        let magnitudes = _mm256_abs_epi16(values[n]);
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(magnitudes, steps));
        checks.magnitudes = _mm256_or_si256(checks.magnitudes, magnitudes);
        values[n] = _mm256_mullo_epi16(values[n], steps);
    }
    checks.sums = _mm256_max_epu32(checks.sums, sums);
    values
}

/// One part of the order of multiplication from eight times eight coefficients in zigzag order.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn part<const PART: usize>(raw: &Rows) -> __m256i {
    let mut all = _mm256_setzero_si256();
    for n in 0..SIDE {
        if IS_SOURCE[PART][n] {
            let shuffle =
                _mm256_broadcastsi128_si256(headwater_simd::x86::load_16(&SHUFFLES[PART][n]));
            all = _mm256_or_si256(all, _mm256_shuffle_epi8(raw[n], shuffle));
        }
    }
    all
}

/// Row n of the first pass's results in vector n: columns c and c + 4 beside each other.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn first_pass(v: Rows) -> Rows {
    const BITS: i32 = 11;
    let half = _mm256_set1_epi32(1 << (BITS - 1));
    let mut left = transform([v[0], v[2], v[4], v[6]], half);
    let right = transform([v[1], v[3], v[5], v[7]], half);
    for n in 0..SIDE {
        let low = _mm256_srli_epi32::<BITS>(left[n]);
        let high = _mm256_slli_epi32::<{ 16 - BITS }>(right[n]);
        left[n] = _mm256_blend_epi16::<0xaa>(low, high);
    }
    left
}

/// From four rows of column pairs to the pairs of four rows, as the second pass needs them.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transposed(rows: [__m256i; 4]) -> [__m256i; 4] {
    let a = _mm256_unpacklo_epi32(rows[0], rows[1]);
    let b = _mm256_unpackhi_epi32(rows[0], rows[1]);
    let c = _mm256_unpacklo_epi32(rows[2], rows[3]);
    let d = _mm256_unpackhi_epi32(rows[2], rows[3]);
    [
        _mm256_unpacklo_epi64(a, c),
        _mm256_unpacklo_epi64(b, d),
        _mm256_unpackhi_epi64(a, c),
        _mm256_unpackhi_epi64(b, d),
    ]
}

/// The second pass over four rows: two vectors of two rows each.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn second_pass(pairs: [__m256i; 4], checks: &mut Checks) -> [__m256i; 2] {
    let half = _mm256_set1_epi32((128 << 18) + (1 << 17));
    let lowest = _mm256_set1_epi16(-4 * (MIN_SAMPLE + 128) as i16);
    let columns = transform(pairs, half);
    // The upper 16 bits hold two binary places.
    let mut quarters = [half; 4];
    for n in 0..4 {
        let even = _mm256_srli_epi32::<16>(columns[2 * n]);
        quarters[n] = _mm256_blend_epi16::<0xaa>(even, columns[2 * n + 1]);
        let above = _mm256_add_epi16(quarters[n], lowest);
        checks.samples = _mm256_or_si256(checks.samples, above);
        quarters[n] = _mm256_srai_epi16::<2>(quarters[n]);
    }
    let [a, b, c, d] = quarters;
    let order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    let order = _mm256_broadcastsi128_si256(order);
    let left = _mm256_shuffle_epi8(_mm256_packus_epi16(a, b), order);
    let right = _mm256_shuffle_epi8(_mm256_packus_epi16(c, d), order);
    [_mm256_unpacklo_epi32(left, right), _mm256_unpackhi_epi32(left, right)]
}

/// The inverse DCT of eight numbers, as in `plain`. Two of the numbers are beside each other; `half` is added to
/// each.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transform([x04, x26, x15, x37]: [__m256i; 4], half: __m256i) -> Rows {
    let sum = _mm256_add_epi32(half, two(x04, 8192, 8192));
    let difference = _mm256_add_epi32(half, two(x04, 8192, -8192));
    let (wide, narrow) = (two(x26, 10703, 4433), two(x26, 4433, -10704));
    let even = [
        _mm256_add_epi32(sum, wide),
        _mm256_add_epi32(difference, narrow),
        _mm256_sub_epi32(difference, narrow),
        _mm256_sub_epi32(sum, wide),
    ];
    let odd = [
        _mm256_add_epi32(two(x15, 11363, 6437), two(x37, 9633, 2260)),
        _mm256_add_epi32(two(x15, 9633, -11362), two(x37, -2259, -6436)),
        _mm256_add_epi32(two(x15, 6437, 2261), two(x37, -11362, 9633)),
        _mm256_add_epi32(two(x15, 2260, 9633), two(x37, -6436, -11363)),
    ];
    let mut results = [half; SIDE];
    for n in 0..4 {
        results[n] = _mm256_add_epi32(even[n], odd[n]);
        results[7 - n] = _mm256_sub_epi32(even[n], odd[n]);
    }
    results
}

/// The sum of two products.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn two(x: __m256i, a: i16, b: i16) -> __m256i {
    _mm256_madd_epi16(x, _mm256_set1_epi32(i32::from(b) << 16 | i32::from(a as u16)))
}

/// Writes the samples of both blocks to their places. Panics if one does not fit.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn store(quads: [__m256i; 4], places: [usize; STEP], plane: &mut [u8], stride: usize) {
    let last = places[0].max(places[1]);
    assert_fits(last, stride, plane);
    let are_neighbours = places[1] == places[0] + SIDE;
    for (n, quad) in quads.into_iter().enumerate() {
        let rows = 2 * n * stride;
        // SAFETY: no place is after the last one, whose eighth row ends within the plane. Of neighbours
        // the second is the last one, so 16 bytes from the first one's place on are within the plane too.
        unsafe {
            let first = plane.as_mut_ptr().add(places[0] + rows);
            let second = plane.as_mut_ptr().add(places[1] + rows);
            if are_neighbours {
                let rows = _mm256_permute4x64_epi64::<0b11_01_10_00>(quad);
                _mm_storeu_si128(first.cast(), _mm256_castsi256_si128(rows));
                _mm_storeu_si128(first.add(stride).cast(), _mm256_extracti128_si256::<1>(rows));
            } else {
                let blocks = [_mm256_castsi256_si128(quad), _mm256_extracti128_si256::<1>(quad)];
                _mm_storel_epi64(first.cast(), blocks[0]);
                _mm_storeh_pd(first.add(stride).cast(), _mm_castsi128_pd(blocks[0]));
                _mm_storel_epi64(second.cast(), blocks[1]);
                _mm_storeh_pd(second.add(stride).cast(), _mm_castsi128_pd(blocks[1]));
            }
        }
    }
}

/// Eight numbers to a vector.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(numbers: &[i16; SIDE]) -> __m128i {
    // SAFETY: the reference covers the 16 bytes that are read; no alignment is asked for.
    unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) }
}
