//! Samples rendered into memory of their own, numbered.

use std::sync::Arc;

use anyhow::{Error, Result};
use headwater_core::{Layout, Recipe, Region, SampleId};
use headwater_part_rows::RowBytes;
use headwater_render::backend::SampleRenderer;
use headwater_render::part::{PartPlan, PartScales, SampleRows, render_into_rows};
use headwater_render::{PartSample, RenderError, RenderKey, Rendered};
use headwater_render_cuda::CodedImage;
use headwater_transport::{PartBuffer, PartMemory, PartRow, RowDraft, RowMemory};

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
    render_into_rows(renderer, recipe, &samples(images, first), rows)
}

fn samples<'a>(images: impl Iterator<Item = CodedImage<'a>>, first: usize) -> Vec<PartSample<'a>> {
    let sample = |(number, (encoded, entries))| {
        let key = key(number);
        PartSample { key, encoded, entries, extra_fields: &[], label: -1 }
    };
    (first..).zip(images).map(sample).collect()
}

/// A part in memory as workers have it, which is rendered again and again.
pub(super) struct PartInMemory<'a> {
    plan: &'a PartPlan,
    scales: PartScales,
    regions: usize,
    rows: Vec<RowDraft>,
}

// === impl PartInMemory ===

impl<'a> PartInMemory<'a> {
    /// # Errors
    /// There is no memory.
    pub(super) fn new(plan: &'a PartPlan, samples: usize) -> Result<Self> {
        let layout = Layout::new(plan.recipe(), samples as u32);
        let regions: Arc<[Region]> = layout.part_regions(0, samples as u32).into();
        let memory = PartMemory::new(PartMemory::bytes_for(&regions)).map_err(Error::msg)?;
        let count = regions.len();
        let rows = PartBuffer::in_memory(regions, memory, drop)?.into_rows(samples);
        let rows = rows.into_iter().map(|row: PartRow| row.draft(RowMemory::default)).collect();
        Ok(Self { plan, scales: PartScales::of(plan.recipe()), regions: count, rows })
    }

    /// Checksums of the rows: as whoever wrote them says, and then of the bytes that are there.
    pub(super) fn checksums(&mut self) -> [Vec<u64>; 2] {
        let said = self.rows.iter_mut().map(RowDraft::checksum).collect();
        for row in &mut self.rows {
            // What is lent is summed again.
            (0..self.regions).for_each(|region| _ = row.region_mut(region));
        }
        [said, self.rows.iter_mut().map(RowDraft::checksum).collect()]
    }

    /// Renders images, numbered from `first` on, and sums their bytes; how many were good.
    pub(super) fn render<'i>(
        &mut self,
        renderer: &mut dyn SampleRenderer,
        images: impl Iterator<Item = CodedImage<'i>>,
        first: usize,
    ) -> u64 {
        let mut rows: Vec<&mut RowDraft> = self.rows.iter_mut().collect();
        let samples = samples(images, first);
        let ends = self.plan.render_samples(renderer, &self.scales, &samples, &mut rows);
        rows.into_iter().for_each(|row| _ = row.checksum());
        ends.iter().filter(|end| end.is_ok()).count() as u64
    }
}
