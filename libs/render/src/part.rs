//! A part from encoded samples: the pure function that workers exist for.
//!
//! [`render_part`] does it in a plain loop on one thread; the pool calls the same
//! [`PartPlan::render_sample`] from many. No clock, no thread, no I/O.

mod fields;
mod rows;
mod scales;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::recipe::RawSpec;
use headwater_core::{Layout, Recipe};
use headwater_part_rows::{DeviceRegion, Pins, RowBytes, SliceRow, part_checksum, row_checksum};
use smallvec::SmallVec;

pub(crate) use fields::shown;
pub use fields::{SampleFault, SampleFields};
pub use rows::{SampleRows, render_into_rows};
pub use scales::PartScales;

use crate::backend::SampleRenderer;
use crate::error::{BadImage, RenderError};
use crate::extra_fields::FieldReaders;
use crate::render::{BoxPart, GeometryPart, PartSample, PatchPart, Rendered, ViewSink};
use crate::tokenizers::Tokenizers;

/// A recipe, and which region of a part holds which of its views: regions are numbered as
/// `Layout::part_regions` has them, tensors in order, views in order, the scales of their blocks where
/// they have such, tensors that follow them, encoded bytes and their
/// numbers where the recipe delivers them, the tensors of its fields, boxes, where views lie, the labels last.
#[derive(Clone, Debug)]
pub struct PartPlan {
    recipe: Arc<Recipe>,
    /// Region of each tensor's first view.
    first_region: Vec<usize>,
    /// The same of tensors of other fields that follow these.
    first_aligned: Vec<usize>,
    /// Region of the encoded bytes, before that of their numbers.
    raw_region: usize,
    /// Region of the first tensor of a field.
    fields_region: usize,
    /// The first region of each list of boxes.
    first_boxes: Vec<usize>,
    /// The same of tensors of geometry.
    first_geometry: Vec<usize>,
    labels_region: usize,
    fields: FieldReaders,
}

/// Samples that are tried in place of a bad one.
const SUBSTITUTES_MAX: u32 = 16;

/// A sample that could not be rendered ends [`render_part`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sample {position} of the part: {error}")]
pub struct PartError {
    /// Its place in the part.
    pub position: usize,
    /// What is wrong with it.
    #[source]
    pub error: RenderError,
}

