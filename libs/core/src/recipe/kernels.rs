//! What GPUs do not do yet: a worker with a GPU renders such recipes with its processor threads.

use super::spec::{CropSpec, OpSpec, Recipe, ViewSpec};

// === impl Recipe ===

impl Recipe {
    /// The first part of the recipe that has no CUDA kernel, with its name in the configuration;
    /// `None` if GPUs can do all of it.
    #[must_use]
    pub fn without_kernel(&self) -> Option<&'static str> {
        let bases = self.bases.iter().map(|base| &base.view);
        let views = self.tensors.iter().flat_map(|tensor| &tensor.views);
        let of_views = bases.chain(views).find_map(ViewSpec::without_kernel);
        let of_image = || self.image_ops.iter().find_map(OpSpec::without_kernel);
        of_views.or_else(of_image).or_else(|| self.geometry_without_kernel())
    }

    fn geometry_without_kernel(&self) -> Option<&'static str> {
        match (self.aligned.is_empty(), self.boxes.is_empty()) {
            (false, _) => Some("a tensor of another field"),
            (true, false) => Some("boxes"),
            (true, true) => None,
        }
    }
}

// === impl ViewSpec ===

impl ViewSpec {
    fn without_kernel(&self) -> Option<&'static str> {
        let crop = self.crop.without_kernel();
        crop.or_else(|| self.ops.iter().find_map(OpSpec::without_kernel))
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
            | Self::Resize => None,
            Self::Random { .. } => Some("crop random"),
            Self::Center { .. } => Some("crop center"),
        }
    }
}

// === impl OpSpec ===

impl OpSpec {
    fn without_kernel(&self) -> Option<&'static str> {
        match self {
            Self::Flip { .. }
            | Self::ColorJitter { .. }
            | Self::Grayscale { .. }
            | Self::GaussianBlur { .. }
            | Self::Solarize { .. } => None,
            Self::Python { .. } => Some("python"),
            Self::Invert { .. } => Some("invert"),
            Self::Posterize { .. } => Some("posterize"),
            Self::Equalize { .. } => Some("equalize"),
            Self::AutoContrast { .. } => Some("auto_contrast"),
            Self::Sharpness { .. } => Some("sharpness"),
            Self::PilBlur { .. } => Some("pil_blur"),
            Self::GaussianNoise { .. } => Some("gaussian_noise"),
            Self::Rotation { .. } => Some("rotation"),
            Self::Affine { .. } => Some("affine"),
            Self::Perspective { .. } => Some("perspective"),
            Self::RandAugment(_) => Some("rand_augment"),
            Self::TrivialAugmentWide(_) => Some("trivial_augment_wide"),
            Self::AutoAugment(_) => Some("auto_augment"),
            Self::TimmRandAugment(_) => Some("timm_rand_augment"),
            Self::TimmAugMix(_) => Some("timm_aug_mix"),
            Self::Erase { .. } => Some("erase"),
        }
    }
}
