//! The operations of a recipe on uint8 pixels, and the cuts of levels that follow them.
//!
//! In each folder `plain.rs` is the definition: readable, always built, equal to Pillow and
//! torchvision as its header says. Any other file there must give the same bytes.

#[macro_use]
mod table;

pub mod amax;
mod apply;
pub mod blend;
pub mod blur;
pub mod brightness;
pub mod cast;
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
use crate::simd::Simd;
use apply::Apply;

/// What operations need beside a view: instructions, and memory that they keep.
#[derive(Debug)]
pub struct OpContext {
    simd: Simd,
    nothing: (),
    blur: blur::Scratch,
    pil_blur: pil_blur::Scratch,
    warp: warp::Memory,
    mixture: mix::Mixture,
    spare: Planes,
}

// Each that changes pixels of a view, and its memory in the context. A new one that is not here does not compile.
operations! {
    Flip: nothing,
    VerticalFlip: nothing,
    ColorJitter: nothing,
    Grayscale: nothing,
    GaussianBlur: blur,
    Solarize: nothing,
    Enhance: nothing,
    Sharpness: spare,
    Posterize: nothing,
    SolarizeAdd: nothing,
    AutoContrast: nothing,
    Equalize: nothing,
    Invert: nothing,
    MixBegin: mixture,
    MixChain: mixture,
    MixEnd: mixture,
    Affine: warp,
    Perspective: warp,
    PilBlur: pil_blur,
    GaussianNoise: nothing,
}

// === impl OpContext ===

impl OpContext {
    /// Operations by these instructions.
    #[must_use]
    pub fn new(simd: Simd) -> Self {
        Self {
            simd,
            nothing: (),
            blur: blur::Scratch::default(),
            pil_blur: pil_blur::Scratch::default(),
            warp: warp::Memory::default(),
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
            let view = ViewSpec { crop: CropSpec::Resize {}, ops: vec![op.clone()] };
            let mut records = Vec::new();
            let drawn = view.draw(extent, extent, &mut key.rng()).ops;
            drawn.iter().for_each(|op| KernelOp::push(op, &mut records));
            assert!(!records.is_empty(), "{}", op.name());
        }
    }
}
