//! Magnitudes and matrices beside those of torchvision and Pillow: `tests/data/make_policies.py` has made them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::choose::{SPACE, Strength, Style, TIMM_SPACE};
use super::*;
use crate::SampleId;
use crate::draw::DrawKey;
use crate::op::{AffineWarp, warp};

#[derive(Deserialize)]
struct Made {
    spaces: Vec<Space>,
    matrices: Vec<Matrix>,
    perspectives: Vec<Perspective>,
}

#[derive(Deserialize)]
struct Space {
    wide: bool,
    bins: u32,
    height: u32,
    width: u32,
    values: BTreeMap<Augment, Vec<f64>>,
}

#[derive(Deserialize)]
struct Matrix {
    op: String,
    value: f64,
    #[serde(default)]
    translate: [f64; 2],
    #[serde(default)]
    scale: f64,
    #[serde(default)]
    shear: [f64; 2],
    width: u32,
    height: u32,
    matrix: [f64; 6],
}

#[derive(Deserialize)]
struct Perspective {
    width: u32,
    height: u32,
    ends: [[i64; 2]; 4],
    coefficients: [f64; 8],
}

fn made() -> Made {
    serde_json::from_str(include_str!("../../../tests/data/policies.json")).expect("the fixture")
}

fn rng(sample: u64) -> DrawRng {
    DrawKey { seed: 1, epoch: 2, pass: 3, sample: SampleId(sample), stream: 4 }.rng()
}

const VIEW: Extent = Extent { width: 224, height: 160 };

#[test]
fn magnitudes_are_torchvisions_to_the_last_bit() {
    for Space { wide, bins, height, width, values } in made().spaces {
        let strength =
            if wide { Strength::WIDE } else { Strength::of_view(Extent { width, height }) };
        assert!(values.len() >= 11, "{values:?}");
        for (augment, values) in values {
            for (bin, expected) in (0..).zip(values) {
                let found = strength.value(augment, bin, bins);
                assert_eq!(found, expected, "{augment:?} {bin} of {bins} for {width}x{height}");
            }
        }
    }
}

#[test]
fn pixels_move_by_the_matrices_that_pillow_is_given() {
    for Matrix { op, value, translate, scale, shear, width, height, matrix } in made().matrices {
        let view = Extent { width, height };
        let found = if op == "affine" {
            let centre = [f64::from(width) * 0.5, f64::from(height) * 0.5];
            warp::inverse(centre, value, translate, scale, shear)
        } else {
            let augment = serde_json::from_value(op.clone().into()).expect("an operation");
            Layer { augment, value, level: 0.0 }.matrix(Style::Torchvision, view).expect("a matrix")
        };
        if op == "rotate" {
            assert_eq!(found, matrix, "by {value} of {width}x{height}");
        }
        for (found, expected) in found.iter().zip(matrix) {
            // Tangents are the platform's in Python.
            assert!((found - expected).abs() < 1e-12, "{op} by {value}: {found} is not {expected}");
        }
    }
    for Perspective { width, height, ends, coefficients } in made().perspectives {
        let found = warp::perspective(Extent { width, height }, &ends);
        for (found, expected) in found.iter().zip(coefficients) {
            // torchvision solves in binary64 by least squares, and gives binary32.
            let near = 1e-6 * expected.abs().max(1e-3);
            assert!((found - expected).abs() < near, "{found} is not {expected}");
        }
    }
}

