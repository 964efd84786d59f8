//! Flip, colour operations, grayscale and solarise equal torchvision's on Pillow images.

use std::collections::BTreeMap;

use headwater_pixels::image::Planes;
use headwater_pixels::ops::{
    brightness, contrast, flip, grayscale, hue, saturation, solarize, vertical_flip,
};

use super::fixtures::{json, planes, png, stacked};

fn equals_torchvision(op: &str, apply: impl Fn(&mut Planes, f64)) {
    let values = json::<BTreeMap<String, Vec<f64>>>("ops/ops.json").remove(op).expect("a case");
    let source = planes(&png("ops/source.png"));
    let expected = stacked(&format!("ops/{op}.png"), source.extent());
    assert_eq!(values.len(), expected.len());
    for (value, expected) in values.into_iter().zip(expected) {
        let mut view = source.clone();
        apply(&mut view, value);
        assert!(view == expected, "{op} with {value}");
    }
}

#[test]
fn a_flip_is_torchvisions() {
    equals_torchvision("flip", |view, _| flip::plain::apply(view));
}

#[test]
fn a_vertical_flip_is_torchvisions() {
    equals_torchvision("vertical_flip", |view, _| vertical_flip::plain::apply(view));
}

#[test]
fn brightness_is_torchvisions() {
    equals_torchvision("brightness", |view, value| brightness::plain::apply(view, value as f32));
}

#[test]
fn contrast_is_torchvisions() {
    equals_torchvision("contrast", |view, value| contrast::plain::apply(view, value as f32));
}

#[test]
fn saturation_is_torchvisions() {
    equals_torchvision("saturation", |view, value| saturation::plain::apply(view, value as f32));
}

#[test]
fn a_hue_shift_is_torchvisions() {
    equals_torchvision("hue", |view, value| hue::plain::apply(view, value as f32));
}

#[test]
fn grayscale_is_torchvisions() {
    equals_torchvision("grayscale", |view, _| grayscale::plain::apply(view));
}

#[test]
fn solarise_is_pillows() {
    equals_torchvision("solarize", |view, value| solarize::plain::apply(view, value as u8));
}
