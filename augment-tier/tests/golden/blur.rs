//! The blur equals torchvision's but for values at a tie.

use std::collections::BTreeMap;

use headwater_augment::ops::blur::plain;

use crate::fixtures::{difference, json, planes, png, stacked};

#[test]
fn a_blur_is_torchvisions_within_one_level_at_ties() {
    let sigmas = json::<BTreeMap<String, Vec<f64>>>("ops/ops.json").remove("gaussian_blur");
    let source = planes(&png("ops/source.png"));
    let expected = stacked("ops/gaussian_blur.png", source.extent());
    let mut scratch = plain::Scratch::default();
    let mut off_by_one = 0;
    let mut values = 0;
    for (sigma, expected) in sigmas.expect("a case").into_iter().zip(expected) {
        let mut view = source.clone();
        plain::apply(&mut view, sigma as f32, &mut scratch);
        let (count, level) = difference(view.values(), expected.values());
        assert!(level <= 1, "sigma {sigma}: {level} levels");
        off_by_one += count;
        values += view.values().len();
    }
    println!("{off_by_one} of {values} values are off by one");
    assert!(off_by_one * 10_000 <= values, "{off_by_one} of {values} values are off by one");
}
