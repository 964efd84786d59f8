//! Images as sequences of patches: every value, place and size is timm's.

use headwater_core::draw::Extent;
use headwater_core::recipe::{CropSpec, ResizePasses, SequencesSpec, TensorSpec, ViewSpec};
use headwater_core::sampler::Lengths;
use headwater_core::{DrawKey, Dtype, Layout, Recipe, SampleId};
use headwater_render::part::{PartPlan, PartScales, render_part};
use headwater_render::{PartSample, RenderKey, Renderer};
use serde_json::Value;

use super::fixtures::bytes;

const SHAPES: [&str; 5] = ["wide", "tall", "square", "one", "line"];
const PATCH: u32 = 8;

fn recipe(patch_size: u32, length: u32, max_ratio: Option<f64>, dtype: Dtype) -> Recipe {
    let crop = CropSpec::Sequence { max_ratio };
    let spec = SequencesSpec {
        tensor: "patches".into(),
        patch_size,
        lengths: vec![length],
        batch_divisor: 1,
    };
    let [height, width] = spec.extent(length);
    let views = vec![ViewSpec { crop, ops: Vec::new() }];
    let tensor = TensorSpec { name: "patches".into(), dtype, height, width, views };
    Recipe {
        tensors: vec![tensor],
        sequences: Some(spec),
        resize_passes: ResizePasses::Pillow13,
        ..Recipe::preset("imagenet-eval", dtype).expect("a preset")
    }
}

fn cases(list: &str) -> Vec<Vec<f64>> {
    let all: Value = serde_json::from_slice(&bytes("naflex/sizes.json")).expect("JSON");
    let numbers = |case: &Value| {
        let numbers = case.as_array().expect("a list").iter();
        numbers.map(|number| number.as_f64().unwrap_or(0.0)).collect()
    };
    all[list].as_array().expect("a list").iter().map(numbers).collect()
}

/// The elements of an array, behind the header of its file.
fn elements(name: &str) -> Vec<u8> {
    let file = bytes(&format!("naflex/{name}.npy"));
    let header = u16::from_le_bytes([file[8], file[9]]);
    file[10 + usize::from(header)..].to_vec()
}

#[test]
fn an_image_of_any_shape_has_the_size_that_timm_gives_it() {
    let cases = cases("sizes");
    assert_eq!(cases.len(), 600);
    let mut params = headwater_core::draw::SampleParams::default();
    for case in cases {
        let [height, width, side, length, most, high, wide] = case[..] else { panic!("{case:?}") };
        let most = (most > 0.0).then_some(most);
        let recipe = recipe(side as u32, length as u32, most, Dtype::U8);
        let image = Extent { width: width as u32, height: height as u32 };
        let key = DrawKey { seed: 0, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 };
        params.draw(&recipe, image, |_| key.rng());
        let expected = Extent { width: wide as u32, height: high as u32 };
        assert_eq!(params.views()[0].resized, expected, "{case:?}");
    }
}

#[test]
fn a_batch_has_as_many_samples_as_timm_gives_its_length() {
    for case in cases("batches") {
        let [tokens, length, divisor, samples] = case[..] else { panic!("{case:?}") };
        let lengths = Lengths { lengths: vec![128, length as u32], divisor: divisor as u32 };
        assert_eq!(lengths.batches(tokens as u64 / 128)[1], samples as u64, "{case:?}");
    }
}

#[test]
fn patches_places_and_validity_are_those_of_timms_batch() {
    let files = SHAPES.map(|name| bytes(&format!("naflex/{name}.png")));
    let key = RenderKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(7) };
    let samples = files.each_ref().map(|file| PartSample::of_image(key, file, 3));
    let mut renderer = Renderer::new().expect("a renderer");
    for length in [12, 20] {
        let recipe = recipe(PATCH, length, Some(4.0), Dtype::F32);
        recipe.validate().expect("a recipe");
        let layout = Layout::new(&recipe, SHAPES.len() as u32);
        let names: Vec<_> = layout.tensors().iter().map(|tensor| &*tensor.name).collect();
        assert_eq!(names, ["patches", "patches_coord", "patches_valid", "labels"]);
        // What was there before is written over.
        let mut slot = vec![0xa5; layout.len_bytes() as usize];
        let mut regions = Vec::new();
        let (mut rest, mut at) = (slot.as_mut_slice(), 0);
        for region in layout.part_regions(0, SHAPES.len() as u32) {
            let (_, after) = rest.split_at_mut((region.offset_bytes - at) as usize);
            let (mine, after) = after.split_at_mut(region.len_bytes as usize);
            regions.push(mine);
            (rest, at) = (after, region.offset_bytes + region.len_bytes);
        }
        let plan = PartPlan::new(recipe.clone().into());
        render_part(&mut renderer, &plan, &samples, &PartScales::of(&recipe), &mut regions)
            .expect("a part");
        for (region, what) in regions.iter().zip(["patches", "patch_coord", "patch_valid"]) {
            assert!(**region == elements(&format!("{what}-{length}")), "{what} {length}");
        }
    }
}
