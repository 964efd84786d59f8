//! Operations that turn each level of a channel into another one.

pub mod plain;

use headwater_core::op::{AutoContrasted, Equalized, Inverted, Posterized, SolarizedAdd};

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::apply::Apply;
use crate::ops::lookup;
use crate::simd::{Simd, twin};

/// What becomes of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Pillow's `ImageOps.invert`.
    Invert,
    /// Pillow's `ImageOps.posterize`: that many upper bits stay, from 0 to 8.
    Posterize(u8),
    /// timm's `solarize_add`: the first is added to levels below the second.
    SolarizeAdd(u8, u8),
    /// Pillow's `ImageOps.equalize`.
    Equalize,
    /// Pillow's `ImageOps.autocontrast` without a cutoff.
    AutoContrast,
}

/// Changes all levels.
pub fn apply(simd: Simd, view: &mut Planes, change: Change) {
    if simd == Simd::Plain {
        return plain::apply(view, change);
    }
    for plane in view.planes_mut() {
        let table = match change {
            Change::Equalize => change.table(&counted(plane)),
            Change::AutoContrast => {
                let mut ends = [u8::MAX, 0];
                widen(simd, plane, &mut ends);
                plain::stretched(ends[0], ends[1])
            }
            _ => {
                one_by_one(simd, plane, change);
                continue;
            }
        };
        lookup::map(simd, plane, &table);
    }
}

twin! {
    fn one_by_one(levels: &mut [u8], change: Change) = plain::one_by_one;
}

twin! {
    fn widen(levels: &[u8], ends: &mut [u8; 2]) = widened;
}

/// Widens a range so that it has all levels.
#[inline(always)]
fn widened(levels: &[u8], ends: &mut [u8; 2]) {
    let [darkest, brightest] = ends;
    for level in levels {
        (*darkest, *brightest) = ((*darkest).min(*level), (*brightest).max(*level));
    }
}

/// How often each level occurs. Neighbours are counted apart: they are often equal, and a count would
/// wait for the one before.
fn counted(plane: &[u8]) -> [u64; 256] {
    let mut counts = [[0u32; 256]; 4];
    let (fours, rest) = plane.as_chunks::<4>();
    for four in fours {
        for (level, counts) in four.iter().zip(&mut counts) {
            counts[usize::from(*level)] += 1;
        }
    }
    for level in rest {
        counts[0][usize::from(*level)] += 1;
    }
    std::array::from_fn(|level| counts.iter().map(|counts| u64::from(counts[level])).sum())
}

// === impl Inverted ===

impl Apply for Inverted {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view, Change::Invert);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

// === impl Posterized ===

impl Apply for Posterized {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view, Change::Posterize(self.bits));
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

// === impl SolarizedAdd ===

impl Apply for SolarizedAdd {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view, Change::SolarizeAdd(self.add, self.threshold));
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

// === impl Equalized ===

impl Apply for Equalized {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view, Change::Equalize);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

// === impl AutoContrasted ===

impl Apply for AutoContrasted {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view, Change::AutoContrast);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
