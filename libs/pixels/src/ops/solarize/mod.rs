//! Solarise: bright values are inverted.

pub mod plain;

use headwater_core::op::Solarized;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::apply::Apply;
use crate::simd::{Simd, twin};

twin! {
    /// Inverts values from `threshold` upwards.
    pub fn apply(view: &mut Planes, threshold: u8) = plain::apply;
}

// === impl Solarized ===

impl Apply for Solarized {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        apply(simd, view, self.threshold);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::level(kernels::SOLARIZE, self.threshold.into()));
    }
}
