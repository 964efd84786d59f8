//! The twin of processors with AVX-512 VBMI.
//!
//! The horizontal pass makes 16 outputs of a row at a time: the source positions of all of them lie in a
//! window of 64 bytes, or of 128, from which one permutation takes four taps of each output. Nothing is
//! rearranged before or after. Beyond a scale of about 6 no window is wide enough: the other twins' way,
//! `quads`, is taken then.
//!
//! Equal to `plain`: weights are computed by the same operations in the same order, and the sum of their
//! three signed digits to the base 256 is the same integer, modulo 2^32.

mod across;
mod avx512;
mod down;
mod weights;

pub(super) use avx512::resize;

use crate::simd::Aligned;

/// Outputs whose weights are computed together, and that are made together of a row.
const LANES: usize = 16;
/// Taps that one instruction multiplies.
const QUAD: usize = 4;
/// Bytes of a vector: a quad for each lane.
const VECTOR: usize = LANES * QUAD;

/// Memory between views.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    across: across::Across,
    down: down::Down,
    weights: weights::Scratch,
    /// Quads of rows as `u8[3, quads, columns, 4]`: of what the horizontal pass made, or of the image
    /// where the vertical pass comes first.
    quads: Aligned<u8>,
    /// What the vertical pass made where it comes first: `u8[3, rows, columns]`.
    between: Aligned<u8>,
    /// The view's planes with whole blocks of lanes and rows, where the horizontal pass comes last:
    /// `u8[3, rows, lanes]`.
    made: Aligned<u8>,
}
