//! Samples rendered into rows in memory, and compared.

use headwater_core::{Recipe, SampleId};
use headwater_render::backend::SampleRenderer;
use headwater_render::part::{SampleRows, render_into_rows};
use headwater_render::{PartSample, RenderError, RenderKey};

/// What rows hold that nobody has written.
pub(crate) const UNTOUCHED: u8 = 0xcd;

/// Rows as the recipe has them, none of them written yet.
pub(crate) fn untouched(recipe: &Recipe) -> SampleRows {
    SampleRows::new(recipe, UNTOUCHED)
}

pub(crate) fn key(sample: u64) -> RenderKey {
    RenderKey { seed: 20_261, epoch: 1, pass: 0, sample: SampleId(sample) }
}

/// Renders samples, numbered from 0; what became of each.
pub(crate) fn render(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    encoded: &[&[u8]],
) -> (Vec<SampleRows>, Vec<Result<(), RenderError>>) {
    render_into(renderer, recipe, encoded, encoded.iter().map(|_| untouched(recipe)).collect())
}

/// Renders samples into rows that are there.
pub(crate) fn render_into(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    encoded: &[&[u8]],
    rows: Vec<SampleRows>,
) -> (Vec<SampleRows>, Vec<Result<(), RenderError>>) {
    let coded: Vec<(&[u8], &[u8])> = encoded.iter().map(|encoded| (*encoded, &[][..])).collect();
    render_coded(renderer, recipe, &coded, rows)
}

/// Renders samples that are delivered with entry points.
pub(crate) fn render_coded(
    renderer: &mut dyn SampleRenderer,
    recipe: &Recipe,
    coded: &[(&[u8], &[u8])],
    mut rows: Vec<SampleRows>,
) -> (Vec<SampleRows>, Vec<Result<(), RenderError>>) {
    let sample = |(number, &(encoded, entries))| {
        let key = key(number);
        PartSample { key, encoded, entries, extra_fields: &[], label: 0 }
    };
    let samples: Vec<PartSample<'_>> = (0..).zip(coded).map(sample).collect();
    let ends = render_into_rows(renderer, recipe, &samples, &mut rows);
    assert_eq!(ends.len(), coded.len());
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
