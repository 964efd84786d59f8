//! Horizontal flip.

pub mod plain;

use headwater_core::op::Flipped;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::context::{Apply, OpContext};
use crate::simd::twin;

twin! {
    /// Reverses each row.
    pub fn apply(view: &mut Planes) = plain::apply;
}

// === impl Flipped ===

impl Apply for Flipped {
    fn apply(self, context: &mut OpContext, view: &mut Planes) {
        apply(context.simd, view);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::plain(kernels::FLIP));
    }
}
