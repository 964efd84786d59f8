//! Reading fixtures and comparing pixels.

use std::path::{Path, PathBuf};

use headwater_core::draw::Extent;
use headwater_pixels::image::{Planes, RgbImage};
use headwater_render::decode::{DecodeLimits, Decoder};
use serde::de::DeserializeOwned;

/// A file of `tests/fixtures`.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let path = path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn json<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_slice(&bytes(name)).expect("a fixture that make.py wrote")
}

/// Pixels of an RGB PNG, read without the decoder that is under test.
pub(crate) fn png(name: &str) -> RgbImage {
    let decoder = png::Decoder::new(std::io::Cursor::new(bytes(name)));
    let mut reader = decoder.read_info().expect("a PNG");
    let info = reader.info();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    let extent = Extent { width: info.width, height: info.height };
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut pixels).expect("whole");
    RgbImage::from_pixels(extent, pixels)
}

pub(crate) fn decode(encoded: &[u8]) -> RgbImage {
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let image = decoder.decode(encoded).expect("an image");
    RgbImage::from_pixels(image.extent(), image.pixels())
}

/// `u8[h, w, 3]` to `u8[3, h, w]`.
pub(crate) fn planes(image: &RgbImage) -> Planes {
    planes_of(image.extent(), &image.pixels())
}

pub(crate) fn planes_of(extent: Extent, pixels: &[u8]) -> Planes {
    let channel = |channel: usize| pixels.iter().skip(channel).step_by(3).copied();
    Planes::from_values(extent, (0..3).flat_map(channel).collect())
}

/// The images that lie one below the other in a fixture, each of size `extent`.
pub(crate) fn stacked(name: &str, extent: Extent) -> Vec<Planes> {
    let image = png(name);
    assert_eq!(image.extent().width, extent.width);
    let len = (extent.width * extent.height * 3) as usize;
    image.pixels().chunks_exact(len).map(|pixels| planes_of(extent, pixels)).collect()
}

/// How many values differ, and by how much at most.
pub(crate) fn difference(found: &[u8], expected: &[u8]) -> (usize, u8) {
    assert_eq!(found.len(), expected.len());
    let levels = || found.iter().zip(expected).map(|(&a, &b)| a.abs_diff(b));
    (levels().filter(|&level| level > 0).count(), levels().max().unwrap_or(0))
}
