//! The part of a GPU's proof that is about decoding: JPEGs of each sampling, with all of their pixels.

use headwater_core::recipe::{CropSpec, TensorSpec, ViewSpec};
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::{PartSample, RenderKey, Renderer};

use crate::device::Device;
use crate::error::ProofError;
use crate::renderer::CudaRenderer;
use crate::steps::Step;

/// Made by `proof/make.py`: with restart markers, where no entry points are needed, and without, where kernels find them.
const FILES: [&[u8]; 8] = [
    include_bytes!("proof/444.jpg"),
    include_bytes!("proof/422.jpg"),
    include_bytes!("proof/420.jpg"),
    include_bytes!("proof/gray.jpg"),
    include_bytes!("proof/find-444.jpg"),
    include_bytes!("proof/find-422.jpg"),
    include_bytes!("proof/find-420.jpg"),
    include_bytes!("proof/find-gray.jpg"),
];
/// Those in which kernels find them.
const FOUND: u64 = 4;
/// Their size in pixels.
const SIZE: (u32, u32) = (93, 50);

/// A view of all pixels as they are.
fn step() -> Step {
    let (width, height) = SIZE;
    let crop = CropSpec::CenterAfterResize { resize: height };
    let views = vec![ViewSpec { crop, ops: Vec::new() }];
    let base = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    let tensors =
        vec![TensorSpec { name: "images".into(), dtype: Dtype::U8, height, width, views }];
    ("decode JPEGs", Recipe { tensors, ..base })
}

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// Decodes JPEGs and compares every pixel with those of the definitions.
    ///
    /// # Errors
    /// One differs, or the device leaves a JPEG to the processor.
    pub(crate) fn prove_decoding(&mut self, plain: &mut Renderer) -> Result<(), ProofError> {
        let key = |number| RenderKey { seed: 14, epoch: 0, pass: 0, sample: SampleId(number) };
        let sample = |(number, encoded)| PartSample::of_image(key(number), encoded, 0);
        let samples: Vec<PartSample<'_>> = (0..).zip(FILES).map(sample).collect();
        let before = self.counts();
        let step = step();
        self.prove_step(&step, &samples, plain)?;
        let counts = self.counts();
        let (decoded, found) = (counts.decoded - before.decoded, counts.found - before.found);
        if (decoded, found) == (FILES.len() as u64, FOUND) {
            return Ok(());
        }
        Err(ProofError::Sample { step: step.0, reason: "it finds fault with good JPEGs".into() })
    }
}
