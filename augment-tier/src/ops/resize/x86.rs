//! The faster twins of x86-64 processors: what differs between instruction sets.

use crate::image::RgbImage;
use crate::ops::resize::quads::{Pass, QUAD, Quads, Turn};
use crate::ops::resize::{avx2, avx512};
use crate::simd::{Avx2, Avx512};

/// The steps of a resize in one instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernels {
    Avx2(Avx2),
    Avx512(Avx512),
}

// === impl Kernels ===

impl Kernels {
    /// The four weights of a quad as the pass wants them.
    pub(super) fn pack(self, weights: [i32; QUAD]) -> [u32; QUAD] {
        match self {
            Self::Avx2(_) => avx2::pack(weights),
            Self::Avx512(_) => avx512::pack(weights),
        }
    }

    /// One pass over one channel.
    pub(super) fn pass(self, pass: &Pass<'_>, out: &mut [u8]) {
        match self {
            Self::Avx2(proof) => avx2::pass(proof, pass, out),
            Self::Avx512(proof) => avx512::pass(proof, pass, out),
        }
    }

    /// Cuts an image into quads of columns.
    pub(super) fn cut(self, image: &RgbImage, quads: &mut Quads) {
        avx2::cut(self.avx2(), image, quads);
    }

    /// Turns `u8[lanes, positions]` into quads of positions, side by side for all lanes.
    pub(super) fn turn(self, turn: &Turn<'_>, out: &mut [u8]) {
        avx2::turn(self.avx2(), turn, out);
    }

    fn avx2(self) -> Avx2 {
        match self {
            Self::Avx2(proof) => proof,
            Self::Avx512(proof) => proof.avx2(),
        }
    }
}
