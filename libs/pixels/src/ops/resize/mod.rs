//! Antialiased resize of a box of an image.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod fours;
mod geometry;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod kernels;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod layout;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod piecewise;
pub mod plain;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod quads;
#[cfg(target_arch = "x86_64")]
mod rearrange;
mod taps;
#[cfg(target_arch = "x86_64")]
mod windows;

pub use geometry::{Axis, Geometry, KEPT_BYTES, WORK_BYTES};
pub use taps::Taps;

use crate::image::{Planes, RgbImage};
use crate::ops::flip;
use crate::simd::Simd;
#[cfg(target_arch = "x86_64")]
use crate::simd::Vbmi;

/// Resizes views of an image, one after the other, in memory that it keeps up to [`KEPT_BYTES`].
#[derive(Debug)]
pub struct Resizer {
    twin: Twin,
    simd: Simd,
}

#[derive(Debug)]
enum Twin {
    Plain(plain::Scratch),
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Quads(kernels::Kernels, Box<quads::Scratch>),
    #[cfg(target_arch = "x86_64")]
    Windows(Vbmi, Box<windows::Scratch>, kernels::Kernels, Box<quads::Scratch>),
}

// === impl Resizer ===

impl Resizer {
    /// A resizer with the twin of `simd`.
    #[must_use]
    pub fn new(simd: Simd) -> Self {
        let twin = match simd {
            Simd::Plain => Twin::Plain(plain::Scratch::default()),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(proof) => Twin::Quads(kernels::Kernels::Avx2(proof), Box::default()),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(proof) => {
                let quads = kernels::Kernels::Avx512(proof);
                match proof.vbmi() {
                    Some(vbmi) => Twin::Windows(vbmi, Box::default(), quads, Box::default()),
                    None => Twin::Quads(quads, Box::default()),
                }
            }
            #[cfg(target_arch = "aarch64")]
            Simd::Neon(proof) => Twin::Quads(kernels::Kernels::Neon(proof), Box::default()),
        };
        Self { twin, simd }
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
        if geometry.is_piecewise(image.extent(), image.reduction()) {
            piecewise::resize(self.simd, image, geometry, view);
            if mirrored {
                flip::plain::apply(view);
            }
            return;
        }
        match &mut self.twin {
            Twin::Plain(scratch) => {
                plain::resize(image, geometry, scratch, view);
                if mirrored {
                    flip::plain::apply(view);
                }
            }
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Twin::Quads(kernels, scratch) => {
                scratch.resize(*kernels, image, geometry, mirrored, view);
            }
            #[cfg(target_arch = "x86_64")]
            Twin::Windows(vbmi, scratch, kernels, beyond) => {
                if !windows::resize(*vbmi, scratch, image, geometry, mirrored, view) {
                    beyond.resize(*kernels, image, geometry, mirrored, view);
                }
            }
        }
        if geometry.work_bytes(image.reduction()) > KEPT_BYTES {
            // Kept for the next view, it would be there beside what the next image takes.
            *self = Self::new(self.simd);
        }
    }
}
