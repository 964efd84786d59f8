//! Pillow's Gaussian blur: three box blurs across, and three down.

mod columns;
pub mod plain;

pub use columns::Scratch;

use headwater_core::op::PilBlurred;

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::context::{Apply, OpContext};
use crate::simd::Simd;

/// Blurs by a standard deviation in pixels; 0 changes nothing.
pub fn apply(simd: Simd, view: &mut Planes, radius: f32, scratch: &mut Scratch) {
    if simd == Simd::Plain {
        plain::apply(view, radius);
    } else {
        columns::apply(simd, view, radius, scratch);
    }
}

// === impl PilBlurred ===

impl Apply for PilBlurred {
    fn apply(self, context: &mut OpContext, view: &mut Planes) {
        apply(context.simd, view, self.radius, &mut context.boxes);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
