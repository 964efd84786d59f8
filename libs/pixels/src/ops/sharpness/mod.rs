//! Sharpness: a blend with a smoothed copy.

pub mod plain;

use headwater_core::op::Sharpened;

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::context::{Apply, OpContext};
use crate::simd::twin;

twin! {
    /// Blends with the smoothed view: 0 is that, 1 changes nothing, 2 sharpens. `spare` is memory.
    pub fn apply(view: &mut Planes, factor: f32, spare: &mut Planes) = plain::apply;
}

// === impl Sharpened ===

impl Apply for Sharpened {
    fn apply(self, context: &mut OpContext, view: &mut Planes) {
        apply(context.simd, view, self.factor, &mut context.spare);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
