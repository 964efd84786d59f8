//! Images as files: photos of the fixtures, and random ones.

use headwater_core::SampleId;
use headwater_core::draw::{DrawKey, DrawRng};

/// Photos that the repository has.
pub(crate) const PHOTOS: [&[u8]; 3] = [
    include_bytes!("../../render/tests/fixtures/views/astronaut.jpg"),
    include_bytes!("../../render/tests/fixtures/views/chelsea.jpg"),
    include_bytes!("../../render/tests/fixtures/views/coffee.jpg"),
];

pub(crate) fn rng(seed: u64) -> DrawRng {
    DrawKey { seed, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 }.rng()
}

pub(crate) fn from_range(rng: &mut DrawRng, low: u32, high: u32) -> u32 {
    low + rng.below(u64::from(high - low) + 1) as u32
}

/// A PNG of given pixels.
pub(crate) fn png(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fastest);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(pixels).expect("as many pixels as the header says");
    drop(writer);
    file
}

/// Random levels: evenly spread, only the extremes, nearly gray, or one value all over.
pub(crate) fn random_png(rng: &mut DrawRng, width: u32, height: u32) -> Vec<u8> {
    let kind = rng.below(5);
    let base = rng.below(256) as u8;
    let level = |rng: &mut DrawRng| match kind {
        0 | 1 => rng.below(256) as u8,
        2 => [0, 255][rng.below(2) as usize],
        3 => base.saturating_add(rng.below(4) as u8),
        _ => base,
    };
    let pixels: Vec<u8> = (0..3 * width * height).map(|_| level(rng)).collect();
    png(width, height, &pixels)
}
