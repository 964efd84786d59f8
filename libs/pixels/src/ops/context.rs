//! Operations one after the other, by one name.

use super::{blur, mix, pil_blur, warp};
use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::simd::Simd;

/// What operations need beside a view: instructions, and memory that they keep.
#[derive(Debug)]
pub struct OpContext {
    pub(super) simd: Simd,
    pub(super) blur: blur::Scratch,
    pub(super) boxes: pil_blur::Scratch,
    pub(super) columns: warp::Scratch,
    pub(super) mixture: mix::Mixture,
    pub(super) spare: Planes,
}

/// What is drawn of an operation, done to pixels.
pub(super) trait Apply {
    /// Changes a view.
    fn apply(self, context: &mut OpContext, view: &mut Planes);

    /// What a kernel is told of it. Nothing where GPUs cannot do it: recipes that have it are the processor's.
    fn records(self, to: &mut Vec<KernelOp>);
}

// === impl OpContext ===

impl OpContext {
    /// Operations by these instructions.
    #[must_use]
    pub fn new(simd: Simd) -> Self {
        Self {
            simd,
            blur: blur::Scratch::default(),
            boxes: pil_blur::Scratch::default(),
            columns: warp::Scratch::default(),
            mixture: mix::Mixture::new(),
            spare: Planes::new(),
        }
    }

    /// The instructions.
    #[must_use]
    pub fn simd(&self) -> Simd {
        self.simd
    }

    /// A view that nothing is kept in from one operation to the next.
    pub fn spare(&mut self) -> &mut Planes {
        &mut self.spare
    }
}
