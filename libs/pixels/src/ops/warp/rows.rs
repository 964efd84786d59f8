//! A row at a time: the places once for all channels, then the levels about them gathered, then the filter, each in
//! vectors that the compiler makes.
//!
//! Where a row's places lie on rows or on columns, as in shears and translations, a filter that goes across or down
//! gives the same bytes: what it leaves out would be multiplied by 0.
//!
//! It and `avx512.rs` import each other: that is the same work in other instructions, and leaves what touches the
//! outside to this file.

use std::ops::Range;

use headwater_core::draw::{Extent, Filter};

use super::plain::{cubic, horner, linear};
use super::{Map, Warp, plain};
use crate::image::Planes;
use crate::ops::level::{rounded_to_zero, truncated_f64};
#[cfg(target_arch = "x86_64")]
use crate::ops::warp::avx512;
use crate::simd::{Simd, twin};

/// Pixels of a padded view on each side of the view: taps of pixels that come from within lie there at most.
const MARGIN: usize = 2;
/// Rows of taps.
const ROWS: usize = 4;

/// Memory: the view with its outermost pixels again on all sides, and where the pixels of a row come from.
#[derive(Debug, Default)]
pub(super) struct Rows {
    padded: Planes,
    places: Places,
    /// The levels across, as little-endian words, of one row of taps of one plane.
    words: Vec<u32>,
    /// What the filter across gives, of each row of taps of one plane.
    sums: [Vec<f64>; ROWS],
}

/// Where pixels come from, and the rest of the way.
#[derive(Debug, Default)]
struct Places {
    /// The pixels left above, in a padded plane without its first row and its first pixel.
    pixels: Vec<u32>,
    dx: Vec<f64>,
    dy: Vec<f64>,
    /// 1 for pixels that come from within the view, 0 for others.
    within: Vec<u32>,
}

/// As `plain::apply`.
pub(super) fn apply(simd: Simd, view: &Planes, warp: &Warp, to: &mut Planes, rows: &mut Rows) {
    let Extent { width, height } = view.extent();
    let margins = 2 * MARGIN as u64;
    // Pixels are counted in 32 bits from here on. Views of recipes are far smaller.
    if (u64::from(width) + margins) * (u64::from(height) + margins) > i32::MAX as u64 {
        return plain::apply(view, warp, to);
    }
    rows.pad(view);
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd
        && !warp.map.keeps_rows_or_columns()
    {
        match warp.filter {
            Filter::Bilinear => return avx512::apply::<2>(proof, view, warp, to, rows),
            Filter::Bicubic => return avx512::apply::<4>(proof, view, warp, to, rows),
            Filter::Nearest | Filter::Box => {}
        }
    }
    by_compiler(simd, warp, to, rows);
}

twin! {
    fn by_compiler(warp: &Warp, to: &mut Planes, rows: &mut Rows) = all;
}

#[inline(always)]
fn all(warp: &Warp, to: &mut Planes, rows: &mut Rows) {
    match warp.filter {
        Filter::Nearest | Filter::Box => moved::<1>(warp, to, rows),
        Filter::Bilinear => moved::<2>(warp, to, rows),
        Filter::Bicubic => moved::<4>(warp, to, rows),
    }
}

/// With a filter over `TAPS` pixels.
#[inline(always)]
fn moved<const TAPS: usize>(warp: &Warp, to: &mut Planes, rows: &mut Rows) {
    let Extent { width, height } = to.extent();
    let mut to = to.planes_mut();
    for row in 0..height as usize {
        rows.write::<TAPS>(warp, row, 0..width as usize, &mut to);
    }
}

// === impl Rows ===

