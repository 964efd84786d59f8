//! The inverse DCT in NEON: one block at a time, four columns or rows in a vector. Equal to `plain`: a block that
//! passes the check has the same 32-bit integers here.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use headwater_simd::Neon;
use headwater_simd::neon::load_16;

use super::{BLOCK, MAX_PAIR, MAX_SAMPLE, MIN_SAMPLE, NATURAL, Pick, SIDE, assert_fits};

/// Eight rows of eight numbers, or as many columns.
type Rows = [int16x8_t; SIDE];

/// For each row of a block: which of the 64 bytes of the first half in zigzag order goes where, and of the second.
/// What is not there is beyond the 64, which gives zero or keeps what is there.
const SHUFFLES: [[[u8; 16]; SIDE]; 2] = shuffles();

const fn shuffles() -> [[[u8; 16]; SIDE]; 2] {
    let mut shuffles = [[[u8::MAX; 16]; SIDE]; 2];
    let mut k = 0;
    while k < BLOCK {
        let at = NATURAL[k] as usize;
        let shuffle = &mut shuffles[k / 32][at / SIDE];
        shuffle[at % SIDE * 2] = (k % 32 * 2) as u8;
        shuffle[at % SIDE * 2 + 1] = (k % 32 * 2 + 1) as u8;
        k += 1;
    }
    shuffles
}

/// Writes samples as [`super::Idct::blocks`] says, which also says what is returned.
pub(super) fn blocks(
    _: Neon,
    steps: &[i16; BLOCK],
    coefficients: &mut [[i16; BLOCK]],
    picks: &[Pick],
    plane: &mut [u8],
    stride: usize,
) -> bool {
    // SAFETY: the proof exists only where the processor has NEON.
    unsafe { compiled(steps, coefficients, picks, plane, stride) }
}

#[target_feature(enable = "neon")]
fn compiled(
    steps: &[i16; BLOCK],
    coefficients: &mut [[i16; BLOCK]],
    picks: &[Pick],
    plane: &mut [u8],
    stride: usize,
) -> bool {
    let mut checks = Checks::none();
    for Pick { block, place } in picks {
        let block = &mut coefficients[*block];
        assert_fits(*place, stride, plane);
        let values = gathered(block, steps, &mut checks);
        *block = [0; BLOCK];
        let columns = second_pass(transposed(first_pass(values)));
        let samples = packed(columns, &mut checks);
        for (n, rows) in samples.into_iter().enumerate() {
            store(vget_low_u8(rows), &mut plane[place + 2 * n * stride..]);
            store(vget_high_u8(rows), &mut plane[place + (2 * n + 1) * stride..]);
        }
    }
    checks.are_passed()
}

/// What has been seen of the blocks so far.
struct Checks {
    /// The largest sums of magnitudes of two columns.
    sums: uint32x4_t,
    /// The lowest and highest samples, in quarters, before the last rounding.
    lowest: int16x8_t,
    highest: int16x8_t,
}

// === impl Checks ===

