//! Pillow's Gaussian blur: three box blurs across, and three down.

mod columns;
pub mod plain;

pub use columns::Scratch;

use headwater_core::op::PilBlurred;

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::apply::Apply;
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
    type Memory = Scratch;

    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        apply(simd, view, self.radius, memory);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
