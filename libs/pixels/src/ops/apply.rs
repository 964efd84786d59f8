//! What is asked of an operation on this side.

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::simd::Simd;

/// What is drawn of an operation, done to pixels.
pub(super) trait Apply {
    /// Memory that is kept from one view to the next.
    type Memory;

    /// Changes a view.
    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory);

    /// Appends the records that a kernel reads of it. None where GPUs cannot do it: recipes that have it are the
    /// processor's.
    fn records(self, to: &mut Vec<KernelOp>);
}
