//! A GPU's proof that it makes the processor's bytes, before a worker takes it: small made-up images
//! by each operation and cast, there and by the definitions, and every byte compared.

use headwater_core::SampleId;
use headwater_core::draw::DrawKey;
use headwater_render::part::{SampleRows, render_into_rows};
use headwater_render::{PartSample, RenderKey, Renderer, ViewSink};
use headwater_simd::Simd;

use super::device::Device;
use super::error::ProofError;
use super::job::Job;
use super::renderer::CudaRenderer;
use super::steps::{self, Step};
use super::sums;

/// Bytes of a stream's arena that suffice for each step.
pub(super) const ARENA_BYTES: u64 = 16 << 20;

/// Sizes of the images, in pixels: enlarged and shrunk, wide and tall. Enough of them for a mean that is
/// rounded otherwise to show.
const IMAGES: [(u32, u32); 6] = [(96, 61), (33, 120), (20, 24), (64, 20), (41, 37), (90, 90)];

/// Pixels of every colour, a quarter of them with channels at the ends of their range, as a PNG.
fn image(number: u64, (width, height): (u32, u32)) -> Vec<u8> {
    let key = DrawKey { seed: 14, epoch: 0, pass: 0, sample: SampleId(number), stream: 0 };
    let mut rng = key.rng();
    let mut level = || match rng.below(4) {
        0 => 255 * rng.below(2) as u8,
        _ => rng.below(256) as u8,
    };
    let pixels: Vec<u8> = (0..3 * width * height).map(|_| level()).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a vector takes all");
    writer.write_image_data(&pixels).expect("as many as the header says");
    drop(writer);
    file
}

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// Renders made-up images by each operation and cast and compares every byte with what the
    /// operations' definitions make of them on the processor, now. Gives the number of steps.
    ///
    /// # Errors
    /// The first step in which a byte differs, or that the device cannot do.
    pub fn prove(&mut self) -> Result<usize, ProofError> {
        let mut plain = Renderer::with_simd(Simd::Plain)?;
        let files: Vec<Vec<u8>> =
            (0..).zip(IMAGES).map(|(number, size)| image(number, size)).collect();
        let key = |number| RenderKey { seed: 14, epoch: 0, pass: 0, sample: SampleId(number) };
        let sample = |(number, encoded)| PartSample::of_image(key(number), encoded, 0);
        let samples: Vec<PartSample<'_>> =
            (0..).zip(files.iter().map(Vec::as_slice)).map(sample).collect();
        let steps = steps::all();
        for step in &steps {
            self.prove_step(step, &samples, &mut plain)?;
        }
        if self.coder.is_on {
            self.prove_decoding(&mut plain)?;
        }
        if let Some(device) = &mut self.device {
            sums::prove(device)?;
        }
        Ok(steps.len() + 1 + usize::from(self.coder.is_on))
    }

    pub(super) fn prove_step(
        &mut self,
        (step, recipe): &Step,
        samples: &[PartSample<'_>],
        plain: &mut Renderer,
    ) -> Result<(), ProofError> {
        let unrendered = |reason: String| ProofError::Sample { step, reason };
        let mut expected = vec![SampleRows::new(recipe, 0); samples.len()];
        for ended in render_into_rows(plain, recipe, samples, &mut expected) {
            ended.map_err(|error| unrendered(error.to_string()))?;
        }
        let mut found = vec![SampleRows::new(recipe, 0); samples.len()];
        let before = self.counts().on_device;
        let mut sinks: Vec<&mut dyn ViewSink> = found.iter_mut().map(|rows| rows as _).collect();
        let mut job = Job::new(recipe, samples, &mut sinks);
        self.try_all(&mut job).map_err(|source| ProofError::Device { step, source })?;
        for ended in job.outcomes.into_iter().flatten() {
            ended.map_err(|error| unrendered(error.to_string()))?;
        }
        if self.counts().on_device - before != samples.len() as u64 {
            return Err(unrendered("it has left images to the processor".into()));
        }
        let bytes_of =
            |all: &[SampleRows]| -> Vec<u8> { all.iter().flat_map(SampleRows::bytes).collect() };
        let (expected, found) = (bytes_of(&expected), bytes_of(&found));
        match expected.iter().zip(&found).filter(|(a, b)| a != b).count() {
            0 => Ok(()),
            differ => Err(ProofError::Differs { step, differ, bytes: expected.len() }),
        }
    }
}
