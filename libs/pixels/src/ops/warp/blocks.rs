//! A block of a row at a time: the places once for all channels, then the levels about them gathered, then the
//! filter, each in vectors that the compiler makes.
//!
//! Where a block's places lie on rows or on columns, as in shears and translations, a filter that goes across or down
//! gives the same bytes: what it leaves out would be multiplied by 0.
//!
//! It and `avx512.rs` import each other: that is the same work in other instructions, and shares the types of this file.

use headwater_core::draw::{Extent, Filter};

use super::plain::{cubic, horner, linear};
use super::{Map, Warp};
use crate::image::Planes;
use crate::ops::level::{rounded_to_zero, truncated_f64};
#[cfg(target_arch = "x86_64")]
use crate::ops::warp::avx512;
use crate::simd::{Simd, twin};

/// Pixels of a block.
const LANES: usize = 32;
/// Pixels of a padded view on each side of the view: taps of pixels that come from within lie there at most.
const MARGIN: usize = 2;

/// Where a block's pixels come from, and the rest of the way.
struct Places<const LANES: usize> {
    /// The pixels left above, in a padded plane without its first row and its first pixel.
    pixels: [u32; LANES],
    /// Each of them lies after the one before.
    are_neighbours: bool,
    dx: [f64; LANES],
    dy: [f64; LANES],
    /// 1 for pixels that come from within the view, 0 for others.
    within: [u32; LANES],
}

/// As `plain::apply`. `padded` is memory.
pub(super) fn apply(simd: Simd, view: &Planes, warp: &Warp, to: &mut Planes, padded: &mut Planes) {
    pad(view, padded);
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd
        && !warp.map.keeps_rows_or_columns()
    {
        match warp.filter {
            Filter::Bilinear => return avx512::apply::<2>(proof, (view, padded), warp, to),
            Filter::Bicubic => return avx512::apply::<4>(proof, (view, padded), warp, to),
            Filter::Nearest | Filter::Box => {}
        }
    }
    by_compiler(simd, padded, warp, to);
}

/// Writes a view with its outermost pixels again on all sides.
fn pad(view: &Planes, padded: &mut Planes) {
    let Extent { width, height } = view.extent();
    let margins = 2 * MARGIN as u32;
    padded.reset(Extent { width: width + margins, height: height + margins });
    let (width, height) = (width as usize, height as usize);
    for (plane, padded) in view.planes().into_iter().zip(padded.planes_mut()) {
        for (row, to) in padded.chunks_exact_mut(width + 2 * MARGIN).enumerate() {
            let row = row.saturating_sub(MARGIN).min(height - 1);
            let line = &plane[row * width..][..width];
            to[..MARGIN].fill(line[0]);
            to[MARGIN..][..width].copy_from_slice(line);
            to[MARGIN + width..].fill(line[width - 1]);
        }
    }
}

twin! {
    fn by_compiler(padded: &Planes, warp: &Warp, to: &mut Planes) = all;
}

#[inline(always)]
fn all(padded: &Planes, warp: &Warp, to: &mut Planes) {
    match warp.filter {
        Filter::Nearest | Filter::Box => moved::<1>(padded, warp, to),
        Filter::Bilinear => moved::<2>(padded, warp, to),
        Filter::Bicubic => moved::<4>(padded, warp, to),
    }
}

/// With a filter over `TAPS` pixels.
#[inline(always)]
fn moved<const TAPS: usize>(padded: &Planes, warp: &Warp, to: &mut Planes) {
    let extent = to.extent();
    let (width, height) = (extent.width as usize, extent.height as usize);
    let planes = padded.planes();
    let mut to = to.planes_mut();
    for row in 0..height {
        for left in (0..width).step_by(LANES) {
            block::<TAPS, LANES>(planes, (width, height), warp, (left, row), &mut to);
        }
    }
}

/// One block of a row, from padded planes of a view of this size.
#[inline(always)]
pub(super) fn block<const TAPS: usize, const LANES: usize>(
    planes: [&[u8]; 3],
    size: (usize, usize),
    warp: &Warp,
    (left, row): (usize, usize),
    to: &mut [&mut [u8]; 3],
) {
    let (width, _) = size;
    let lines = to.each_mut().map(|to| {
        let line = &mut to[row * width + left..(row + 1) * width];
        let count = line.len().min(LANES);
        &mut line[..count]
    });
    let places = Places::<LANES>::of::<TAPS>(&warp.map, size, (left, row));
    if places.within == [0; LANES] {
        return lines.into_iter().zip(warp.fill).for_each(|(line, fill)| line.fill(fill));
    }
    let is_on = |rest: &[f64; LANES]| rest.iter().all(|rest| *rest == 0.0);
    match (is_on(&places.dx), is_on(&places.dy)) {
        (true, true) => places.write::<1, 1>(planes, width, warp.fill, lines),
        (true, false) => places.write::<1, TAPS>(planes, width, warp.fill, lines),
        (false, true) => places.write::<TAPS, 1>(planes, width, warp.fill, lines),
        (false, false) => places.write::<TAPS, TAPS>(planes, width, warp.fill, lines),
    }
}

// === impl Places ===

