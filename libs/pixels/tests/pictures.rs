//! Random images and views, and those at the edges.

use headwater_core::SampleId;
use headwater_core::draw::{DrawKey, DrawRng, Extent};
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::simd::Simd;

/// The sets that have twins here; nothing but a note where there is none.
pub(crate) fn twins() -> &'static [Simd] {
    let twins = &Simd::available()[1..];
    if twins.is_empty() {
        eprintln!("no twin of this processor to compare");
    }
    twins
}

pub(crate) fn rng(seed: u64) -> DrawRng {
    DrawKey { seed, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 }.rng()
}

pub(crate) fn from_range(rng: &mut DrawRng, low: u32, high: u32) -> u32 {
    low + rng.below(u64::from(high - low) + 1) as u32
}

/// Random values: evenly spread, or only the extremes, or nearly gray, or one value all over.
pub(crate) fn values(rng: &mut DrawRng, len: usize) -> Vec<u8> {
    let kind = rng.below(5);
    let base = rng.below(256) as u8;
    let value = |rng: &mut DrawRng| match kind {
        0 | 1 => rng.below(256) as u8,
        2 => [0, 255][rng.below(2) as usize],
        3 => base.saturating_add(rng.below(4) as u8),
        _ => base,
    };
    (0..len).map(|_| value(rng)).collect()
}

pub(crate) fn image(rng: &mut DrawRng, extent: Extent) -> RgbImage {
    let len = extent.width as usize * extent.height as usize * 3;
    RgbImage::from_pixels(extent, values(rng, len))
}

pub(crate) fn planes(rng: &mut DrawRng, extent: Extent) -> Planes {
    let len = extent.width as usize * extent.height as usize * 3;
    Planes::from_values(extent, values(rng, len))
}
