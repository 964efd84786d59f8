//! Whole views, from the encoded bytes through the recipe, equal torchvision's with the same
//! draws.

use headwater_augment::decode::DecodeLimits;
use headwater_augment::render::{Renderer, ViewSink};

use crate::draws::{self, Draws, SAMPLES};
use crate::fixtures::{bytes, difference, json, stacked};
use headwater_core::draw::{DrawnOp, Extent};

/// Rows by tensor and view.
struct Rows(Vec<Vec<Vec<u8>>>);

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.0[tensor][view]
    }
}

#[test]
fn the_draws_of_a_key_never_change() {
    assert_eq!(draws::all(), json::<Draws>("views/draws.json"));
}

#[test]
fn whole_views_are_torchvisions() {
    let mut renderer = Renderer::new(DecodeLimits::default()).expect("a renderer");
    let draws = json::<Draws>("views/draws.json");
    for (number, (image, source, side)) in SAMPLES.iter().enumerate() {
        let recipe = draws::recipe(*side);
        let rows = recipe.tensors.iter().map(|tensor| {
            vec![vec![0xa5; (3 * tensor.width * tensor.height) as usize]; tensor.views.len()]
        });
        let mut rows = Rows(rows.collect());
        let encoded = bytes(&format!("views/{image}.jpg"));
        let rendered = renderer.render(&recipe, draws::key(number), &encoded, &mut rows);
        assert_eq!(rendered.expect("an image").source, *source);

        for (tensor, spec) in recipe.tensors.iter().enumerate() {
            let extent = Extent { width: spec.width, height: spec.height };
            let expected = stacked(&format!("views/{image}-{}.png", spec.name), extent);
            assert_eq!(expected.len(), spec.views.len());
            for (view, expected) in expected.iter().enumerate() {
                let (count, level) = difference(&rows.0[tensor][view], expected.values());
                let ops = &draws.samples[number].tensors[tensor].views[view].ops;
                let blurred = ops.iter().any(|op| matches!(op, DrawnOp::GaussianBlur { .. }));
                let allowed = if blurred { (expected.values().len() / 1000, 1) } else { (0, 0) };
                assert!(
                    count <= allowed.0 && level <= allowed.1,
                    "{image} {} view {view}: {count} values differ by up to {level}",
                    spec.name
                );
            }
        }
    }
}
