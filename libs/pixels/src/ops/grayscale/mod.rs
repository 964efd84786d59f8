//! Grayscale with three equal channels.

pub mod plain;

use headwater_core::op::Grayscaled;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::apply::Apply;
use crate::simd::{Simd, twin};

twin! {
    /// Replaces all channels by the luma.
    pub fn apply(view: &mut Planes) = plain::apply;
}

// === impl Grayscaled ===

impl Apply for Grayscaled {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::plain(kernels::GRAYSCALE));
    }
}
