//! The operations of a recipe on uint8 pixels, and the cuts of levels that follow them.
//!
//! In each folder `plain.rs` is the definition: readable, always built, equal to Pillow and
//! torchvision as its header says. Any other file there must give the same bytes.

#[macro_use]
mod table;

pub mod amax;
pub mod blend;
pub mod blur;
pub mod brightness;
pub mod cast;
mod context;
pub mod contrast;
pub mod erase;
pub mod flip;
pub mod grayscale;
pub mod hue;
mod jitter;
pub mod level;
pub mod levels;
pub(crate) mod lookup;
pub mod luma;
pub mod mix;
pub mod noise;
pub mod pad;
pub mod pil_blur;
pub mod resize;
pub mod saturation;
pub mod sharpness;
pub mod solarize;
pub mod vertical_flip;
pub mod warp;

use headwater_core::op::DrawnOp;

use crate::image::Planes;
use crate::kernels::KernelOp;
use context::Apply;
pub use context::OpContext;

// Each that changes pixels of a view. A new one that is not here does not compile.
operations! {
    Flip,
    VerticalFlip,
    ColorJitter,
    Grayscale,
    GaussianBlur,
    Solarize,
    Enhance,
    Sharpness,
    Posterize,
    SolarizeAdd,
    AutoContrast,
    Equalize,
    Invert,
    MixBegin,
    MixChain,
    MixEnd,
    Affine,
    Perspective,
    PilBlur,
    GaussianNoise,
}

#[cfg(test)]
mod tests {
    use headwater_core::SampleId;
    use headwater_core::draw::{DrawKey, Extent};
    use headwater_core::op::OpSpec;
    use headwater_core::recipe::{CropSpec, ViewSpec};

    use super::*;

    /// A recipe whose operation has a kernel is rendered by GPUs: without a record it would be left out there.
    #[test]
    fn kernels_are_told_of_all_that_they_do() {
        let extent = Extent { width: 32, height: 32 };
        let key = DrawKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(2), stream: 0 };
        for op in OpSpec::examples().into_iter().filter(OpSpec::has_kernel) {
            let view = ViewSpec { crop: CropSpec::Resize, ops: vec![op.clone()] };
            let mut records = Vec::new();
            let drawn = view.draw(extent, extent, &mut key.rng()).ops;
            drawn.iter().for_each(|op| KernelOp::push(op, &mut records));
            assert!(!records.is_empty(), "{}", op.name());
        }
    }
}
