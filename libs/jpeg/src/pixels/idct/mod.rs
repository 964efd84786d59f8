//! Dequantisation and inverse DCT: libjpeg-turbo's accurate one, "islow".

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod plain;

use headwater_simd::Simd;

/// Coefficients or samples of a block.
pub(super) const BLOCK: usize = 64;
/// Rows of a block, and samples of a row.
pub(super) const SIDE: usize = 8;
/// The largest quantisation step that is calculated with. All 8-bit tables are below it. Sixteen
/// products of a coefficient and such a step fit 32 bits.
pub(crate) const MAX_STEP: u16 = 4095;
/// The largest sum of magnitudes in two columns: see [`Idct::blocks`].
const MAX_PAIR: u32 = 5905;
/// The samples before 128 is added and they are clamped: libjpeg-turbo in C clamps by a table of
/// this range and wraps beyond it.
const MIN_SAMPLE: i32 = -512;
const MAX_SAMPLE: i32 = 511;

/// Where in a block, row by row, each coefficient in zigzag order is.
#[rustfmt::skip]
pub(crate) const NATURAL: [u8; BLOCK] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// A block, and where in a plane its samples go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pick {
    /// Number of the block.
    pub(crate) block: usize,
    /// Place of its first sample.
    pub(crate) place: usize,
}

/// The inverse DCT of one component: its quantisation table, arranged for a set of instructions.
#[derive(Clone, Debug)]
pub(crate) struct Idct {
    simd: Simd,
    /// In the order in which the twin of `simd` multiplies.
    steps: [i16; BLOCK],
    /// Whether all steps can be calculated with.
    is_usable: bool,
}

// === impl Idct ===

impl Idct {
    /// `quant` is in zigzag order, as in the file.
    pub(crate) fn new(simd: Simd, quant: &[u16; BLOCK]) -> Self {
        let mut natural = [0; BLOCK];
        for (at, step) in NATURAL.iter().zip(quant) {
            natural[usize::from(*at)] = *step as i16;
        }
        let is_usable = quant.iter().all(|step| *step <= MAX_STEP);
        Self { simd, steps: arranged(simd, &natural), is_usable }
    }

    /// Writes the samples of the blocks that are picked, each once, to `plane`, and sets their coefficients to zero. A
    /// block is in zigzag order; its 8 rows of 8 samples go to `plane[place..]`, each `stride` further.
    ///
    /// Returns whether every libjpeg-turbo gives these samples: the one in C and those of each set of
    /// instructions. If not, the samples of this call are unspecified. Panics if a block is not there, or does not
    /// fit `plane`.
    ///
    /// # When all agree
    ///
    /// All calculate the same integers, except where one wraps or saturates. That never happens if
    ///
    /// 1. no quantisation step is above 4095, and
    /// 2. for each of the column pairs (0, 4), (1, 5), (2, 6), (3, 7) the magnitudes of the 16 products
    ///    of coefficient and step add up to at most 5905, and
    /// 3. each final sample, before 128 is added, is in -512..=511.
    ///
    /// Proof. By 2 every product fits 16 bits, and so does any sum of products of one column, such as the three
    /// that the vector versions make in 16 bits (rows 0 ± 4, 7 + 3, 5 + 1). The first pass multiplies by at
    /// most 11363 (√2 cos(π/16) in 13 bits), adds up and divides by 2^11. So the results of two paired
    /// columns in one row add up to at most 5905 · 11363 / 2048 + 1 < 32765 in magnitude: each fits 16 bits,
    /// and so do the three sums of the second pass (columns 0 ± 4, 7 + 3, 5 + 1). A row has four pairs, so the
    /// results of the second pass are at most 4 · 32765 · 11363 + 2^17 < 2^31. What is added up on the way
    /// may wrap at 32 bits, which cancels out. Divided by 2^18 the results fit 14 bits; by 3 the table
    /// of C clamps them as saturation does.
    ///
    /// Forward transforms of 8-bit samples are far below the limits: the 64 coefficients have at most 1024² as sum of
    /// squares, so the 16 of a pair have at most 4 · 1024 as sum of magnitudes.
    #[must_use]
    pub(crate) fn blocks(
        &self,
        coefficients: &mut [[i16; BLOCK]],
        picks: &[Pick],
        plane: &mut [u8],
        stride: usize,
    ) -> bool {
        if !self.is_usable {
            picks.iter().for_each(|pick| coefficients[pick.block] = [0; BLOCK]);
            return false;
        }
        match self.simd {
            Simd::Plain => plain::blocks(&self.steps, coefficients, picks, plane, stride),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(proof) => {
                avx2::blocks(proof, &self.steps, coefficients, picks, plane, stride)
            }
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(proof) => {
                avx512::blocks(proof, &self.steps, coefficients, picks, plane, stride)
            }
            #[cfg(target_arch = "aarch64")]
            Simd::Neon(proof) => {
                neon::blocks(proof, &self.steps, coefficients, picks, plane, stride)
            }
        }
    }
}

/// Quantisation steps in the order in which the twin of `simd` multiplies.
fn arranged(simd: Simd, natural: &[i16; BLOCK]) -> [i16; BLOCK] {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) | Simd::Avx512(_) => pairs::arranged(natural),
        _ => *natural,
    }
}

/// Panics unless a block at `place` is within the plane.
#[inline(always)]
fn assert_fits(place: usize, stride: usize, plane: &[u8]) {
    // The first two rule out that the third overflows.
    let is_near = stride < plane.len() && place < plane.len();
    assert!(
        is_near && place + (SIDE - 1) * stride + SIDE <= plane.len(),
        "a block outside the plane"
    );
}
