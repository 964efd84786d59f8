//! The inverse DCT as it is defined: 32-bit integers, columns first.

use super::{BLOCK, MAX_PAIR, MAX_SAMPLE, MIN_SAMPLE, NATURAL, Pick, SIDE, assert_fits};

/// Binary places of the factors.
const FACTOR_BITS: u32 = 13;
/// Binary places that the first pass keeps.
const KEPT_BITS: u32 = 2;
/// Each pass gains a factor of √8: together three binary places.
const GAIN_BITS: u32 = 3;

/// Writes samples as [`super::Idct::blocks`] says, which also says what is returned.
pub(super) fn blocks(
    steps: &[i16; BLOCK],
    coefficients: &mut [[i16; BLOCK]],
    picks: &[Pick],
    plane: &mut [u8],
    stride: usize,
) -> bool {
    let mut are_exact = true;
    for Pick { block, place } in picks {
        let block = &mut coefficients[*block];
        assert_fits(*place, stride, plane);
        if let Some(samples) = samples(steps, block) {
            let (rows, _) = samples.as_chunks::<SIDE>();
            for (n, row) in rows.iter().enumerate() {
                plane[place + n * stride..][..SIDE].copy_from_slice(row);
            }
        } else {
            are_exact = false;
        }
        *block = [0; BLOCK];
    }
    are_exact
}

/// The samples of a block, row by row, unless it is out of range.
fn samples(steps: &[i16; BLOCK], block: &[i16; BLOCK]) -> Option<[u8; BLOCK]> {
    let mut values = [0; BLOCK];
    for (at, coefficient) in NATURAL.iter().zip(block) {
        let at = usize::from(*at);
        values[at] = i32::from(*coefficient) * i32::from(steps[at]);
    }
    let magnitudes = |column: usize| -> u32 {
        values[column..].iter().step_by(SIDE).map(|value| value.unsigned_abs()).sum()
    };
    let pairs = (0..SIDE / 2).map(|column| magnitudes(column) + magnitudes(column + SIDE / 2));
    if pairs.max() > Some(MAX_PAIR) {
        return None;
    }
    for column in 0..SIDE {
        let line = std::array::from_fn(|row| values[row * SIDE + column]);
        let line = transform(line);
        for row in 0..SIDE {
            values[row * SIDE + column] = rounded(line[row], FACTOR_BITS - KEPT_BITS);
        }
    }
    let (rows, _) = values.as_chunks_mut::<SIDE>();
    for row in rows {
        let line = transform(*row);
        *row = line.map(|sum| rounded(sum, FACTOR_BITS + KEPT_BITS + GAIN_BITS));
    }
    let in_range = values.iter().all(|value| (MIN_SAMPLE..=MAX_SAMPLE).contains(value));
    in_range.then(|| values.map(|value| (value + 128).clamp(0, 255) as u8))
}

/// `value` divided by 2 to the power of `bits`; a half is rounded up.
fn rounded(value: i32, bits: u32) -> i32 {
    (value + (1 << (bits - 1))) >> bits
}

/// The inverse DCT of eight numbers, times √8 and 2^13. Source: Loeffler, Ligtenberg, Moschytz, "Practical fast
/// 1-D DCT algorithms with 11 multiplications", 1989, each output as a sum of products. Integers are
/// exact, so any order of sums gives libjpeg-turbo's result if the factors are composed of its rounded ones.
fn transform(x: [i32; SIDE]) -> [i32; SIDE] {
    let (sum, difference) = ((x[0] + x[4]) << FACTOR_BITS, (x[0] - x[4]) << FACTOR_BITS);
    let (wide, narrow) = (10703 * x[2] + 4433 * x[6], 4433 * x[2] - 10704 * x[6]);
    let even = [sum + wide, difference + narrow, difference - narrow, sum - wide];
    let odd = [
        11363 * x[1] + 9633 * x[3] + 6437 * x[5] + 2260 * x[7],
        9633 * x[1] - 2259 * x[3] - 11362 * x[5] - 6436 * x[7],
        6437 * x[1] - 11362 * x[3] + 2261 * x[5] + 9633 * x[7],
        2260 * x[1] - 6436 * x[3] + 9633 * x[5] - 11363 * x[7],
    ];
    std::array::from_fn(|n| if n < 4 { even[n] + odd[n] } else { even[7 - n] - odd[7 - n] })
}
