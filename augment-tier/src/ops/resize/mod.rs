//! Antialiased bicubic resize of a box of an image.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod plain;
#[cfg(target_arch = "x86_64")]
mod quads;
#[cfg(target_arch = "x86_64")]
mod rearrange;
mod taps;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use taps::Taps;

use headwater_core::draw::{CropBox, Extent, Origin, ViewParams};

use crate::image::{Planes, RgbImage};
use crate::ops::flip;
use crate::simd::Simd;

/// Which part of an image becomes which view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The box that is cut; filter taps do not reach beyond it.
    pub crop: CropBox,
    /// Size to which the whole box is resized.
    pub resized: Extent,
    /// Where the view lies in the resized box.
    pub window: Origin,
    /// Size of the view.
    pub view: Extent,
}

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

// === impl Geometry ===

impl Geometry {
    /// How the view described by `params` is cut.
    #[must_use]
    pub fn new(params: &ViewParams, view: Extent) -> Self {
        let ViewParams { crop, resized, window, .. } = *params;
        Self { crop, resized, window, view }
    }

    /// The pixels of the image that the view is made of.
    #[must_use]
    pub fn source(&self) -> CropBox {
        let Self { crop, resized, window, view } = *self;
        let (left, right) = taps::reach(crop.width, resized.width, window.left, view.width);
        let (top, bottom) = taps::reach(crop.height, resized.height, window.top, view.height);
        CropBox {
            left: crop.left + left,
            top: crop.top + top,
            width: right - left,
            height: bottom - top,
        }
    }
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
