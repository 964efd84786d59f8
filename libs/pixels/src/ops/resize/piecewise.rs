//! Both passes a piece at a time, without tables of weights.
//!
//! For views whose tables, or whose rows between the passes, would be far larger than the image: one pixel
//! wide and millions high, say. A weight is computed where it is needed. Each sum has the terms of `plain`,
//! in the same order, so the bytes are the same.

use std::ops::Range;

use headwater_core::draw::Filter as Kind;

use crate::image::{Planes, RgbImage};
use crate::ops::resize::taps::{Filter, PRECISION_BITS, fixed};
use crate::ops::resize::{Axis, Geometry, Taps};
use crate::simd::{Simd, twin};

/// Lines of the first pass that share each weight, and that exist at one time.
const PIECE: usize = 64;

/// How the passes weigh and add up.
pub trait Arithmetic {
    /// What the source, the lines between the passes and the view consist of.
    type Level: Copy + Default;
    /// What a level is multiplied by.
    type Weight: Copy;
    /// What is added up.
    type Sum: Copy;
    /// The sum of nothing.
    const EMPTY: Self::Sum;

    /// The weight of a share; the shares of an output add up to 1.
    fn weight(share: f64) -> Self::Weight;
    /// Adds one term.
    fn add(sum: &mut Self::Sum, weight: Self::Weight, level: Self::Level);
    /// The level of a whole sum.
    fn level(sum: Self::Sum) -> Self::Level;
}

/// Bytes, weighed in fixed point as in `plain`.
struct Bytes;

/// The shares of an axis, computed one by one.
struct Shares {
    filter: Filter,
    outputs: Vec<Output>,
}

/// What a wanted position is made of.
struct Output {
    first: usize,
    end: usize,
    centre: f64,
    /// What shares are divided by. `None`: it is one source position as it is.
    sum: Option<f64>,
}

/// Makes a view with the instructions of `simd`.
pub(super) fn resize(simd: Simd, image: &RgbImage, geometry: &Geometry, view: &mut Planes) {
    compute(simd, image, geometry, view);
}

twin! {
    /// [`resize`] for a set of instructions.
    fn compute(image: &RgbImage, geometry: &Geometry, view: &mut Planes) = resize_inlined;
}

#[inline(always)]
fn resize_inlined(image: &RgbImage, geometry: &Geometry, view: &mut Planes) {
    let (planes, stride, reduction) = (image.planes(), image.stride(), image.reduction());
    let (left, top) = (geometry.across(reduction).base, geometry.down(reduction).base);
    let start = top as usize * stride + left as usize;
    let level =
        |channel: usize, row: usize, column: usize| planes[channel][start + row * stride + column];
    let width = geometry.view.width as usize;
    let plane_len = width * geometry.view.height as usize;
    let values = view.reset(geometry.view);
    let write = |channel: usize, row: usize, column: usize, level: u8| {
        values[channel * plane_len + row * width + column] = level;
    };
    passes::<Bytes, 3>(geometry, reduction, level, write);
}

/// Both passes over `CHANNELS` planes: `level` gives the source by channel, row and column, counted from the
/// bases of the axes, and `write` takes the view in the same way.
#[inline(always)]
pub fn passes<A: Arithmetic, const CHANNELS: usize>(
    geometry: &Geometry,
    reduction: u32,
    level: impl Fn(usize, usize, usize) -> A::Level,
    mut write: impl FnMut(usize, usize, usize, A::Level),
) {
    let (across, down) = (geometry.across(reduction), geometry.down(reduction));
    if geometry.is_vertical_first(reduction) {
        let level = |channel, column, row| level(channel, row, column);
        let write = |channel, column, row, value| write(channel, row, column, value);
        in_order::<A, CHANNELS>(&Shares::new(&down), &Shares::new(&across), level, write);
    } else {
        in_order::<A, CHANNELS>(&Shares::new(&across), &Shares::new(&down), level, &mut write);
    }
}