impl Checks {
    #[inline]
    #[target_feature(enable = "neon")]
    fn none() -> Self {
        let zero = vdupq_n_s16(0);
        Self { sums: vdupq_n_u32(0), lowest: zero, highest: zero }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn are_passed(&self) -> bool {
        let lowest = (i32::from(vminvq_s16(self.lowest)) + 2) >> 2;
        let highest = (i32::from(vmaxvq_s16(self.highest)) + 2) >> 2;
        vmaxvq_u32(self.sums) <= MAX_PAIR && lowest >= MIN_SAMPLE && highest <= MAX_SAMPLE
    }
}

/// Products of coefficients and quantisation steps, row by row.
#[inline]
#[target_feature(enable = "neon")]
fn gathered(block: &[i16; BLOCK], steps: &[i16; BLOCK], checks: &mut Checks) -> Rows {
    let [first, second] = halves(block);
    let mut values = [vdupq_n_s16(0); SIDE];
    let mut sums = vdupq_n_u32(0);
    let (rows, _) = steps.as_chunks::<SIDE>();
    for n in 0..SIDE {
        let from_first = vqtbl4q_u8(first, load_16(&SHUFFLES[0][n]));
        let all = vqtbx4q_u8(from_first, second, load_16(&SHUFFLES[1][n]));
        let row = vreinterpretq_s16_u8(all);
        let steps = load(&rows[n]);
        let magnitudes = vreinterpretq_u16_s16(vabsq_s16(row));
        let unsigned = vreinterpretq_u16_s16(steps);
        sums = vmlal_u16(sums, vget_low_u16(magnitudes), vget_low_u16(unsigned));
        sums = vmlal_high_u16(sums, magnitudes, unsigned);
        values[n] = vmulq_s16(row, steps);
    }
    checks.sums = vmaxq_u32(checks.sums, sums);
    values
}

/// Row n of the first pass's results in vector n.
#[inline]
#[target_feature(enable = "neon")]
fn first_pass(rows: Rows) -> Rows {
    let mut left = [vdup_n_s16(0); SIDE];
    let mut right = left;
    for n in 0..SIDE {
        left[n] = vget_low_s16(rows[n]);
        right[n] = vget_high_s16(rows[n]);
    }
    let (left, right) = (transform(left), transform(right));
    let mut results = rows;
    for n in 0..SIDE {
        results[n] = vcombine_s16(vrshrn_n_s32::<11>(left[n]), vrshrn_n_s32::<11>(right[n]));
    }
    results
}

/// Column n of the samples in vector n: quarters before the last rounding, 128 is not added.
#[inline]
#[target_feature(enable = "neon")]
fn second_pass(columns: Rows) -> Rows {
    let mut upper = [vdup_n_s16(0); SIDE];
    let mut lower = upper;
    for n in 0..SIDE {
        upper[n] = vget_low_s16(columns[n]);
        lower[n] = vget_high_s16(columns[n]);
    }
    let (upper, lower) = (transform(upper), transform(lower));
    let mut results = columns;
    for n in 0..SIDE {
        results[n] = vcombine_s16(vshrn_n_s32::<16>(upper[n]), vshrn_n_s32::<16>(lower[n]));
    }
    results
}

/// Samples of two rows in each vector, from columns in quarters.
#[inline]
#[target_feature(enable = "neon")]
fn packed(columns: Rows, checks: &mut Checks) -> [uint8x16_t; 4] {
    for column in columns {
        checks.lowest = vminq_s16(checks.lowest, column);
        checks.highest = vmaxq_s16(checks.highest, column);
    }
    let mut bytes = [vdupq_n_s8(0); 4];
    for n in 0..4 {
        // Columns n and n + 4.
        let low = vqrshrn_n_s16::<2>(columns[n]);
        bytes[n] = vcombine_s8(low, vqrshrn_n_s16::<2>(columns[n + 4]));
    }
    // Columns 0 and 2, 4 and 6 in turn; 1 and 3, 5 and 7 in turn.
    let even = [vzip1q_s8(bytes[0], bytes[2]), vzip2q_s8(bytes[0], bytes[2])];
    let odd = [vzip1q_s8(bytes[1], bytes[3]), vzip2q_s8(bytes[1], bytes[3])];
    // Columns 0 to 3 of four rows in each vector, then 4 to 7.
    let left = [vzip1q_s8(even[0], odd[0]), vzip2q_s8(even[0], odd[0])];
    let right = [vzip1q_s8(even[1], odd[1]), vzip2q_s8(even[1], odd[1])];
    let mut samples = [vdupq_n_u8(0); 4];
    for n in 0..2 {
        let (left, right) = (vreinterpretq_u32_s8(left[n]), vreinterpretq_u32_s8(right[n]));
        let offset = vdupq_n_u8(128);
        let rows = vreinterpretq_u8_u32(vzip1q_u32(left, right));
        samples[2 * n] = veorq_u8(rows, offset);
        let rows = vreinterpretq_u8_u32(vzip2q_u32(left, right));
        samples[2 * n + 1] = veorq_u8(rows, offset);
    }
    samples
}

/// Rows become columns.
#[inline]
#[target_feature(enable = "neon")]
fn transposed(rows: Rows) -> Rows {
    let zero = vdupq_n_s32(0);
    let (mut even, mut odd) = ([zero; 4], [zero; 4]);
    for n in 0..4 {
        even[n] = vreinterpretq_s32_s16(vtrn1q_s16(rows[2 * n], rows[2 * n + 1]));
        odd[n] = vreinterpretq_s32_s16(vtrn2q_s16(rows[2 * n], rows[2 * n + 1]));
    }
    // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of rows 0 to 3, then of rows 4 to 7.
    let mut quarters = [[vdupq_n_s64(0); 2]; 4];
    for n in 0..2 {
        let [a, b] = [even[2 * n], even[2 * n + 1]];
        let [c, d] = [odd[2 * n], odd[2 * n + 1]];
        quarters[0][n] = vreinterpretq_s64_s32(vtrn1q_s32(a, b));
        quarters[1][n] = vreinterpretq_s64_s32(vtrn1q_s32(c, d));
        quarters[2][n] = vreinterpretq_s64_s32(vtrn2q_s32(a, b));
        quarters[3][n] = vreinterpretq_s64_s32(vtrn2q_s32(c, d));
    }
    let mut columns = rows;
    for n in 0..4 {
        let [upper, lower] = quarters[n];
        columns[n] = vreinterpretq_s16_s64(vtrn1q_s64(upper, lower));
        columns[n + 4] = vreinterpretq_s16_s64(vtrn2q_s64(upper, lower));
    }
    columns
}

/// The inverse DCT of eight numbers as in `plain`. Nothing is added for rounding: the instructions that narrow
/// the results round them.
#[inline]
#[target_feature(enable = "neon")]
fn transform(x: [int16x4_t; SIDE]) -> [int32x4_t; SIDE] {
    let sum = vshll_n_s16::<13>(vadd_s16(x[0], x[4]));
    let difference = vshll_n_s16::<13>(vsub_s16(x[0], x[4]));
    let wide = vmlal_n_s16(vmull_n_s16(x[2], 10703), x[6], 4433);
    let narrow = vmlal_n_s16(vmull_n_s16(x[2], 4433), x[6], -10704);
    let even = [
        vaddq_s32(sum, wide),
        vaddq_s32(difference, narrow),
        vsubq_s32(difference, narrow),
        vsubq_s32(sum, wide),
    ];
    let odd = [
        four(x, [11363, 9633, 6437, 2260]),
        four(x, [9633, -2259, -11362, -6436]),
        four(x, [6437, -11362, 2261, 9633]),
        four(x, [2260, -6436, 9633, -11363]),
    ];
    let mut results = [sum; SIDE];
    for n in 0..4 {
        results[n] = vaddq_s32(even[n], odd[n]);
        results[7 - n] = vsubq_s32(even[n], odd[n]);
    }
    results
}

/// The sum of the products of the four odd numbers.
#[inline]
#[target_feature(enable = "neon")]
fn four(x: [int16x4_t; SIDE], factors: [i16; 4]) -> int32x4_t {
    let first = vmlal_n_s16(vmull_n_s16(x[1], factors[0]), x[3], factors[1]);
    vmlal_n_s16(vmlal_n_s16(first, x[5], factors[2]), x[7], factors[3])
}

/// Both halves of a block, in four vectors each.
#[inline]
#[target_feature(enable = "neon")]
fn halves(block: &[i16; BLOCK]) -> [uint8x16x4_t; 2] {
    let (rows, _) = block.as_chunks::<SIDE>();
    let mut all = [vdupq_n_u8(0); SIDE];
    for n in 0..SIDE {
        all[n] = vreinterpretq_u8_s16(load(&rows[n]));
    }
    let [a, b, c, d, e, f, g, h] = all;
    [uint8x16x4_t(a, b, c, d), uint8x16x4_t(e, f, g, h)]
}

/// Eight numbers to a vector.
#[inline]
#[target_feature(enable = "neon")]
fn load(numbers: &[i16; SIDE]) -> int16x8_t {
    // SAFETY: the reference covers the 16 bytes that are read; no alignment is asked for.
    unsafe { vld1q_s16(numbers.as_ptr()) }
}

/// Writes the samples of a row.
#[inline]
#[target_feature(enable = "neon")]
fn store(row: uint8x8_t, plane: &mut [u8]) {
    headwater_simd::neon::store_8(plane.first_chunk_mut().expect("a block within the plane"), row);
}