impl Rows {
    /// Takes a view over.
    fn pad(&mut self, view: &Planes) {
        let Extent { width, height } = view.extent();
        let margins = 2 * MARGIN as u32;
        self.padded.reset(Extent { width: width + margins, height: height + margins });
        let (width, height) = (width as usize, height as usize);
        for (plane, padded) in view.planes().into_iter().zip(self.padded.planes_mut()) {
            for (row, to) in padded.chunks_exact_mut(width + 2 * MARGIN).enumerate() {
                let row = row.saturating_sub(MARGIN).min(height - 1);
                let line = &plane[row * width..][..width];
                to[..MARGIN].fill(line[0]);
                to[MARGIN..][..width].copy_from_slice(line);
                to[MARGIN + width..].fill(line[width - 1]);
            }
        }
        self.places.resize(width);
        self.words.resize(width, 0);
        self.sums.iter_mut().for_each(|sums| sums.resize(width, 0.0));
    }

    /// Writes pixels of a row of all planes.
    #[inline(always)]
    pub(super) fn write<const TAPS: usize>(
        &mut self,
        warp: &Warp,
        row: usize,
        columns: Range<usize>,
        to: &mut [&mut [u8]; 3],
    ) {
        let Extent { width, height } = self.padded.extent();
        let size = [width as usize - 2 * MARGIN, height as usize - 2 * MARGIN];
        self.places.find::<TAPS>(&warp.map, size, row, columns.clone());
        let within = &self.places.within[..columns.len()];
        let is_within = |within: &u32| *within == 1;
        let (first, last) = (within.iter().position(is_within), within.iter().rposition(is_within));
        let (first, end) = first.zip(last).map_or((0, 0), |(first, last)| (first, last + 1));
        let lines = to.each_mut().map(|to| &mut to[row * size[0]..][columns.clone()]);
        let mut lines = lines.into_iter().zip(warp.fill).map(|(line, fill)| {
            line[..first].fill(fill);
            line[end..].fill(fill);
            &mut line[first..end]
        });
        let lines = [(); 3].map(|()| lines.next().unwrap_or_default());
        let is_on =
            |rest: &[f64]| rest[first..end].iter().fold(true, |on, rest| on & (*rest == 0.0));
        match (is_on(&self.places.dx), is_on(&self.places.dy)) {
            (true, true) => self.filter::<1, 1>(first..end, warp.fill, lines),
            (true, false) => self.filter::<1, TAPS>(first..end, warp.fill, lines),
            (false, true) => self.filter::<TAPS, 1>(first..end, warp.fill, lines),
            (false, false) => self.filter::<TAPS, TAPS>(first..end, warp.fill, lines),
        }
    }

    /// Writes a line of each plane, from places in a range, by a filter over as many columns and rows.
    #[inline(always)]
    fn filter<const ACROSS: usize, const DOWN: usize>(
        &mut self,
        range: Range<usize>,
        fill: [u8; 3],
        lines: [&mut [u8]; 3],
    ) {
        let Self { padded, places, words, sums } = self;
        let stride = padded.extent().width as usize;
        let within = &places.within[range.clone()];
        let all_within = within.iter().fold(1, |all, within| all & within) == 1;
        for ((plane, fill), line) in padded.planes().into_iter().zip(fill).zip(lines) {
            for (row, sums) in sums.iter_mut().take(DOWN).enumerate() {
                let first = (row + 1 - before::<DOWN>()) * stride + 1 - before::<ACROSS>();
                places.across::<ACROSS>(range.clone(), &plane[first..], words, sums);
            }
            down::<DOWN>(sums, &places.dy[range.clone()], line);
            if !all_within {
                for (level, within) in line.iter_mut().zip(within) {
                    *level = if *within == 1 { *level } else { fill };
                }
            }
        }
    }
}

// === impl Places ===

impl Places {
    fn resize(&mut self, len: usize) {
        self.pixels.resize(len, 0);
        self.dx.resize(len, 0.0);
        self.dy.resize(len, 0.0);
        self.within.resize(len, 0);
    }

