//! The faster twins: what differs between instruction sets.

use crate::ops::resize::fours::Fours;
use crate::ops::resize::layout::{self, Cut, Pass, QUAD, Rows};
#[cfg(target_arch = "aarch64")]
use crate::ops::resize::neon;
#[cfg(target_arch = "x86_64")]
use crate::ops::resize::{avx2, avx512, rearrange};
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
use crate::simd::Simd;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};

/// The steps of a resize in one instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernels {
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

// === impl Kernels ===

#[cfg(target_arch = "x86_64")]
impl Kernels {
    /// The weights of quads as the passes want them, four words for each quad.
    pub(super) fn pack(self, weights: &[i32], words: &mut [[u32; QUAD]]) {
        match self {
            Self::Avx2(_) => layout::split(weights, words),
            Self::Avx512(proof) => avx512::pack(proof, weights, words),
        }
    }

    /// A pass over one block of lanes: `out` is `u8[3, positions, 16]` with `channel_stride` bytes
    /// from a channel to the next.
    pub(super) fn pass_block(self, pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
        match self {
            Self::Avx2(proof) => avx2::pass_block(proof, pass, out, channel_stride),
            Self::Avx512(proof) => avx512::pass_block(proof, pass, out, channel_stride),
        }
    }

    /// A pass over all lanes of one channel: `out` is `u8[positions, lanes]`.
    pub(super) fn pass_lanes(self, pass: &Pass<'_, 1>, out: &mut [u8]) {
        match self {
            Self::Avx2(proof) => avx2::pass_lanes(proof, pass, out),
            Self::Avx512(proof) => avx512::pass_lanes(proof, pass, out),
        }
    }

    /// The horizontal pass of rows as they are, into `u8[3, quads, lanes, 4]`.
    pub(super) fn across(self, rows: &Rows<'_>, fours: &Fours, out: &mut [u8]) {
        avx2::across(self.avx2(), rows, fours, out);
    }

    /// Whether [`Kernels::across`] is faster than a cut, a pass and a turn.
    pub(super) fn goes_across(self) -> bool {
        matches!(self, Self::Avx2(_))
    }

    /// Cuts 16 rows of a plane into quads of columns, or 16 columns into quads of rows.
    pub(super) fn cut(self, cut: &Cut<'_>, out: &mut [u8]) {
        match self {
            Self::Avx2(proof) => rearrange::cut(proof, cut, out),
            Self::Avx512(proof) => rearrange::cut_avx512(proof, cut, out),
        }
    }

    /// Turns `u8[lanes, 16]` into `u8[4, lanes, 4]`.
    pub(super) fn turn(self, columns: &[u8], out: &mut [u8]) {
        rearrange::turn(self.avx2(), columns, out);
    }

    /// Turns a view on its side, `u8[width, lanes]`, into a plane `u8[height, width]`.
    pub(super) fn upright(self, columns: &[u8], lanes: usize, plane: &mut [u8], width: usize) {
        rearrange::upright(self.avx2(), columns, lanes, plane, width);
    }

    /// The set itself.
    pub(super) fn simd(self) -> Simd {
        match self {
            Self::Avx2(proof) => Simd::Avx2(proof),
            Self::Avx512(proof) => Simd::Avx512(proof),
        }
    }

    fn avx2(self) -> Avx2 {
        match self {
            Self::Avx2(proof) => proof,
            Self::Avx512(proof) => proof.avx2(),
        }
    }
}

/// As above.
#[cfg(target_arch = "aarch64")]
impl Kernels {
    #[expect(clippy::unused_self, reason = "as with several sets")]
    pub(super) fn pack(self, weights: &[i32], words: &mut [[u32; QUAD]]) {
        layout::split(weights, words);
    }

    pub(super) fn pass_block(self, pass: &Pass<'_, 3>, out: &mut [u8], channel_stride: usize) {
        let Self::Neon(proof) = self;
        neon::pass_block(proof, pass, out, channel_stride);
    }

    pub(super) fn pass_lanes(self, pass: &Pass<'_, 1>, out: &mut [u8]) {
        let Self::Neon(proof) = self;
        neon::pass_lanes(proof, pass, out);
    }

    pub(super) fn across(self, rows: &Rows<'_>, fours: &Fours, out: &mut [u8]) {
        let Self::Neon(proof) = self;
        neon::across(proof, rows, fours, out);
    }

    #[expect(clippy::unused_self, reason = "as with several sets")]
    pub(super) fn goes_across(self) -> bool {
        true
    }

    #[expect(clippy::unused_self, reason = "as with several sets")]
    pub(super) fn cut(self, cut: &Cut<'_>, out: &mut [u8]) {
        neon::cut(cut, out);
    }

    #[expect(clippy::unused_self, reason = "as with several sets")]
    pub(super) fn turn(self, columns: &[u8], out: &mut [u8]) {
        neon::turn(columns, out);
    }

    #[expect(clippy::unused_self, reason = "as with several sets")]
    pub(super) fn upright(self, columns: &[u8], lanes: usize, plane: &mut [u8], width: usize) {
        layout::upright_from(columns, lanes, plane, width, 0);
    }

    pub(super) fn simd(self) -> Simd {
        let Self::Neon(proof) = self;
        Simd::Neon(proof)
    }
}
