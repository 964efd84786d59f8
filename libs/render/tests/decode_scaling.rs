//! How far an image may be reduced while it is decoded follows only from the draws of its views.

use headwater_core::draw::{Extent, ViewParams};
use headwater_core::recipe::DecodeScaling;
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::{Draws, RenderKey, Renderer, ViewSink};
use headwater_simd::Simd;

use crate::photos;

fn recipe(preset: &str, decode_scaling: DecodeScaling) -> Recipe {
    let recipe = Recipe::preset(preset, Dtype::U8).expect("a preset");
    Recipe { decode_scaling, ..recipe }
}

fn key(sample: u64) -> RenderKey {
    RenderKey { seed: 5, epoch: 2, pass: 0, sample: SampleId(sample) }
}

/// Whether no view would be enlarged, were the image so much smaller.
fn suffices(views: &[ViewParams], reduction: u32) -> bool {
    let shrinks = |from: u32, to: u32| f64::from(from) / f64::from(reduction) >= f64::from(to);
    views.iter().all(|ViewParams { crop, resized, .. }| {
        shrinks(crop.width, resized.width) && shrinks(crop.height, resized.height)
    })
}

#[test]
fn an_image_is_reduced_until_a_view_would_be_enlarged_and_never_when_it_is_off() {
    let mut seen = [0; 4];
    for (preset, views) in [("dinov2", 10), ("imagenet-train", 1), ("imagenet-eval", 1)] {
        let (off, auto) = (recipe(preset, DecodeScaling::Off), recipe(preset, DecodeScaling::Auto));
        let mut draws = Draws::default();
        for sample in 0..300u64 {
            let side = 200 + 40 * sample as u32;
            let image = Extent { width: side + 130, height: side };
            assert_eq!(draws.draw(&off, key(sample), image).reduction, 1);
            let reduction = draws.draw(&auto, key(sample), image).reduction;
            let views = &draws.views()[..views];
            assert!(reduction == 1 || suffices(views, reduction), "{preset}: 1/{reduction}");
            assert!(reduction == 8 || !suffices(views, 2 * reduction), "{preset}: 1/{reduction}");
            seen[reduction.ilog2() as usize] += 1;
        }
    }
    assert!(seen.iter().all(|&images| images > 20), "1, 1/2, 1/4, 1/8: {seen:?}");
}

/// The one view of `imagenet-eval`.
struct Row(Vec<u8>);

impl ViewSink for Row {
    fn row(&mut self, _: usize, _: usize) -> &mut [u8] {
        &mut self.0
    }
}

fn evaluated(photo: &[u8], decode_scaling: DecodeScaling, simd: Simd) -> Vec<u8> {
    let mut row = Row(vec![0; 3 * 224 * 224]);
    let mut renderer = Renderer::with_simd(simd).expect("a renderer");
    let recipe = recipe("imagenet-eval", decode_scaling);
    renderer.render(&recipe, key(1), photo, &mut row).expect("a photograph");
    row.0
}

#[test]
fn a_view_of_a_reduced_photograph_looks_alike_and_is_the_same_by_every_twin() {
    let recipe = recipe("imagenet-eval", DecodeScaling::Auto);
    let mut reduced = 0;
    for photo in photos::all() {
        let auto = evaluated(&photo, DecodeScaling::Auto, Simd::best());
        let full = evaluated(&photo, DecodeScaling::Off, Simd::best());
        if auto == full {
            continue;
        }
        reduced += 1;
        for &simd in Simd::available() {
            assert!(evaluated(&photo, DecodeScaling::Auto, simd) == auto, "{}", simd.name());
        }
        let levels = auto.iter().zip(&full).map(|(a, b)| f64::from(a.abs_diff(*b)));
        let mean = levels.sum::<f64>() / full.len() as f64;
        assert!(mean < 2.0, "{mean} levels apart in the mean");
    }
    assert!(reduced >= 5, "{reduced} photographs are large enough for {recipe:?}");
}
