//! Files made by libjpeg-turbo, for unit tests and integration tests.

use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

/// A file and what it is.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) file: Vec<u8>,
}

/// A picture with edges, slopes and noise: `u8[height, width, 3]`.
pub(crate) fn picture(width: usize, height: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut pixels = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let slope = (x * (channel + 1) + y * 2) / 2;
                let edge = if (x / 13 + y / 7) % 3 == channel { 90 } else { 0 };
                let noise = if y * 2 > height { state % 64 } else { state % 5 };
                pixels.push((slope + edge + noise as usize) as u8);
            }
        }
    }
    pixels
}

/// One file.
pub(crate) fn made(
    (width, height): (usize, usize),
    subsampling: Subsamp,
    quality: i32,
    optimize: bool,
) -> Made {
    let pixels = picture(width, height, (width * 31 + height) as u64);
    compressed(&pixels, (width, height), subsampling, quality, optimize)
}

/// A file of these pixels.
pub(crate) fn compressed(
    pixels: &[u8],
    (width, height): (usize, usize),
    subsampling: Subsamp,
    quality: i32,
    optimize: bool,
) -> Made {
    let image = Image { pixels, width, pitch: width * 3, height, format: PixelFormat::RGB };
    let mut compressor = Compressor::new().unwrap();
    compressor.set_subsamp(subsampling).unwrap();
    compressor.set_quality(quality).unwrap();
    compressor.set_optimize(optimize).unwrap();
    let file = compressor.compress_to_vec(image).unwrap();
    let name =
        format!("{width} x {height}, {subsampling:?}, quality {quality}, optimised {optimize}");
    Made { name, file }
}

/// The kinds of subsampling that libjpeg-turbo writes.
pub(crate) const SUBSAMPLINGS: [Subsamp; 6] = [
    Subsamp::None,
    Subsamp::Sub2x1,
    Subsamp::Sub1x2,
    Subsamp::Sub2x2,
    Subsamp::Sub4x1,
    Subsamp::Gray,
];
