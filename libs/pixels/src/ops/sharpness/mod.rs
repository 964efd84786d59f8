//! Sharpness: a blend with a smoothed copy.

pub mod plain;

use headwater_core::op::Sharpened;

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::apply::Apply;
use crate::simd::{Simd, twin};

twin! {
    /// Blends with the smoothed view: 0 is that, 1 changes nothing, 2 sharpens. `spare` is memory.
    pub fn apply(view: &mut Planes, factor: f32, spare: &mut Planes) = plain::apply;
}

// === impl Sharpened ===

impl Apply for Sharpened {
    type Memory = Planes;

    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        apply(simd, view, self.factor, memory);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
