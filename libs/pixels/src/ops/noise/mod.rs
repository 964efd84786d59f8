//! Normal noise on levels.

pub mod plain;

use headwater_core::op::Noised;

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::apply::Apply;
use crate::simd::Simd;

// === impl Noised ===

impl Apply for Noised {
    type Memory = ();

    fn apply(self, _simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        plain::apply(view, self.mean, self.sigma, self.seed);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
