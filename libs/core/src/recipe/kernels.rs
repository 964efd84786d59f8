//! What GPUs do not do yet: a worker with a GPU renders such recipes with its processor threads.

use super::spec::{CropSpec, Recipe, ViewSpec};
use crate::op::OpSpec;

// === impl Recipe ===

impl Recipe {
    /// The first part of the recipe that has no CUDA kernel, with its name in the configuration;
    /// `None` if GPUs can do all of it.
    #[must_use]
    pub fn without_kernel(&self) -> Option<&'static str> {
        let bases = self.bases.iter().map(|base| &base.view);
        let views = self.tensors.iter().flat_map(|tensor| &tensor.views);
        let of_views = bases.chain(views).find_map(ViewSpec::without_kernel);
        let of_image = || without_kernel(&self.image_ops);
        of_views.or_else(of_image).or_else(|| self.geometry_without_kernel())
    }

    fn geometry_without_kernel(&self) -> Option<&'static str> {
        if !self.aligned.is_empty() {
            return Some("a tensor of another field");
        }
        let boxes = (!self.boxes.is_empty()).then_some("boxes");
        boxes.or_else(|| (!self.geometry.is_empty()).then_some("a field of kind geometry"))
    }
}

// === impl ViewSpec ===

impl ViewSpec {
    fn without_kernel(&self) -> Option<&'static str> {
        let crop = self.crop.without_kernel();
        crop.or_else(|| without_kernel(&self.ops))
    }
}

// === impl CropSpec ===

impl CropSpec {
    fn without_kernel(&self) -> Option<&'static str> {
        match self {
            Self::RandomResized { .. }
            | Self::CenterAfterResize { .. }
            | Self::Base { .. }
            | Self::WindowOfBase { .. }
            | Self::RandomAfterResize { .. }
            | Self::Resize {} => None,
            Self::Sequence { .. } => Some("crop sequence"),
            Self::RandomResizedSequence { .. } => Some("crop random_resized_sequence"),
            Self::Random { .. } => Some("crop random"),
            Self::Center { .. } => Some("crop center"),
        }
    }
}

/// The first that has none.
fn without_kernel(ops: &[OpSpec]) -> Option<&'static str> {
    ops.iter().find(|op| !op.has_kernel()).map(OpSpec::name)
}
