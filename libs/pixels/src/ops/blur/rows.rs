//! The blur row by row: two passes of nine products, first along rows, then down columns for eight rows at
//! a time; and the sum of `plain` where the two passes leave a doubt. Beyond the edges rows are made longer
//! beforehand, and only the rows in reach are kept.

use crate::image::Planes;
use crate::ops::blur::{Kernel, RADIUS, SIDE, reflect};
use crate::simd::Aligned;

/// Columns that are summed together, and summed again together.
pub(super) const BLOCK: usize = 16;

/// Rows that are summed together. They are [`RADIUS`] rows behind those that have gone through the first pass.
pub(super) const BAND: usize = 2 * RADIUS;

/// Rows in reach of a band, and rows of the first pass that are kept: row y is at y modulo this.
pub(super) const REACH: usize = 2 * BAND;

/// Rows as they were that are kept: row y is at y modulo this.
const KEPT: usize = 64;

/// Bands after which blocks in doubt are summed again: rows in reach of those are kept so long.
const BANDS_PATIENT: usize = 6;

/// Blocks that are summed again together, for each sum waits for the one before.
pub(super) const TOGETHER: usize = 4;

/// Sums of the first pass, or levels with mirrored ends.
pub(super) type Block<T> = [T; BLOCK];

/// A block of each row of sums that is kept.
pub(super) type Column = [Block<f32>; REACH];

/// The rows of a band.
pub(super) type Lines<'a> = [&'a mut [Block<u8>]; BAND];

/// The levels that a block is made of, by row.
pub(super) type Window<'a> = [&'a [u8; BLOCK + 2 * RADIUS]; SIDE];

/// Memory between views.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) plain: super::plain::Scratch,
    /// `u8[KEPT, blocks + 1, BLOCK]`: rows with their mirrored ends.
    levels: Aligned<u8>,
    /// `f32[blocks, REACH, BLOCK]`: rows after the first pass.
    sums: Aligned<f32>,
    /// `f32[blocks + 1, BLOCK]`: the row that goes through the first pass.
    numbers: Aligned<f32>,
    /// `u8[BAND, blocks, BLOCK]`: a band that is not written to its place at once.
    spare: Aligned<u8>,
    in_doubt: Vec<Place>,
}

/// Where a block is: its row, and its number in the row.
#[derive(Clone, Copy, Debug)]
struct Place {
    row: usize,
    block: usize,
}

/// What sets of instructions have ways of their own for.
pub(super) struct Passes<Across, Down, Again> {
    /// A row with its mirrored ends, which begin [`RADIUS`] before the first sum, to numbers, and these to the sums
    /// of a slot.
    pub(super) across: Across,
    /// A block of each of the rows in reach of a band, which are given by their slots from the top one, to the
    /// levels of that block of the band. A bit for each row in which a sum is near a tie.
    pub(super) down: Down,
    /// The levels of blocks by the sums of the definition.
    pub(super) again: Again,
}

/// The rows of a plane that are kept.
struct Rows<'a> {
    levels: &'a mut [Block<u8>],
    sums: &'a mut [Column],
    numbers: &'a mut [Block<f32>],
    width: usize,
    height: usize,
}

// === impl Rows ===

