//! Vertical flip.

pub mod plain;

use headwater_core::op::FlippedDown;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::apply::Apply;
use crate::simd::Simd;

// === impl FlippedDown ===

impl Apply for FlippedDown {
    type Memory = ();

    /// Rows are moved as they are: there is nothing that other instructions would do faster.
    fn apply(self, _simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        plain::apply(view);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::plain(kernels::VERTICAL_FLIP));
    }
}
