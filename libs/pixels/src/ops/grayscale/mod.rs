//! Grayscale with three equal channels.

pub mod plain;

use headwater_core::op::Grayscaled;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::context::{Apply, OpContext};
use crate::simd::twin;

twin! {
    /// Replaces all channels by the luma.
    pub fn apply(view: &mut Planes) = plain::apply;
}

// === impl Grayscaled ===

impl Apply for Grayscaled {
    fn apply(self, context: &mut OpContext, view: &mut Planes) {
        apply(context.simd, view);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::plain(kernels::GRAYSCALE));
    }
}