#[test]
fn quarter_turns_move_whole_pixels() {
    let square = Extent { width: 8, height: 8 };
    assert_eq!(warp::rotation(90.0, square), [0.0, -1.0, 8.0, 1.0, 0.0, 0.0]);
    assert_eq!(warp::rotation(-90.0, square), [0.0, 1.0, 0.0, -1.0, 0.0, 8.0]);
    assert_eq!(warp::rotation(180.0, VIEW), [-1.0, 0.0, 224.0, 0.0, -1.0, 160.0]);
    assert_eq!(warp::rotation(720.0, VIEW), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn all_operations_are_chosen_alike() {
    let count = 6000;
    let frequencies = |layers: &dyn Fn(&mut DrawRng) -> Layers| {
        let mut counts = BTreeMap::new();
        for sample in 0..count {
            for layer in layers(&mut rng(sample)).iter() {
                *counts.entry(layer.augment).or_insert(0u32) += 1;
            }
        }
        counts
    };
    let check = |counts: BTreeMap<Augment, u32>, choices: &[Augment], trials: f64, p: f64| {
        assert_eq!(counts.len(), choices.len());
        let chance = p / choices.len() as f64;
        let error = 5.0 * (trials * chance).sqrt();
        for (augment, found) in counts {
            let off = f64::from(found) - trials * chance;
            assert!(off.abs() < error, "{augment:?}: {found} of {trials}");
        }
    };
    let trials = count as f64;
    let rand = RandAugment::default();
    check(frequencies(&|rng| rand.layers(VIEW, rng)), &SPACE, 2.0 * trials, 1.0);
    let wide = TrivialAugmentWide::default();
    check(frequencies(&|rng| wide.layers(rng)), &SPACE, trials, 1.0);
    let timm = TimmRandAugment::default();
    check(frequencies(&|rng| timm.layers(rng)), &TIMM_SPACE, 2.0 * trials, 0.5);
}

#[test]
fn values_are_within_what_timm_writes() {
    let policy = TimmRandAugment { p: 1.0, magnitude_std: 3.0, ..TimmRandAugment::default() };
    let mut signs = [0; 2];
    for sample in 0..4000 {
        for &Layer { augment, value, .. } in policy.layers(&mut rng(sample)).iter() {
            let (least, greatest) = match augment {
                Augment::Rotate => (-30.0, 30.0),
                Augment::ShearX | Augment::ShearY => (-0.3, 0.3),
                Augment::TranslateX | Augment::TranslateY => (-0.45, 0.45),
                Augment::Color | Augment::Contrast | Augment::Brightness | Augment::Sharpness => {
                    (0.1, 1.9)
                }
                Augment::Posterize => (0.0, 4.0),
                Augment::Solarize => (0.0, 256.0),
                Augment::SolarizeAdd => (0.0, 110.0),
                _ => (0.0, 0.0),
            };
            assert!((least..=greatest).contains(&value), "{augment:?} {value}");
            if augment == Augment::Rotate {
                signs[usize::from(value < 0.0)] += 1;
            }
        }
    }
    assert!(signs.iter().all(|count| *count > 150), "{signs:?}");
}

/// timm's factory sets `translate_pct = 0.3` for AugMix only.
#[test]
fn translations_of_augmix_reach_less_far_than_those_of_rand_augment() {
    let policy = TimmAugMix { magnitude: 10.0, magnitude_std: Some(0.0), ..TimmAugMix::default() };
    let mut moves = 0;
    for sample in 0..200 {
        let mut ops = Vec::new();
        policy.draw(VIEW, &mut rng(sample), &mut ops);
        for op in &ops {
            let DrawnOp::Affine(AffineWarp { matrix: [a, b, across, c, d, down], .. }) = *op else {
                continue;
            };
            if [a, b, c, d] == [1.0, 0.0, 0.0, 1.0] {
                let far = [across.abs(), down.abs()];
                assert!(far == [0.3 * 224.0, 0.0] || far == [0.0, 0.3 * 160.0], "{far:?}");
                moves += 1;
            }
        }
    }
    assert!(moves > 20, "{moves}");
}

#[test]
fn pairs_of_auto_augment_come_together() {
    let policy = AutoAugment::default();
    let mut lens = [0; 3];
    for sample in 0..2000 {
        lens[policy.layers(VIEW, &mut rng(sample)).len()] += 1;
    }
    assert!(lens.iter().all(|count| *count > 100), "{lens:?}");
}

#[test]
fn chains_of_augmix_begin_with_one_view_and_their_shares_are_whole() {
    let policy = TimmAugMix::default();
    let mut depths = [0; 4];
    for sample in 0..300 {
        let mut ops = Vec::new();
        policy.draw(VIEW, &mut rng(sample), &mut ops);
        assert_eq!(ops.first(), Some(&DrawnOp::MixBegin(MixBegun)));
        let Some(DrawnOp::MixEnd(Mixed { share })) = ops.last() else { panic!("{ops:?}") };
        assert!((0.0..=1.0).contains(share));
        let weights: Vec<f32> = ops
            .iter()
            .filter_map(|op| match op {
                DrawnOp::MixChain(ChainMixed { weight }) => Some(*weight),
                _ => None,
            })
            .collect();
        assert_eq!(weights.len(), 3);
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{weights:?}");
        for chain in ops[1..ops.len() - 1].split(|op| matches!(op, DrawnOp::MixChain(_))) {
            // One that changes nothing is left out: a rotation by nothing is not.
            assert!(chain.len() <= 3);
            depths[chain.len()] += 1;
        }
    }
    // Of the four pieces of each sample the last is empty.
    assert!(depths[0] >= 300 && depths[1..].iter().all(|count| *count > 150), "{depths:?}");
}
