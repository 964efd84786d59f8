//! Work of a fixed amount for counting instructions: `instructions decode|recipe PHOTOS`, over the
//! photographs of `tests/data`. `benches/instructions.sh` counts.

#[path = "../tests/support/photos.rs"]
mod photos;

use headwater_core::{Dtype, Layout, Recipe, SampleId};
use headwater_part_rows::SliceRow;
use headwater_render::decode::{DecodeLimits, Decoder};
use headwater_render::part::{PartPlan, PartScales};
use headwater_render::{PartSample, RenderKey, Renderer};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().expect("decode or recipe");
    let count: usize = arguments.next().and_then(|text| text.parse().ok()).expect("a number");
    let photos: Vec<Vec<u8>> = photos::all().into_iter().step_by(8).collect();
    let photos = photos.iter().cycle().take(count);
    match what.as_str() {
        "decode" => {
            let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
            for photo in photos {
                std::hint::black_box(decoder.decode(photo).expect("a photograph"));
            }
        }
        "recipe" => {
            let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
            let regions = Layout::new(&recipe, 1).part_regions(0, 1);
            let mut memory: Vec<Vec<u8>> =
                regions.iter().map(|region| vec![0; region.len_bytes as usize]).collect();
            let mut memory: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
            let mut renderer = Renderer::new().expect("a renderer");
            let plan = PartPlan::new(recipe.into());
            let scales = PartScales::of(plan.recipe());
            for (number, encoded) in photos.enumerate() {
                let key = RenderKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(number as u64) };
                let sample = PartSample::of_image(key, encoded, 0);
                let mut row = SliceRow::new(&mut memory, 0, 1);
                plan.render_sample(&mut renderer, &sample, &scales, &mut row)
                    .expect("a photograph");
            }
        }
        other => panic!("`{other}` is neither decode nor recipe"),
    }
}
