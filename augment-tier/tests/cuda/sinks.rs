//! Rows in memory, and samples rendered into them.

use headwater_augment::backend::{SampleJob, SampleRenderer};
use headwater_augment::render::{RenderError, RenderKey, ViewSink};
use headwater_core::recipe::MX_BLOCK;
use headwater_core::{Dtype, Recipe, SampleId};

/// The rows of one sample, in the order of the recipe.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    first: Vec<usize>,
    pub(crate) rows: Vec<Vec<u8>>,
    /// For each row the scales of its blocks.
    block_scales: Vec<Vec<u8>>,
    /// The scale that a lease gives FP8 tensors.
    fp8_scale: Option<f32>,
    /// Tensor and amax of each FP8 view, in the order of the recipe.
    amaxes: Vec<(usize, f32)>,
}

// === impl Rows ===

impl Rows {
    /// Rows as the recipe has them, none of them written yet.
    pub(crate) fn new(recipe: &Recipe) -> Self {
        Self::scaled(recipe, None)
    }

    /// The same with a scale for FP8 tensors.
    pub(crate) fn scaled(recipe: &Recipe, fp8_scale: Option<f32>) -> Self {
        let (first, rows, block_scales, amaxes) = Default::default();
        let mut rows = Self { first, rows, block_scales, fp8_scale, amaxes };
        for spec in &recipe.tensors {
            rows.first.push(rows.rows.len());
            let elements = 3 * u64::from(spec.width) * u64::from(spec.height);
            let bytes = (elements * spec.dtype.size_bytes()) as usize;
            rows.rows.extend(spec.views.iter().map(|_| vec![0xcd; bytes]));
            let is_mx = spec.dtype == Dtype::Mxfp8E4m3;
            let blocks = if is_mx { 3 * spec.height * spec.width.div_ceil(MX_BLOCK) } else { 0 };
            rows.block_scales.extend(spec.views.iter().map(|_| vec![0xcd; blocks as usize]));
        }
        rows
    }
}

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.rows[self.first[tensor] + view]
    }

    fn block_scales(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.block_scales[self.first[tensor] + view]
    }

    fn fp8_scale(&self, _: usize) -> Option<f32> {
        self.fp8_scale
    }

    fn fp8_amax(&mut self, tensor: usize, amax: f32) {
        self.amaxes.push((tensor, amax));
    }
}

pub(crate) fn key(sample: u64) -> RenderKey {
    RenderKey { seed: 20_261, epoch: 1, pass: 0, sample: SampleId(sample) }
}

/// Renders samples, numbered from 0; what became of each.
pub(crate) fn render(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    encoded: &[&[u8]],
) -> (Vec<Rows>, Vec<Result<(), RenderError>>) {
    render_into(renderer, recipe, encoded, encoded.iter().map(|_| Rows::new(recipe)).collect())
}

/// Renders samples into rows that are there.
pub(crate) fn render_into(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    encoded: &[&[u8]],
    mut rows: Vec<Rows>,
) -> (Vec<Rows>, Vec<Result<(), RenderError>>) {
    let mut jobs: Vec<SampleJob<'_>> = (0..)
        .zip(encoded)
        .zip(&mut rows)
        .map(|((number, encoded), out)| SampleJob { key: key(number), encoded, out })
        .collect();
    let ends = renderer.render_all(recipe, &mut jobs);
    assert_eq!(ends.len(), encoded.len());
    drop(jobs);
    (rows, ends.into_iter().map(|end| end.map(|_| ())).collect())
}

/// Renders samples by the definitions and by another renderer, and compares every byte.
pub(crate) fn compare(
    plain: &mut dyn SampleRenderer,
    other: &mut dyn SampleRenderer,
    recipe: &Recipe,
    encoded: &[&[u8]],
    what: &dyn std::fmt::Debug,
) {
    let (expected, expected_ends) = render(plain, recipe, encoded);
    let (found, ends) = render(other, recipe, encoded);
    assert_eq!(ends, expected_ends, "{what:?}");
    for (sample, (expected, found)) in expected.iter().zip(&found).enumerate() {
        for (view, (expected, found)) in expected.rows.iter().zip(&found.rows).enumerate() {
            let differ = expected.iter().zip(found).filter(|(a, b)| a != b).count();
            let at = expected.iter().zip(found).position(|(a, b)| a != b);
            assert_eq!(differ, 0, "sample {sample} view {view}: bytes from {at:?} of {what:?}");
        }
        assert!(expected == found, "sample {sample}: scales or amaxes of {what:?}");
    }
}