impl<const LANES: usize> Places<LANES> {
    #[inline(always)]
    fn of<const TAPS: usize>(
        map: &Map,
        (width, height): (usize, usize),
        (left, row): (usize, usize),
    ) -> Self {
        let (mut dx, mut dy) = ([0.0; LANES], [0.0; LANES]);
        let mut pixels = [0; LANES];
        let mut within = [0; LANES];
        let (right, bottom) = (width as f64, height as f64);
        for n in 0..LANES {
            // From numbers of 32 bits: before AVX-512 no instruction takes longer ones.
            let centre = [left as f64 + (f64::from(n as u32) + 0.5), row as f64 + 0.5];
            let [x, y] = map.at(centre);
            let is_within = (x >= 0.0) & (x < right) & (y >= 0.0) & (y < bottom);
            let is_within = is_within & (centre[0] < right);
            within[n] = u32::from(is_within);
            let half = if TAPS == 1 { 0.0 } else { 0.5 };
            // Others lie beyond what numbers are for; they look at the first pixel, and count nothing.
            let (x, y) = if is_within { (x - half, y - half) } else { (0.0, 0.0) };
            let (column, row) = (x.floor(), y.floor());
            if TAPS > 1 {
                (dx[n], dy[n]) = (x - column, y - row);
            }
            let (column, row) = (rounded_to_zero(column), rounded_to_zero(row));
            pixels[n] = ((row + 1) * (width + 2 * MARGIN) as i32 + column + 1) as u32;
        }
        let mut are_neighbours = true;
        for n in 0..LANES {
            are_neighbours &= pixels[n] == pixels[0].wrapping_add(n as u32);
        }
        Self { pixels, are_neighbours, dx, dy, within }
    }

    /// Writes a line of each plane by a filter over as many columns and rows.
    #[inline(always)]
    fn write<const ACROSS: usize, const DOWN: usize>(
        &self,
        planes: [&[u8]; 3],
        width: usize,
        fill: [u8; 3],
        lines: [&mut [u8]; 3],
    ) {
        let all_within = self.within == [1; LANES];
        let mut words = [[0; LANES]; DOWN];
        for ((plane, fill), line) in planes.into_iter().zip(fill).zip(lines) {
            self.read::<ACROSS, DOWN>(plane, width, &mut words);
            if let Ok(line) = <&mut [u8; LANES]>::try_from(&mut *line)
                && all_within
            {
                self.weigh::<ACROSS, DOWN>(&words, line);
                continue;
            }
            let mut levels = [0; LANES];
            self.weigh::<ACROSS, DOWN>(&words, &mut levels);
            for ((level, found), within) in line.iter_mut().zip(levels).zip(self.within) {
                *level = if within == 1 { found } else { fill };
            }
        }
    }

    /// Reads the levels across of each row of taps, as little-endian words.
    #[inline(always)]
    fn read<const ACROSS: usize, const DOWN: usize>(
        &self,
        plane: &[u8],
        width: usize,
        words: &mut [[u32; LANES]; DOWN],
    ) {
        let stride = width + 2 * MARGIN;
        for (row, words) in words.iter_mut().enumerate() {
            let first = (row + 1 - before::<DOWN>()) * stride + 1 - before::<ACROSS>();
            let plane = &plane[first..];
            if self.are_neighbours {
                let line = &plane[self.pixels[0] as usize..][..LANES + ACROSS - 1];
                for (n, word) in words.iter_mut().enumerate() {
                    *word = line[n].into();
                    for at in 1..ACROSS {
                        *word |= u32::from(line[n + at]) << (8 * at);
                    }
                }
                continue;
            }
            for (word, pixel) in words.iter_mut().zip(self.pixels) {
                let pixel = pixel as usize;
                *word = match ACROSS {
                    1 => plane[pixel].into(),
                    2 => u16::from_le_bytes([plane[pixel], plane[pixel + 1]]).into(),
                    _ => plane[pixel..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word)),
                };
            }
        }
    }

    /// The levels by the filter over what was read.
    #[inline(always)]
    fn weigh<const ACROSS: usize, const DOWN: usize>(
        &self,
        words: &[[u32; LANES]; DOWN],
        levels: &mut [u8; LANES],
    ) {
        for n in 0..LANES {
            let across: [f64; DOWN] =
                std::array::from_fn(|row| weigh_word::<ACROSS>(words[row][n], self.dx[n]));
            levels[n] = truncated_f64(weigh(across, self.dy[n]));
        }
    }
}

/// Taps of a filter before the pixel at a place's left or above it.
const fn before<const TAPS: usize>() -> usize {
    (TAPS - 1) / 2
}

/// As [`weigh`] of a word's levels: sums of levels are exact in whole numbers as they are there.
#[inline(always)]
fn weigh_word<const TAPS: usize>(word: u32, at: f64) -> f64 {
    let level = |n: u32| (word >> (8 * n) & 255) as i32;
    match TAPS {
        1 => f64::from(level(0)),
        2 => linear(f64::from(level(0)), f64::from(level(1)), at),
        _ => {
            let [a, b, c, d] = [level(0), level(1), level(2), level(3)];
            let p = [b, c - a, 2 * (a - b) + c - d, b - a + d - c];
            horner(p.map(f64::from), at)
        }
    }
}

/// The value at a place between pixels, by `TAPS` of them.
#[inline(always)]
fn weigh<const TAPS: usize>(values: [f64; TAPS], at: f64) -> f64 {
    match values[..] {
        [a, b] => linear(a, b, at),
        [a, b, c, d] => cubic([a, b, c, d], at),
        _ => values[0],
    }
}
