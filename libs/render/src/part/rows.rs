//! The rows of one sample in memory of their own: to be compared with others.

use headwater_core::recipe::MX_BLOCK;
use headwater_core::{Dtype, Recipe};

use crate::backend::SampleRenderer;
use crate::error::RenderError;
use crate::render::{PartSample, Rendered, ViewSink};

/// All that is made of one sample: its views, tensors in order, and what goes with them.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRows {
    /// Number of the first view of each tensor.
    first: Vec<usize>,
    /// The bytes of each view.
    pub rows: Vec<Vec<u8>>,
    /// Of each view the scales of its blocks; empty where its dtype has no blocks.
    pub scales: Vec<Vec<u8>>,
    /// The largest reported magnitude of each tensor, as bits of binary32.
    pub amaxes: Vec<u32>,
    /// The scale of FP8 elements, where it is not the recipe's static scale.
    fp8_scale: Option<f32>,
}

// === impl SampleRows ===

impl SampleRows {
    /// Rows as the recipe has them; every byte of them is `fill`.
    #[must_use]
    pub fn new(recipe: &Recipe, fill: u8) -> Self {
        let (mut first, mut rows, mut scales) = (Vec::new(), Vec::new(), Vec::new());
        for spec in &recipe.tensors {
            first.push(rows.len());
            let bytes = |width: u64| (3 * u64::from(spec.height) * width) as usize;
            let width = u64::from(spec.width);
            let blocks = match spec.dtype {
                Dtype::Mxfp8E4m3 => width.div_ceil(MX_BLOCK.into()),
                _ => 0,
            };
            for _ in &spec.views {
                rows.push(vec![fill; bytes(width * spec.dtype.size_bytes())]);
                scales.push(vec![fill; bytes(blocks)]);
            }
        }
        Self { first, rows, scales, amaxes: vec![0; recipe.tensors.len()], fp8_scale: None }
    }

    /// The same with this scale of FP8 elements, as leases have them.
    #[must_use]
    pub fn scaled(self, fp8_scale: Option<f32>) -> Self {
        Self { fp8_scale, ..self }
    }

    /// All that was made, one after the other: elements, scales of blocks, magnitudes.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        let rows = self.rows.iter().chain(&self.scales).flatten().copied();
        rows.chain(self.amaxes.iter().flat_map(|bits| bits.to_le_bytes()))
    }
}

impl ViewSink for SampleRows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.rows[self.first[tensor] + view]
    }

    fn block_scales(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.scales[self.first[tensor] + view]
    }

    fn fp8_scale(&self, _: usize) -> Option<f32> {
        self.fp8_scale
    }

    fn fp8_amax(&mut self, tensor: usize, amax: f32) {
        // Bits of numbers that are not negative have the order of the numbers.
        self.amaxes[tensor] = self.amaxes[tensor].max(amax.to_bits());
    }
}

/// Renders samples together, each into its own rows; one answer for each.
pub fn render_into_rows(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    samples: &[PartSample<'_>],
    rows: &mut [SampleRows],
) -> Vec<Result<Rendered, RenderError>> {
    let mut sinks: Vec<&mut dyn ViewSink> = rows.iter_mut().map(|rows| rows as _).collect();
    renderer.render_all(recipe, samples, &mut sinks)
}
