//! Files made by libjpeg-turbo, and its word on files.
#![allow(dead_code, reason = "each test file uses its part")]

mod made;

pub(crate) use made::{Made, SUBSAMPLINGS, compressed, made, picture};
use turbojpeg::PixelFormat;

/// What libjpeg-turbo makes of a file in which it finds nothing amiss.
pub(crate) struct Judged {
    pub width: usize,
    /// `u8[height, width, 3]`.
    pub pixels: Vec<u8>,
}

/// libjpeg-turbo's pixels, or its words.
pub(crate) fn judge(file: &[u8]) -> Result<Judged, String> {
    let image = turbojpeg::decompress(file, PixelFormat::RGB).map_err(|error| error.to_string())?;
    Ok(Judged { width: image.width, pixels: image.pixels })
}

/// All samplings, small and odd sizes, qualities from 1 to 100, standard and optimised tables.
pub(crate) fn files() -> Vec<Made> {
    let mut files = Vec::new();
    for subsampling in SUBSAMPLINGS {
        for side in 1..=70 {
            for (width, height) in [(side, 71 - side), (side, side)] {
                files.push(made((width, height), subsampling, 90, side % 2 == 0));
            }
        }
        for quality in (1..=100).step_by(3) {
            files.push(made((150, 121), subsampling, quality, quality % 2 == 0));
        }
        files.push(made((500, 375), subsampling, 85, true));
    }
    files
}
