//! Solarise: bright values are inverted.

pub mod plain;

use headwater_core::op::Solarized;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::context::{Apply, OpContext};
use crate::simd::twin;

twin! {
    /// Inverts values from `threshold` upwards.
    pub fn apply(view: &mut Planes, threshold: u8) = plain::apply;
}

// === impl Solarized ===

impl Apply for Solarized {
    fn apply(self, context: &mut OpContext, view: &mut Planes) {
        apply(context.simd, view, self.threshold);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::level(kernels::SOLARIZE, self.threshold.into()));
    }
}
