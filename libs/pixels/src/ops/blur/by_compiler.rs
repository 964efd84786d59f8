//! The passes in a form that compilers turn into vectors.

use crate::image::Planes;
use crate::ops::blur::kernel::CLEAR;
use crate::ops::blur::rows::{
    self, BLOCK, Block, Column, Lines, Passes, REACH, Scratch, TOGETHER, Window,
};
use crate::ops::blur::{Kernel, RADIUS};

/// Adding this to a value from 0 to 255 leaves the value, rounded half to even, in the lowest
/// byte of the sum.
const ROUNDER: f32 = 1.5 * (1 << 23) as f32;

#[inline(always)]
pub(super) fn apply(view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    let kernel = Kernel::new(sigma);
    let passes = Passes { across, down, again };
    rows::apply_with(&kernel, view, scratch, &passes);
}

#[inline(always)]
fn across(
    kernel: &Kernel,
    row: &[Block<u8>],
    numbers: &mut [Block<f32>],
    to: &mut [Column],
    slot: usize,
) {
    for (number, level) in numbers.as_flattened_mut().iter_mut().zip(row.as_flattened()) {
        *number = f32::from(*level);
    }
    for (near, to) in numbers.windows(2).zip(to) {
        let near: &[f32; 2 * BLOCK] = near.as_flattened().first_chunk().expect("two blocks");
        let at = |step: usize| near[step..].first_chunk().expect("within two blocks");
        to[slot % REACH] = weighed(kernel, at);
    }
}

/// Sums of nine values, each with its weight.
#[inline(always)]
fn weighed<'a>(kernel: &Kernel, at: impl Fn(usize) -> &'a Block<f32>) -> Block<f32> {
    let mut sums = *at(RADIUS);
    for sum in &mut sums {
        *sum *= kernel.weights[0];
    }
    for distance in 1..=RADIUS {
        let (before, after) = (at(RADIUS - distance), at(RADIUS + distance));
        for ((sum, before), after) in sums.iter_mut().zip(before).zip(after) {
            *sum = kernel.weights[distance].mul_add(before + after, *sum);
        }
    }
    sums
}

#[inline(always)]
fn down(
    kernel: &Kernel,
    column: &Column,
    slots: &[usize; REACH],
    to: &mut Lines<'_>,
    block: usize,
) -> u8 {
    let mut in_doubt = 0;
    for (number, line) in to.iter_mut().enumerate() {
        let levels = &mut line[block];
        let sums = weighed(kernel, |step| &column[slots[number + step] % REACH]);
        let mut is_far = 0;
        for (level, sum) in levels.iter_mut().zip(sums) {
            let rounded = sum + ROUNDER;
            is_far |= u8::from((sum - (rounded - ROUNDER)).abs() > CLEAR);
            *level = rounded.to_bits() as u8;
        }
        in_doubt |= is_far << number;
    }
    in_doubt
}

/// The sums of the definition.
#[inline(always)]
fn again(kernel: &Kernel, windows: &[Window<'_>; TOGETHER]) -> [Block<u8>; TOGETHER] {
    let mut levels = [[0; BLOCK]; TOGETHER];
    for (levels, window) in levels.iter_mut().zip(windows) {
        let mut sums = [0.0_f32; BLOCK];
        for (row, weights) in window.iter().zip(&kernel.window) {
            for (shift, weight) in weights.iter().enumerate() {
                for (sum, level) in sums.iter_mut().zip(&row[shift..]) {
                    *sum = weight.mul_add(f32::from(*level), *sum);
                }
            }
        }
        for (level, sum) in levels.iter_mut().zip(sums) {
            *level = (sum + ROUNDER).to_bits() as u8;
        }
    }
    levels
}
