//! A part from encoded samples: the pure function that this tier exists for.
//!
//! [`render_part`] does it in a plain loop on one thread; the pool calls the same
//! [`PartPlan::render_sample`] from many. No clock, no thread, no I/O.

mod fields;
mod memory;
mod rows;
mod scales;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::recipe::RawSpec;
use headwater_core::{Layout, Recipe};
use headwater_transport::{DeviceRegion, Pins, part_checksum, row_checksum};

pub(crate) use fields::shown;
pub use fields::{SampleFault, SampleFields};
pub use memory::{RowBytes, SliceRow};
pub use rows::{SampleRows, render_into_rows};
pub use scales::PartScales;

use crate::backend::SampleRenderer;
use crate::render::{BadImage, BoxPart, PartSample, RenderError, Rendered, ViewSink};
use crate::siblings::FieldReaders;
use crate::tokenizers::Tokenizers;

/// A recipe, and which region of a part holds which of its views: regions are numbered as
/// `Layout::part_regions` has them, tensors in order, views in order, the scales of their blocks where
/// they have such, tensors that follow them, encoded bytes and their
/// numbers where the recipe delivers them, the tensors of its fields, boxes, the labels last.
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
/// [`headwater_transport::part_checksum`]. `regions` are those of `Layout::part_regions(_, samples.len())`; every byte
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
        let read = |sample: &PartSample<'_>| self.fields.read(sample.siblings);
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
            self.write_fields(sample, &fields, sink.row);
            Ok(sink.decode)
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
    /// The memory has not a region for every view and one for the labels.
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
        let fields = self.fields.read(sample.siblings)?;
        if !self.recipe.tensors.is_empty() {
            let mut sink = RowSink::new(self, scales, row);
            renderer.render(&self.recipe, sample, &mut sink)?;
            decode = sink.decode;
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
}

// === impl RowSink ===

impl<'a, R> RowSink<'a, R> {
    fn new(plan: &'a PartPlan, scales: &'a PartScales, row: &'a mut R) -> Self {
        Self { plan, scales, row, decode: Duration::ZERO }
    }
}