    /// Finds those of some columns of a row.
    #[inline(always)]
    fn find<const TAPS: usize>(
        &mut self,
        map: &Map,
        [width, height]: [usize; 2],
        row: usize,
        columns: Range<usize>,
    ) {
        let count = columns.len();
        let (pixels, within) = (&mut self.pixels[..count], &mut self.within[..count]);
        let (dx, dy) = (&mut self.dx[..count], &mut self.dy[..count]);
        let (right, bottom) = (width as f64, height as f64);
        for n in 0..count {
            // From numbers of 32 bits: before AVX-512 no instruction takes longer ones.
            let column = columns.start as f64 + f64::from(n as u32);
            let [x, y] = map.at([column + 0.5, row as f64 + 0.5]);
            let is_within = (x >= 0.0) & (x < right) & (y >= 0.0) & (y < bottom);
            within[n] = u32::from(is_within);
            let half = if TAPS == 1 { 0.0 } else { 0.5 };
            // Others lie beyond what numbers are for; they look at the first pixel, and count nothing.
            let (x, y) = if is_within { (x - half, y - half) } else { (0.0, 0.0) };
            let (column, row) = (x.floor(), y.floor());
            (dx[n], dy[n]) = if TAPS == 1 { (0.0, 0.0) } else { (x - column, y - row) };
            let (column, row) = (rounded_to_zero(column), rounded_to_zero(row));
            pixels[n] = ((row + 1) * (width + 2 * MARGIN) as i32 + column + 1) as u32;
        }
    }

    /// The sums across of places in a range, from a plane in which each place is its first tap.
    #[inline(always)]
    fn across<const TAPS: usize>(
        &self,
        range: Range<usize>,
        plane: &[u8],
        words: &mut [u32],
        sums: &mut [f64],
    ) {
        let (pixels, dx) = (&self.pixels[range.clone()], &self.dx[range]);
        let Some(start) = pixels.first().copied() else { return };
        let (sums, words) = (&mut sums[..pixels.len()], &mut words[..pixels.len()]);
        if (start..).zip(pixels).fold(true, |follow, (n, pixel)| follow & (n == *pixel)) {
            let windows = plane[start as usize..].windows(TAPS);
            for ((sum, window), dx) in sums.iter_mut().zip(windows).zip(dx) {
                let mut levels = [0; TAPS];
                for (to, level) in levels.iter_mut().zip(window) {
                    *to = (*level).into();
                }
                *sum = across(levels, *dx);
            }
            return;
        }
        for (word, pixel) in words.iter_mut().zip(pixels) {
            let pixel = *pixel as usize;
            *word = match TAPS {
                1 => plane[pixel].into(),
                2 => u16::from_le_bytes([plane[pixel], plane[pixel + 1]]).into(),
                _ => plane[pixel..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word)),
            };
        }
        for ((sum, word), dx) in sums.iter_mut().zip(words).zip(dx) {
            let mut levels = [0; TAPS];
            for (at, to) in levels.iter_mut().enumerate() {
                *to = (*word >> (8 * at) & 255) as i32;
            }
            *sum = across(levels, *dx);
        }
    }
}

/// The levels of a line from the sums across of its rows of taps.
#[inline(always)]
fn down<const TAPS: usize>(sums: &[Vec<f64>; ROWS], dy: &[f64], line: &mut [u8]) {
    let [a, b, c, d] = sums.each_ref().map(|sums| &sums[..line.len()]);
    let both = line.iter_mut().zip(&dy[..a.len()]);
    for (n, (level, dy)) in both.enumerate() {
        *level = truncated_f64(match TAPS {
            1 => a[n],
            2 => linear(a[n], b[n], *dy),
            _ => cubic([a[n], b[n], c[n], d[n]], *dy),
        });
    }
}

/// The value at a place between levels of a row: sums of them are exact in whole numbers as they are in others.
#[inline(always)]
fn across<const TAPS: usize>(levels: [i32; TAPS], at: f64) -> f64 {
    match levels[..] {
        [a, b] => linear(a.into(), b.into(), at),
        [a, b, c, d] => {
            let (p2, p3, p4) = (c - a, 2 * (a - b) + c - d, b - a + d - c);
            horner([b.into(), p2.into(), p3.into(), p4.into()], at)
        }
        _ => levels[0].into(),
    }
}

/// Taps of a filter before the pixel at a place's left or above it.
const fn before<const TAPS: usize>() -> usize {
    (TAPS - 1) / 2
}
