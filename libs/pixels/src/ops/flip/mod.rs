//! Horizontal flip.

pub mod plain;

use headwater_core::op::Flipped;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::apply::Apply;
use crate::simd::{Simd, twin};

twin! {
    /// Reverses each row.
    pub fn apply(view: &mut Planes) = plain::apply;
}

// === impl Flipped ===

impl Apply for Flipped {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::plain(kernels::FLIP));
    }
}