/// The first pass goes along `first`; positions of `second` come before those of `first`.
#[inline(always)]
fn in_order<A: Arithmetic, const CHANNELS: usize>(
    first: &Shares,
    second: &Shares,
    level: impl Fn(usize, usize, usize) -> A::Level,
    mut write: impl FnMut(usize, usize, usize, A::Level),
) {
    let line_len = CHANNELS * first.outputs.len();
    let mut sums = vec![A::EMPTY; second.outputs.len() * line_len];
    let mut lines = vec![A::Level::default(); PIECE * line_len];
    let Range { start, end } = second.reach();
    for start in (start..end).step_by(PIECE) {
        let piece = start..end.min(start + PIECE);
        first.make_lines::<A, CHANNELS>(piece.clone(), &level, &mut lines);
        for (output, sums) in second.outputs.iter().zip(sums.chunks_exact_mut(line_len)) {
            for position in output.first.max(piece.start)..output.end.min(piece.end) {
                let weight = A::weight(second.share(output, position));
                let line = &lines[(position - piece.start) * line_len..][..line_len];
                sums.iter_mut().zip(line).for_each(|(sum, level)| A::add(sum, weight, *level));
            }
        }
    }
    for (y, sums) in sums.chunks_exact(line_len).enumerate() {
        for (channel, sums) in sums.chunks_exact(first.outputs.len()).enumerate() {
            sums.iter().enumerate().for_each(|(x, sum)| write(channel, y, x, A::level(*sum)));
        }
    }
}

// === impl Shares ===

impl Shares {
    fn new(axis: &Axis) -> Self {
        let filter = Filter::new(axis);
        let as_it_is = |at: usize| Output { first: at, end: at + 1, centre: 0.0, sum: None };
        let mut shares = Self { filter, outputs: Vec::with_capacity(axis.count as usize) };
        if axis.is_kept() {
            let positions = axis.start..axis.start + axis.count;
            shares.outputs.extend(positions.map(|at| as_it_is(at as usize)));
            return shares;
        }
        if shares.filter.kind == Kind::Nearest {
            // This table has one weight for each output.
            let mut taps = Taps::default();
            taps.compute(axis);
            shares.outputs.extend((0..taps.len()).map(|output| as_it_is(taps.at(output).0)));
            return shares;
        }
        for position in axis.start..axis.start + axis.count {
            let (first, end) = shares.filter.span(position);
            let centre = shares.filter.centre(position);
            let mut output = Output { first, end, centre, sum: Some(1.0) };
            let sum: f64 = (first..end).map(|at| shares.share(&output, at)).sum();
            output.sum = Some(if sum == 0.0 { 1.0 } else { sum });
            shares.outputs.push(output);
        }
        shares
    }

    /// The source positions that the outputs need.
    fn reach(&self) -> Range<usize> {
        match (self.outputs.first(), self.outputs.last()) {
            (Some(first), Some(last)) => first.first..last.end,
            _ => 0..0,
        }
    }

    #[inline(always)]
    fn share(&self, output: &Output, at: usize) -> f64 {
        let Some(sum) = output.sum else { return 1.0 };
        self.filter.share((at as f64 - output.centre + 0.5) * (1.0 / self.filter.scale)) / sum
    }

    /// All outputs of a piece of lines: `[lines, CHANNELS, outputs]`.
    #[inline(always)]
    fn make_lines<A: Arithmetic, const CHANNELS: usize>(
        &self,
        piece: Range<usize>,
        level: &impl Fn(usize, usize, usize) -> A::Level,
        lines: &mut [A::Level],
    ) {
        let count = self.outputs.len();
        for (number, output) in self.outputs.iter().enumerate() {
            let mut sums = [[A::EMPTY; PIECE]; CHANNELS];
            for at in output.first..output.end {
                let weight = A::weight(self.share(output, at));
                for (channel, sums) in sums.iter_mut().enumerate() {
                    for (line, sum) in piece.clone().zip(sums) {
                        A::add(sum, weight, level(channel, line, at));
                    }
                }
            }
            for (channel, sums) in sums.iter().enumerate() {
                for (line, sum) in sums.iter().take(piece.len()).enumerate() {
                    lines[(line * CHANNELS + channel) * count + number] = A::level(*sum);
                }
            }
        }
    }
}

// === impl Bytes ===

impl Arithmetic for Bytes {
    type Level = u8;
    type Weight = i32;
    type Sum = i32;
    /// Half of what is cut off.
    const EMPTY: i32 = 1 << (PRECISION_BITS - 1);

    #[inline(always)]
    fn weight(share: f64) -> i32 {
        fixed(share)
    }

    #[inline(always)]
    fn add(sum: &mut i32, weight: i32, level: u8) {
        *sum += weight * i32::from(level);
    }

    #[inline(always)]
    fn level(sum: i32) -> u8 {
        (sum >> PRECISION_BITS).clamp(0, 255) as u8
    }
}
