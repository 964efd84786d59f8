//! Whole views, from the encoded bytes through the recipe, equal torchvision's with the same
//! draws.

use headwater_core::Recipe;
use headwater_core::draw::ViewParams;
use headwater_core::op::{DrawnOp, Flipped};
use headwater_core::recipe::{DecodeLimits, TensorSpec};
use headwater_render::{RenderError, Renderer, ViewSink};
use headwater_simd::Simd;

use super::cases;
use super::draws::{self, Case, Draws};
use super::fixtures::{bytes, difference, json, stacked};

/// Rows by tensor and view.
struct Rows(Vec<Vec<Vec<u8>>>);

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.0[tensor][view]
    }
}

#[test]
fn the_draws_of_a_key_never_change() {
    for (folder, cases) in cases::folders() {
        assert_eq!(draws::of(&cases), json::<Draws>(&format!("{folder}/draws.json")), "{folder}");
    }
}

#[test]
fn whole_views_are_torchvisions() {
    for (folder, cases) in cases::folders() {
        for &simd in Simd::available() {
            // One renderer for all, so that nothing of one sample is left in the next.
            let mut renderer = Renderer::with_simd(simd);
            let renderer = renderer.as_mut().expect("a renderer");
            for case in &cases {
                views_are_torchvisions(folder, renderer, case);
            }
        }
    }
}

fn views_are_torchvisions(folder: &str, renderer: &mut Renderer, case: &Case) {
    let Case { image, recipe, .. } = case;
    let rows = recipe.tensors.iter().map(|tensor| {
        vec![vec![0xa5; (3 * tensor.width * tensor.height) as usize]; tensor.views.len()]
    });
    let mut rows = Rows(rows.collect());
    let encoded = bytes(&format!("views/{image}.jpg"));
    let rendered = renderer.render(recipe, case.key, &encoded, &mut rows);
    assert_eq!(rendered.expect("an image").source, case.extent);

    for (tensor, spec) in recipe.tensors.iter().enumerate() {
        let expected = stacked(&format!("{folder}/{image}-{}.png", spec.name), spec.extent());
        assert_eq!(expected.len(), spec.views.len());
        for (view, expected) in expected.iter().enumerate() {
            let (count, level) = difference(&rows.0[tensor][view], expected.values());
            assert_eq!(
                (count, level),
                (0, 0),
                "{folder} {image} {} view {view}: {count} values differ by up to {level}",
                spec.name
            );
        }
    }
}

/// Receivers with other bounds take turns at the same renderer.
#[test]
fn the_recipe_decides_which_images_are_too_large_whatever_was_rendered_before() {
    let [(_, cases), _] = cases::folders();
    let Case { recipe, key, .. } = &cases[0];
    let mut renderer = Renderer::new().expect("a renderer");
    let mut said = |file: &str, decode_limits| {
        let recipe = Recipe { decode_limits, ..recipe.clone() };
        let row = |tensor: &TensorSpec| vec![0; (3 * tensor.width * tensor.height) as usize];
        let rows = recipe.tensors.iter().map(|tensor| vec![row(tensor); tensor.views.len()]);
        let mut rows = Rows(rows.collect());
        match renderer.render(&recipe, *key, &bytes(file), &mut rows) {
            Ok(_) => String::new(),
            Err(RenderError::Bad(verdict)) => verdict.to_string(),
            Err(other) => panic!("no verdict: {other}"),
        }
    };
    let usual = DecodeLimits::default();
    let [few_pixels, few_scans] =
        [DecodeLimits { pixels_max: 5000, ..usual }, DecodeLimits { jpeg_scans_max: 3, ..usual }];
    let (baseline, progressive) = ("decode/baseline-420.jpg", "decode/progressive-420.jpg");
    for _ in 0..2 {
        assert_eq!(said(baseline, usual) + &said(progressive, usual), "");
        let too_large = said(baseline, few_pixels);
        assert!(too_large.contains("83x61") && too_large.contains("at most 5000"), "{too_large}");
        assert_eq!(said(baseline, few_scans), "");
        let scans = said(progressive, few_scans);
        assert!(scans.contains("more than 3 scans"), "{scans}");
    }
}

fn is_blurred(view: &ViewParams) -> bool {
    view.ops.iter().any(|op| matches!(op, DrawnOp::GaussianBlur(_)))
}

/// What the samples of `dinov3` are there for is among their draws.
#[test]
fn the_samples_of_dinov3_show_what_is_new_there() {
    let draws = json::<Draws>("dinov3/draws.json");
    let image_ops = draws.samples.iter().flat_map(|sample| &sample.image_ops);
    let (jitter, gray): (Vec<&DrawnOp>, Vec<&DrawnOp>) =
        image_ops.partition(|op| matches!(op, DrawnOp::ColorJitter { .. }));
    assert!(jitter.len() > 1 && !gray.is_empty(), "{jitter:?} {gray:?}");
    let bases = draws.samples.iter().flat_map(|sample| &sample.bases);
    let flipped = bases.filter(|base| base.view.ops == [DrawnOp::Flip(Flipped)]).count();
    assert!((1..=3).contains(&flipped), "{flipped} of 4 bases are flipped");
    let tensors = || draws.samples.iter().flat_map(|sample| &sample.tensors);
    let views = || tensors().flat_map(|tensor| &tensor.views);
    let is_jittered =
        |view: &&ViewParams| matches!(view.ops[..], [DrawnOp::ColorJitter { .. }, ..]);
    let windows = || views().filter(|view| view.cut.is_some());
    assert!(windows().filter(is_jittered).count() > 1);
    assert!(windows().filter(|view| is_blurred(view)).count() > 1);
    let resized = tensors().flat_map(|tensor| tensor.views.iter().map(move |v| (v, tensor.height)));
    assert!(resized.filter(|(v, side)| v.base.is_some() && v.crop.height > *side).count() > 3);
}
