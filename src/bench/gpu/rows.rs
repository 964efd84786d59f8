//! Samples rendered into memory of their own, and what is compared of them.

use headwater_augment::backend::{SampleJob, SampleRenderer};
use headwater_augment::render::{RenderError, RenderKey, Rendered, ViewSink};
use headwater_core::recipe::MX_BLOCK;
use headwater_core::{Dtype, Recipe, SampleId};

/// All that is made of one sample: its views, tensors in order, and what goes with them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rows {
    /// Number of the first view of each tensor.
    first: Vec<usize>,
    pub(super) rows: Vec<Vec<u8>>,
    pub(super) scales: Vec<Vec<u8>>,
    /// The largest of each tensor, as bits.
    pub(super) amaxes: Vec<u32>,
}

// === impl Rows ===

impl Rows {
    pub(super) fn new(recipe: &Recipe) -> Self {
        let (mut first, mut rows, mut scales) = (Vec::new(), Vec::new(), Vec::new());
        for spec in &recipe.tensors {
            first.push(rows.len());
            let bytes = |width: u64| (3 * u64::from(spec.height) * width) as usize;
            let width = u64::from(spec.width);
            let blocks = match spec.dtype {
                Dtype::Mxfp8E4m3 => width.div_ceil(MX_BLOCK as u64),
                _ => 0,
            };
            for _ in &spec.views {
                rows.push(vec![0; bytes(width * spec.dtype.size_bytes())]);
                scales.push(vec![0; bytes(blocks)]);
            }
        }
        let amaxes = vec![0; recipe.tensors.len()];
        Self { first, rows, scales, amaxes }
    }
}

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.rows[self.first[tensor] + view]
    }

    fn block_scales(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.scales[self.first[tensor] + view]
    }

    fn fp8_amax(&mut self, tensor: usize, amax: f32) {
        // Bits of numbers that are not negative have the order of the numbers.
        self.amaxes[tensor] = self.amaxes[tensor].max(amax.to_bits());
    }
}

/// What a sample's draws follow from here: its number.
pub(super) fn key(number: usize) -> RenderKey {
    RenderKey { seed: 0, epoch: 0, pass: 0, sample: SampleId(number as u64) }
}

/// Renders images, numbered from `first` on, each into its rows.
pub(super) fn render<'a>(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    images: impl Iterator<Item = &'a [u8]>,
    first: usize,
    rows: &mut [Rows],
) -> Vec<Result<Rendered, RenderError>> {
    let numbered = (first..).zip(images);
    let mut jobs: Vec<SampleJob<'_>> = numbered
        .zip(rows)
        .map(|((number, encoded), out)| SampleJob { key: key(number), encoded, out })
        .collect();
    renderer.render_all(recipe, &mut jobs)
}
