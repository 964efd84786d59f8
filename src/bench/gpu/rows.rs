//! Samples rendered into memory of their own, numbered.

use headwater_augment::backend::SampleRenderer;
use headwater_augment::cuda::CodedImage;
use headwater_augment::part::{SampleRows, render_into_rows};
use headwater_augment::render::{PartSample, RenderError, RenderKey, Rendered};
use headwater_core::{Recipe, SampleId};

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
    rows: &mut [SampleRows],
) -> Vec<Result<Rendered, RenderError>> {
    render_coded(renderer, recipe, images.map(|image| (image, &[][..])), first, rows)
}

/// The same of images that are delivered with entry points.
pub(super) fn render_coded<'a>(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    images: impl Iterator<Item = CodedImage<'a>>,
    first: usize,
    rows: &mut [SampleRows],
) -> Vec<Result<Rendered, RenderError>> {
    let sample = |(number, (encoded, entries))| {
        let key = key(number);
        PartSample { key, encoded, entries, siblings: &[], label: -1 }
    };
    let samples: Vec<PartSample<'_>> = (first..).zip(images).map(sample).collect();
    render_into_rows(renderer, recipe, &samples, rows)
}
