//! The blur equals torchvision's.

use std::collections::BTreeMap;

use headwater_pixels::ops::blur::plain;

use super::fixtures::{difference, json, planes, png, stacked};

#[test]
fn a_blur_is_torchvisions_in_every_byte() {
    let sigmas = json::<BTreeMap<String, Vec<f64>>>("ops/ops.json").remove("gaussian_blur");
    let source = planes(&png("ops/source.png"));
    let expected = stacked("ops/gaussian_blur.png", source.extent());
    let mut scratch = plain::Scratch::default();
    for (sigma, expected) in sigmas.expect("a case").into_iter().zip(expected) {
        let mut view = source.clone();
        plain::apply(&mut view, sigma as f32, &mut scratch);
        let (count, level) = difference(view.values(), expected.values());
        assert_eq!((count, level), (0, 0), "sigma {sigma}");
    }
}