impl Rows<'_> {
    /// Row `y` with its mirrored ends.
    #[inline(always)]
    fn long(&self, y: usize) -> &[Block<u8>] {
        let blocks = self.sums.len() + 1;
        &self.levels[y % KEPT * blocks..][..blocks]
    }

    /// Keeps row `y`.
    #[inline(always)]
    fn keep(&mut self, y: usize, row: &[u8]) {
        let (width, blocks) = (self.width, self.sums.len() + 1);
        let long = self.levels[y % KEPT * blocks..][..blocks].as_flattened_mut();
        long[RADIUS..][..width].copy_from_slice(row);
        for beyond in 1..=RADIUS {
            long[RADIUS - beyond] = row[reflect(-(beyond as isize), width)];
            let right = width - 1 + beyond;
            long[RADIUS + right] = row[reflect(right as isize, width)];
        }
    }

    /// Takes row `y` through the first pass.
    #[inline(always)]
    fn sum(
        &mut self,
        kernel: &Kernel,
        y: usize,
        across: impl Fn(&Kernel, &[Block<u8>], &mut [Block<f32>], &mut [Column], usize),
    ) {
        let blocks = self.sums.len() + 1;
        let levels = &self.levels[y % KEPT * blocks..][..blocks];
        across(kernel, levels, self.numbers, self.sums, y % REACH);
    }

    /// The slots of the rows in reach of the band that begins with row `first`, which may be above the plane.
    #[inline(always)]
    fn reach(&self, first: isize) -> [usize; REACH] {
        let mut slots = [0; REACH];
        for (step, slot) in slots.iter_mut().enumerate() {
            *slot = reflect(first + step as isize - RADIUS as isize, self.height) % REACH;
        }
        slots
    }

    #[inline(always)]
    fn window(&self, Place { row, block }: Place) -> Window<'_> {
        std::array::from_fn(|step| {
            let y = reflect(row as isize + step as isize - RADIUS as isize, self.height);
            let long = self.long(y).as_flattened();
            long[block * BLOCK..].first_chunk().expect("a row and its ends")
        })
    }

    /// Takes the band that begins with row `first` through the second pass.
    #[inline(always)]
    fn finish_band(
        &self,
        kernel: &Kernel,
        plane: &mut [u8],
        first: isize,
        spare: &mut [u8],
        in_doubt: &mut Vec<Place>,
        down: impl Fn(&Kernel, &Column, &[usize; REACH], &mut Lines<'_>, usize) -> u8,
    ) {
        let Self { width, height, .. } = *self;
        let end = height.min((first + BAND as isize) as usize);
        let seen = first.max(0) as usize..end;
        let to = &mut plane[seen.start * width..seen.end * width];
        let is_whole = seen.len() == BAND && width.is_multiple_of(BLOCK);
        let mut lines = if is_whole { &mut *to } else { &mut *spare }
            .as_chunks_mut()
            .0
            .chunks_exact_mut(self.sums.len());
        let mut lines: Lines<'_> = std::array::from_fn(|_| lines.next().expect("rows of a band"));
        let slots = self.reach(first);
        for (block, column) in self.sums.iter().enumerate() {
            let mut bits = down(kernel, column, &slots, &mut lines, block);
            while bits != 0 {
                let row = first + bits.trailing_zeros() as isize;
                if row >= 0 && seen.contains(&(row as usize)) {
                    in_doubt.push(Place { row: row as usize, block });
                }
                bits &= bits - 1;
            }
        }
        if !is_whole {
            let above = (seen.start as isize - first) as usize;
            let lines = spare.chunks_exact(self.sums.len() * BLOCK).skip(above);
            for (to, line) in to.chunks_exact_mut(width).zip(lines) {
                to.copy_from_slice(&line[..width]);
            }
        }
    }

    /// Sums blocks again that are in doubt.
    #[inline(always)]
    fn settle(
        &self,
        kernel: &Kernel,
        plane: &mut [u8],
        in_doubt: &mut Vec<Place>,
        again: impl Fn(&Kernel, &[Window<'_>; TOGETHER]) -> [Block<u8>; TOGETHER],
    ) {
        for places in in_doubt.chunks(TOGETHER) {
            let of = |n: usize| places[n.min(places.len() - 1)];
            let levels = again(kernel, &std::array::from_fn(|n| self.window(of(n))));
            for (&Place { row, block }, levels) in places.iter().zip(levels) {
                let row = &mut plane[row * self.width..][..self.width];
                row[block * BLOCK..].iter_mut().zip(levels).for_each(|(to, level)| *to = level);
            }
        }
        in_doubt.clear();
    }
}

/// All rows of all planes through the two passes.
#[inline(always)]
pub(super) fn apply_with<Across, Down, Again>(
    kernel: &Kernel,
    view: &mut Planes,
    scratch: &mut Scratch,
    passes: &Passes<Across, Down, Again>,
) where
    Across: Fn(&Kernel, &[Block<u8>], &mut [Block<f32>], &mut [Column], usize) + Copy,
    Down: Fn(&Kernel, &Column, &[usize; REACH], &mut Lines<'_>, usize) -> u8 + Copy,
    Again: Fn(&Kernel, &[Window<'_>; TOGETHER]) -> [Block<u8>; TOGETHER] + Copy,
{
    let (width, height) = (view.extent().width as usize, view.extent().height as usize);
    let blocks = width.div_ceil(BLOCK);
    let levels = scratch.levels.first(KEPT * (blocks + 1) * BLOCK).as_chunks_mut().0;
    let sums = scratch.sums.first(blocks * REACH * BLOCK).as_chunks_mut().0.as_chunks_mut().0;
    let spare = scratch.spare.first(BAND * blocks * BLOCK);
    let numbers = scratch.numbers.first((blocks + 1) * BLOCK).as_chunks_mut().0;
    let mut rows = Rows { levels, sums, numbers, width, height };
    let in_doubt = &mut scratch.in_doubt;
    for plane in view.planes_mut() {
        // The band behind the last rows has none below it.
        let ends = height + RADIUS;
        for (number, start) in (0..ends).step_by(BAND).enumerate() {
            let new = start..height.min(start + BAND);
            // Vectors lie across what was written just before, and would wait for it.
            for y in new.clone() {
                rows.keep(y, &plane[y * width..][..width]);
            }
            for y in new {
                rows.sum(kernel, y, passes.across);
            }
            let first = start as isize - RADIUS as isize;
            rows.finish_band(kernel, plane, first, spare, in_doubt, passes.down);
            if number % BANDS_PATIENT == BANDS_PATIENT - 1 || start + BAND >= ends {
                rows.settle(kernel, plane, in_doubt, passes.again);
            }
        }
    }
}