impl<R: RowBytes> ViewSink for RowSink<'_, R> {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        self.row.region_mut(self.plan.first_region[tensor] + view)
    }

    fn device_row(&mut self, tensor: usize, view: usize, pins: &dyn Pins) -> Option<DeviceRegion> {
        self.row.device_region(self.plan.first_region[tensor] + view, pins)
    }

    fn device_summed(&mut self, tensor: usize, view: usize, sum: u64) {
        self.row.device_summed(self.plan.first_region[tensor] + view, sum);
    }

    fn block_scales(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        let views = self.plan.recipe.tensors[tensor].views.len();
        self.row.region_mut(self.plan.first_region[tensor] + views + view)
    }

    fn aligned(&mut self, aligned: usize, view: usize) -> &mut [u8] {
        self.row.region_mut(self.plan.first_aligned[aligned] + view)
    }

    fn boxes(&mut self, boxes: usize, part: BoxPart, view: usize) -> &mut [u8] {
        let views = self.plan.recipe.views_of(&self.plan.recipe.boxes[boxes].like).len();
        self.row.region_mut(self.plan.first_boxes[boxes] + part as usize * views + view)
    }

    fn fp8_scale(&self, tensor: usize) -> Option<f32> {
        self.scales.scale(tensor)
    }

    fn decoded(&mut self, took: Duration) {
        self.decode += took;
    }

    fn fp8_amax(&mut self, tensor: usize, amax: f32) {
        self.scales.note(tensor, amax);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use headwater_core::{Dtype, SampleId};

    use super::*;
    use crate::render::RenderKey;

    /// Fills each row with the number of the sample plus ten times its tensor and view.
    struct Painter;

    impl SampleRenderer for Painter {
        fn render(
            &mut self,
            recipe: &Recipe,
            &PartSample { key, encoded, .. }: &PartSample<'_>,
            out: &mut dyn ViewSink,
        ) -> Result<Rendered, RenderError> {
            assert_eq!(encoded, [key.sample.0 as u8]);
            for (tensor, spec) in recipe.tensors.iter().enumerate() {
                for view in 0..spec.views.len() {
                    out.row(tensor, view)
                        .fill(key.sample.0 as u8 + 100 * tensor as u8 + 10 * view as u8);
                }
            }
            let source = headwater_core::draw::Extent { width: 1, height: 1 };
            Ok(Rendered { source })
        }
    }

    /// The layout says where everything lies; the regions of a part must agree with it.
    #[test]
    fn every_view_and_label_lies_where_the_layout_of_the_batch_says() {
        let recipe = Recipe::preset("dinov2", Dtype::U8).unwrap();
        let (batch, first, count) = (5, 1, 3);
        let layout = Layout::new(&recipe, batch);
        let mut slot = vec![0xee; layout.len_bytes() as usize];
        let mut parts: Vec<Vec<u8>> = layout
            .part_regions(first, count)
            .iter()
            .map(|region| vec![0xee; region.len_bytes as usize])
            .collect();
        let key = |sample| RenderKey { seed: 0, epoch: 0, pass: 0, sample: SampleId(sample) };
        let encoded = [[1u8], [2], [3]];
        let samples = [1u64, 2, 3]
            .map(|s| PartSample::of_image(key(s), &encoded[s as usize - 1], -(s as i64)));
        let mut regions: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
        let plan = PartPlan::new(Arc::new(recipe));
        let scales = PartScales::of(plan.recipe());
        let checksum = render_part(&mut Painter, &plan, &samples, &scales, &mut regions).unwrap();
        let row = |position: usize| {
            let cut =
                |part: &Vec<u8>| part.chunks_exact(part.len() / 3).nth(position).unwrap().to_vec();
            let sums = parts.iter().map(cut).map(|bytes| xxhash_rust::xxh3::xxh3_64(&bytes));
            xxhash_rust::xxh3::xxh3_64(&sums.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
        };
        let sums: Vec<u8> = (0..3).flat_map(|position| row(position).to_le_bytes()).collect();
        assert_eq!(checksum, xxhash_rust::xxh3::xxh3_64(&sums));
        for (region, bytes) in layout.part_regions(first, count).iter().zip(&parts) {
            slot[region.offset_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        for (t, tensor) in layout.tensors().iter().enumerate() {
            let row_bytes = tensor.row_bytes as usize;
            let start = tensor.offset_bytes as usize;
            for row in 0..(tensor.views * batch) as usize {
                let bytes = &slot[start + row * row_bytes..][..row_bytes];
                let (view, sample) = (row / batch as usize, row % batch as usize);
                let expected = match (sample, tensor.name.as_str()) {
                    (0 | 4, _) => vec![0xee; row_bytes],
                    (s, Layout::LABELS) => (-(s as i64)).to_le_bytes().to_vec(),
                    (s, _) => vec![(s + 100 * t + 10 * view) as u8; row_bytes],
                };
                assert!(bytes == expected, "tensor {t} view {view} sample {sample}");
            }
        }
    }

    /// A part of two samples under a recipe that decodes nothing.
    fn raw_part(encoded: [&[u8]; 2], bytes_max: u32) -> Result<Vec<Vec<u8>>, PartError> {
        let recipe = Recipe::raw(bytes_max);
        let layout = Layout::new(&recipe, 2);
        let mut parts: Vec<Vec<u8>> = layout
            .part_regions(0, 2)
            .iter()
            .map(|region| vec![0xee; region.len_bytes as usize])
            .collect();
        let key = RenderKey { seed: 0, epoch: 0, pass: 0, sample: SampleId(1) };
        let samples = encoded.map(|encoded| PartSample::of_image(key, encoded, 5));
        let mut regions: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
        let plan = PartPlan::new(Arc::new(recipe));
        let scales = PartScales::of(plan.recipe());
        render_part(&mut Painter, &plan, &samples, &scales, &mut regions).map(|_| parts)
    }

    #[test]
    fn encoded_bytes_are_delivered_as_they_are_with_zeros_after_them() {
        let parts = raw_part([b"abc", b"\xff\xd8not a JPEG"], 13).unwrap();
        let sizes: Vec<u8> = [3_i64, 12].iter().flat_map(|size| size.to_le_bytes()).collect();
        let labels: Vec<u8> = [5_i64, 5].iter().flat_map(|label| label.to_le_bytes()).collect();
        let bytes = b"abc\0\0\0\0\0\0\0\0\0\0\xff\xd8not a JPEG\0".to_vec();
        assert_eq!(parts, [bytes, sizes, labels]);
    }

    #[test]
    fn a_sample_of_too_many_bytes_is_a_bad_one() {
        assert!(raw_part([b"abcd", b"abcd"], 4).is_ok());
        let PartError { position, error } = raw_part([b"abcd", b"abcde"], 4).unwrap_err();
        assert_eq!(position, 1);
        assert!(matches!(error, RenderError::Bad(_)));
        assert!(error.to_string().contains("5 bytes, more than 4: raise recipe.raw_bytes_max"));
    }

    /// A recipe of one view of one pixel, and a field of numbers.
    fn with_a_number() -> PartPlan {
        let number = serde_json::json!({"name": "n", "field": "cnt", "kind": "int"});
        let mut recipe = Recipe::preset("imagenet-eval", Dtype::U8).unwrap();
        (recipe.tensors[0].height, recipe.tensors[0].width) = (1, 1);
        recipe.fields = vec![serde_json::from_value(number).unwrap()];
        recipe.validate().unwrap();
        PartPlan::new(Arc::new(recipe))
    }

    #[test]
    fn fields_lie_before_the_labels_and_a_bad_one_leaves_its_row_alone() {
        let plan = with_a_number();
        let encoded = [[1u8], [2], [3]];
        let numbers = [&b"7"[..], b"seven", b"-1"].map(|text| [Some(Bytes::from_static(text))]);
        let samples = [0usize, 1, 2].map(|at| PartSample {
            key: RenderKey { seed: 0, epoch: 0, pass: 0, sample: SampleId(at as u64 + 1) },
            encoded: &encoded[at],
            entries: &[],
            siblings: &numbers[at],
            label: 5,
        });
        let scales = PartScales::of(plan.recipe());
        let together = |samples: &[PartSample<'_>]| {
            let mut rows: Vec<Row> = samples.iter().map(|_| Row::new()).collect();
            let mut places: Vec<&mut Row> = rows.iter_mut().collect();
            let ends = plan.render_samples(&mut Painter, &scales, samples, &mut places);
            (ends, rows)
        };
        let (ends, rows) = together(&samples);
        let said = ends[1].as_ref().unwrap_err();
        let reason = "field `n`: `seven` is not a whole number of 64 bits";
        assert_eq!((said.to_string().as_str(), ends.len()), (reason, 3));
        assert!(matches!(said, RenderError::Bad(BadImage::Field(_))));
        let row = |view: u8, number: i64| {
            Row(vec![vec![view; 3], number.to_le_bytes().to_vec(), 5i64.to_le_bytes().to_vec()])
        };
        assert!(ends[0].is_ok() && ends[2].is_ok());
        assert_eq!(rows, [row(1, 7), Row::new(), row(3, -1)]);
        // One after the other it is the same.
        for (sample, together) in samples.iter().zip(rows) {
            let mut row = Row::new();
            let end = plan.render_sample(&mut Painter, sample, &scales, &mut row);
            assert_eq!((row, end.is_ok()), (together, sample.encoded != [2]));
        }
    }

    /// The rows of one sample, `0xee` where nothing has been written.
    #[derive(Debug, PartialEq)]
    struct Row(Vec<Vec<u8>>);

    impl Row {
        fn new() -> Self {
            Self(vec![vec![0xee; 3], vec![0xee; 8], vec![0xee; 8]])
        }
    }

    impl RowBytes for Row {
        fn region_mut(&mut self, i: usize) -> &mut [u8] {
            &mut self.0[i]
        }
    }
}
