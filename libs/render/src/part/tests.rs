//! Where everything of a part lies, and what of a bad sample counts.

use bytes::Bytes;
use headwater_core::{Dtype, SampleId};

use super::*;
use crate::render::RenderKey;

/// Fills each row with the number of the sample plus ten times its tensor and view.
struct ViewPipeline;

impl SampleRenderer for ViewPipeline {
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
    let samples =
        [1u64, 2, 3].map(|s| PartSample::of_image(key(s), &encoded[s as usize - 1], -(s as i64)));
    let mut regions: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    let plan = PartPlan::new(Arc::new(recipe));
    let scales = PartScales::of(plan.recipe());
    let checksum = render_part(&mut ViewPipeline, &plan, &samples, &scales, &mut regions).unwrap();
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
    render_part(&mut ViewPipeline, &plan, &samples, &scales, &mut regions).map(|_| parts)
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
        extra_fields: &numbers[at],
        label: 5,
    });
    let scales = PartScales::of(plan.recipe());
    let together = |samples: &[PartSample<'_>]| {
        let mut rows: Vec<Row> = samples.iter().map(|_| Row::new()).collect();
        let mut places: Vec<&mut Row> = rows.iter_mut().collect();
        let ends = plan.render_samples(&mut ViewPipeline, &scales, samples, &mut places);
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
        let end = plan.render_sample(&mut ViewPipeline, sample, &scales, &mut row);
        assert_eq!((row, end.is_ok()), (together, sample.encoded != [2]));
    }
}

/// Says an amax of its first view, and finds the sample bad afterwards.
struct Late;

impl SampleRenderer for Late {
    fn render(
        &mut self,
        _: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        out.fp8_amax(0, sample.label as f32);
        match sample.label {
            9 => Err(RenderError::Bad(BadImage::Python { said: "no".into() })),
            _ => Ok(Rendered { source: headwater_core::draw::Extent { width: 1, height: 1 } }),
        }
    }
}

#[test]
fn the_amax_of_a_sample_that_is_bad_counts_nothing() {
    let mut recipe = Recipe::preset("imagenet-eval", Dtype::Fp8E4m3).unwrap();
    (recipe.tensors[0].height, recipe.tensors[0].width) = (1, 1);
    let plan = PartPlan::new(Arc::new(recipe));
    let key = RenderKey { seed: 0, epoch: 0, pass: 0, sample: SampleId(1) };
    let samples = [2, 9, 3].map(|label| PartSample::of_image(key, b"", label));
    let row = || Row(vec![vec![0; 3], vec![0; 8]]);
    let one_by_one = PartScales::of(plan.recipe());
    for sample in &samples {
        let end = plan.render_sample(&mut Late, sample, &one_by_one, &mut row());
        assert_eq!(end.is_ok(), sample.label != 9);
    }
    let together = PartScales::of(plan.recipe());
    let mut rows = [row(), row(), row()];
    let mut places: Vec<&mut Row> = rows.iter_mut().collect();
    plan.render_samples(&mut Late, &together, &samples, &mut places);
    assert_eq!((one_by_one.amaxes(), together.amaxes()), (vec![3.0], vec![3.0]));
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
