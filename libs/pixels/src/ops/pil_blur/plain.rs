//! The definition: Pillow's `ImageFilter.GaussianBlur` (`BoxBlur.c`). The pixels at the edges go on
//! beyond them.
//!
//! Box lengths: Gwosdek, Grewenig, Bruhn and Weickert, "Theoretical Foundations of Gaussian Convolution by
//! Extended Box Filtering", 2011, equations 7, 11 and 14.

use crate::image::Planes;

/// Box blurs in each direction.
pub(super) const PASSES: usize = 3;

/// A box with a fraction of a pixel at both ends, in units of 2^-24.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    /// Whole pixels to each side.
    pub(super) radius: usize,
    /// Of a pixel within.
    pub(super) within: u32,
    /// Of the pixels at the ends.
    pub(super) ends: u32,
}

/// Blurs by a standard deviation in pixels; 0 changes nothing.
pub fn apply(view: &mut Planes, radius: f32) {
    let Some(weights) = Weights::of(radius) else { return };
    let extent = view.extent();
    let (width, height) = (extent.width as usize, extent.height as usize);
    for plane in view.planes_mut() {
        for _ in 0..PASSES {
            for row in plane.chunks_exact_mut(width) {
                let line: Vec<u8> = row.to_vec();
                row.iter_mut()
                    .enumerate()
                    .for_each(|(at, level)| *level = weights.level(&line, at));
            }
        }
        for column in 0..width {
            for _ in 0..PASSES {
                let line: Vec<u8> = (0..height).map(|row| plane[row * width + column]).collect();
                (0..height).for_each(|row| plane[row * width + column] = weights.level(&line, row));
            }
        }
    }
}

// === impl Weights ===

impl Weights {
    /// The box with which three passes come near a Gaussian; none for a deviation of 0.
    pub(super) fn of(deviation: f32) -> Option<Self> {
        if deviation == 0.0 {
            return None;
        }
        let variance = deviation * deviation / PASSES as f32;
        let length = (12.0 * f64::from(variance) + 1.0).sqrt() as f32;
        let whole = ((f64::from(length) - 1.0) / 2.0).floor() as f32;
        let mut rest = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
        rest /= 6.0 * (variance - (whole + 1.0) * (whole + 1.0));
        let radius = whole + rest;
        let within = ((1u32 << 24) as f32 / (radius * 2.0 + 1.0)) as u32;
        let radius = radius as u32;
        let ends = ((1u32 << 24) - (radius * 2 + 1) * within) / 2;
        Some(Self { radius: radius as usize, within, ends })
    }

    /// The blurred level at a place of a line.
    fn level(&self, line: &[u8], at: usize) -> u8 {
        let value = |at: isize| u32::from(line[at.clamp(0, line.len() as isize - 1) as usize]);
        let (at, radius) = (at as isize, self.radius as isize);
        let sum: u32 = (at - radius..=at + radius).map(value).sum();
        let ends = value(at - radius - 1) + value(at + radius + 1);
        rounded(sum * self.within + ends * self.ends)
    }
}

/// To the nearest level.
#[inline(always)]
pub(super) fn rounded(sum: u32) -> u8 {
    ((sum + (1 << 23)) >> 24) as u8
}
