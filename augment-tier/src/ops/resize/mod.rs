//! Antialiased bicubic resize of a box of an image.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod geometry;
pub mod plain;
#[cfg(target_arch = "x86_64")]
mod quads;
#[cfg(target_arch = "x86_64")]
mod rearrange;
mod taps;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use geometry::{Axis, Geometry};
pub use taps::Taps;

use crate::image::{Planes, RgbImage};
use crate::ops::flip;
use crate::simd::Simd;

/// Resizes views of an image, one after the other, in memory that it keeps.
#[derive(Debug)]
pub struct Resizer {
    twin: Twin,
}

#[derive(Debug)]
enum Twin {
    Plain(plain::Scratch),
    #[cfg(target_arch = "x86_64")]
    X86(x86::Kernels, Box<quads::Scratch>),
}

// === impl Resizer ===

impl Resizer {
    /// A resizer with the twin of `simd`.
    #[must_use]
    pub fn new(simd: Simd) -> Self {
        let twin = match simd {
            Simd::Plain => Twin::Plain(plain::Scratch::default()),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(proof) => Twin::X86(x86::Kernels::Avx2(proof), Box::default()),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(proof) => Twin::X86(x86::Kernels::Avx512(proof), Box::default()),
        };
        Self { twin }
    }

    /// Cuts and resizes a view, and mirrors it from left to right if so asked.
    ///
    /// # Panics
    /// The geometry goes beyond the image or the resized box.
    pub fn resize(
        &mut self,
        image: &RgbImage,
        geometry: &Geometry,
        mirrored: bool,
        view: &mut Planes,
    ) {
        match &mut self.twin {
            Twin::Plain(scratch) => {
                plain::resize(image, geometry, scratch, view);
                if mirrored {
                    flip::plain::apply(view);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Twin::X86(kernels, scratch) => {
                scratch.resize(*kernels, image, geometry, mirrored, view);
            }
        }
    }
}