/// Renders a whole part on the calling thread and gives its checksum, see
/// [`part_checksum`]. `regions` are those of `Layout::part_regions(_, samples.len())`; every byte
/// of them is written.
///
/// # Errors
/// The first sample that cannot be rendered. Rows of earlier ones are written, its own are not.
///
/// # Panics
/// The regions are not the layout's.
pub fn render_part(
    renderer: &mut dyn SampleRenderer,
    plan: &PartPlan,
    samples: &[PartSample<'_>],
    scales: &PartScales,
    regions: &mut [&mut [u8]],
) -> Result<u64, PartError> {
    let count = regions.len();
    let mut sums = Vec::with_capacity(samples.len());
    for (position, sample) in samples.iter().enumerate() {
        let mut row = SliceRow::new(regions, position, samples.len());
        plan.render_sample(renderer, sample, scales, &mut row)
            .map_err(|error| PartError { position, error })?;
        sums.push(row_checksum((0..count).map(|i| row.region(i))));
    }
    Ok(part_checksum(sums))
}

// === impl PartPlan ===

impl PartPlan {
    /// The regions of a part of this recipe.
    #[must_use]
    pub fn new(recipe: Arc<Recipe>) -> Self {
        // The layout is the one place that knows what comes after what.
        let layout = Layout::new(&recipe, 1);
        let region = |name: &str| {
            let before = layout.tensors().iter().take_while(|tensor| tensor.name != name);
            before.map(|tensor| tensor.views as usize).sum::<usize>()
        };
        let fields = FieldReaders::new(&recipe);
        let first_region = recipe.tensors.iter().map(|tensor| region(&tensor.name)).collect();
        let first_aligned = recipe.aligned.iter().map(|spec| region(&spec.name)).collect();
        let first_boxes = recipe.boxes.iter().map(|spec| region(&spec.name)).collect();
        let first_geometry = recipe.geometry.iter().map(|spec| region(&spec.name)).collect();
        let first_field = recipe.field_tensors().next();
        let fields_region = first_field.map_or(0, |tensor| region(&tensor.name));
        let (raw_region, labels_region) = (region(RawSpec::BYTES), region(Layout::LABELS));
        Self {
            recipe,
            first_region,
            first_aligned,
            raw_region,
            fields_region,
            first_boxes,
            first_geometry,
            labels_region,
            fields,
        }
    }

    /// The same, whose fields of tokens are made by these tokenizers.
    ///
    /// # Errors
    /// The recipe wants one that is not among them; the sentence says what to do.
    pub fn tokenizing(self, tokenizers: &Tokenizers) -> Result<Self, String> {
        Ok(Self { fields: self.fields.tokenizing(tokenizers)?, ..self })
    }

    /// The recipe.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What reads the recipe's fields.
    #[must_use]
    pub fn fields(&self) -> &FieldReaders {
        &self.fields
    }

    /// Writes what does not follow from the image: the rows of the fields, and the label.
    fn write_fields(&self, sample: &PartSample<'_>, fields: &[u8], row: &mut impl RowBytes) {
        self.fields.write(fields, self.fields_region, row);
        row.region_mut(self.labels_region).copy_from_slice(&sample.label.to_le_bytes());
    }

    /// Writes a sample's encoded bytes, zeros after them, and their number.
    fn write_raw(&self, encoded: &[u8], row: &mut impl RowBytes) {
        let (bytes, rest) = row.region_mut(self.raw_region).split_at_mut(encoded.len());
        bytes.copy_from_slice(encoded);
        rest.fill(0);
        let size = encoded.len() as i64;
        row.region_mut(self.raw_region + 1).copy_from_slice(&size.to_le_bytes());
    }

    /// As [`PartPlan::render_sample`] for several samples, each to its own row, which the renderer is
    /// given together; for each the time that its decoding took, or what is wrong.
    ///
    /// # Panics
    /// As [`PartPlan::render_sample`].
    pub fn render_samples<R: RowBytes>(
        &self,
        renderer: &mut dyn SampleRenderer,
        scales: &PartScales,
        samples: &[PartSample<'_>],
        rows: &mut [&mut R],
    ) -> Vec<Result<Duration, RenderError>> {
        let both = samples.iter().zip(rows);
        let together = self.recipe.raw.is_none() && !self.recipe.tensors.is_empty();
        if !together || samples.len() < 2 {
            let render = |(sample, row): (_, &mut &mut R)| {
                self.render_sample(renderer, sample, scales, &mut **row)
            };
            return both.map(render).collect();
        }
        let read = |sample: &PartSample<'_>| self.fields.read(sample.extra_fields);
        let fields: Vec<_> = samples.iter().map(read).collect();
        let (mut good, mut sinks) = (Vec::new(), Vec::new());
        for ((sample, row), _) in both.zip(&fields).filter(|(_, fields)| fields.is_ok()) {
            good.push(*sample);
            sinks.push(RowSink::new(self, scales, &mut **row));
        }
        let mut outs: Vec<&mut dyn ViewSink> = sinks.iter_mut().map(|sink| sink as _).collect();
        let rendered = renderer.render_all(&self.recipe, &good, &mut outs);
        assert_eq!(rendered.len(), good.len(), "one answer for each sample");
        let mut ends = sinks.into_iter().zip(rendered);
        let finish = |(sample, fields): (&PartSample<'_>, Result<Vec<u8>, RenderError>)| {
            let fields = fields?;
            let (sink, rendered) = ends.next().expect("one answer for each that was given");
            let _: Rendered = rendered?;
            self.write_fields(sample, &fields, &mut *sink.row);
            Ok(sink.finish())
        };
        samples.iter().zip(fields).map(finish).collect()
    }

    /// Writes one sample's row of every region: views, encoded bytes where the recipe delivers
    /// them, fields, and label. Nothing is decoded for a recipe without views. The amaxes of FP8 tensors are
    /// noted in `scales`. Returns the time that decoding took; 0 where a GPU decodes.
    ///
    /// # Errors
    /// The image cannot be decoded, or has too many bytes, or a field is bad: what has been written of the row means
    /// nothing then. Or a row is not of the recipe's length.
    ///
    /// # Panics
    /// The memory does not have a region for every view and one for the labels.
    pub fn render_sample(
        &self,
        renderer: &mut dyn SampleRenderer,
        sample: &PartSample<'_>,
        scales: &PartScales,
        row: &mut impl RowBytes,
    ) -> Result<Duration, RenderError> {
        let mut decode = Duration::ZERO;
        if let Some(raw) = self.recipe.raw {
            check_bytes(raw, sample.encoded)?;
        }
        let fields = self.fields.read(sample.extra_fields)?;
        if !self.recipe.tensors.is_empty() {
            let mut sink = RowSink::new(self, scales, row);
            renderer.render(&self.recipe, sample, &mut sink)?;
            decode = sink.finish();
        }
        if self.recipe.raw.is_some() {
            self.write_raw(sample.encoded, row);
        }
        self.write_fields(sample, &fields, row);
        Ok(decode)
    }
}

/// Samples that may stand for one of a shard of `samples`: those after it, the shard beginning
/// again after its last.
#[must_use]
pub fn substitutes_max(samples: u32) -> u32 {
    SUBSTITUTES_MAX.min(samples - 1)
}

/// The sample that is tried for `asked` once `tried`, it or one of those after it, is found to be
/// bad; `None` where no more are tried. Both are of a shard of `samples`.
#[must_use]
pub fn next_substitute(asked: u32, tried: u32, samples: u32) -> Option<u32> {
    let substitutes = (tried + samples - asked) % samples;
    (substitutes < substitutes_max(samples)).then_some((tried + 1) % samples)
}

/// Checks that a sample is not too large to be delivered as it is.
///
/// # Errors
/// It is: the sample is bad.
pub fn check_bytes(raw: RawSpec, encoded: &[u8]) -> Result<(), BadImage> {
    let (bytes, bytes_max) = (encoded.len(), raw.bytes_max);
    if bytes <= bytes_max as usize {
        return Ok(());
    }
    Err(BadImage::TooManyBytes { bytes, bytes_max })
}

/// The rows of one sample as a renderer asks for them.
struct RowSink<'a, R> {
    plan: &'a PartPlan,
    scales: &'a PartScales,
    row: &'a mut R,
    decode: Duration,
    /// The largest of each FP8 tensor, by its number: they count when the sample is known to be good.
    amaxes: SmallVec<[(usize, f32); 8]>,
}

// === impl RowSink ===

impl<'a, R> RowSink<'a, R> {
    fn new(plan: &'a PartPlan, scales: &'a PartScales, row: &'a mut R) -> Self {
        Self { plan, scales, row, decode: Duration::ZERO, amaxes: SmallVec::new() }
    }

    /// The sample is good; the time that its decoding took.
    fn finish(self) -> Duration {
        self.amaxes.into_iter().for_each(|(tensor, amax)| self.scales.note(tensor, amax));
        self.decode
    }
}

impl<R: RowBytes> ViewSink for RowSink<'_, R> {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        self.row.region_mut(self.plan.first_region[tensor] + view)
    }

    fn device_row(&mut self, tensor: usize, view: usize, pins: &dyn Pins) -> Option<DeviceRegion> {
        self.row.device_region(self.plan.first_region[tensor] + view, pins)
    }

    fn device_begins(&mut self, tensor: usize, view: usize) {
        self.row.device_begins(self.plan.first_region[tensor] + view);
    }

    fn device_summed(&mut self, tensor: usize, view: usize, sum: u64) {
        self.row.device_summed(self.plan.first_region[tensor] + view, sum);
    }

    fn block_scales(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        let views = self.plan.recipe.tensors[tensor].views.len();
        self.row.region_mut(self.plan.first_region[tensor] + views + view)
    }

    fn patches(&mut self, tensor: usize, part: PatchPart, view: usize) -> &mut [u8] {
        let views = self.plan.recipe.tensors[tensor].views.len();
        let first = self.plan.first_region[tensor] + (1 + part as usize) * views;
        self.row.region_mut(first + view)
    }

    fn aligned(&mut self, aligned: usize, view: usize) -> &mut [u8] {
        self.row.region_mut(self.plan.first_aligned[aligned] + view)
    }

    fn boxes(&mut self, boxes: usize, part: BoxPart, view: usize) -> &mut [u8] {
        let views = self.plan.recipe.views_of(&self.plan.recipe.boxes[boxes].like).len();
        self.row.region_mut(self.plan.first_boxes[boxes] + part as usize * views + view)
    }

    fn geometry(&mut self, geometry: usize, part: GeometryPart, view: usize) -> &mut [u8] {
        let views = self.plan.recipe.views_of(&self.plan.recipe.geometry[geometry].like).len();
        self.row.region_mut(self.plan.first_geometry[geometry] + part as usize * views + view)
    }

    fn fp8_scale(&self, tensor: usize) -> Option<f32> {
        self.scales.scale(tensor)
    }

    fn decoded(&mut self, took: Duration) {
        self.decode += took;
    }

    fn fp8_amax(&mut self, tensor: usize, amax: f32) {
        match self.amaxes.iter_mut().find(|(known, _)| *known == tensor) {
            Some((_, largest)) => *largest = largest.max(amax),
            None => self.amaxes.push((tensor, amax)),
        }
    }
}

#[cfg(test)]
mod tests;
