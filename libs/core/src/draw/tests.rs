//! Draws against the formulas of torchvision, over many samples.

use crate::draw::{CropBox, DrawKey, Extent, Origin, ViewParams};
use crate::op::{
    Blurred, ColorJitter, DrawnOp, Flip, Flipped, GaussianBlur, Grayscaled, Jitter, JitterStep,
    OpSpec,
};
use crate::recipe::{CropSpec, ViewSpec};
use crate::{Dtype, Recipe, SampleId};

const SAMPLES: u64 = 20_000;
const PHOTO: Extent = Extent { width: 500, height: 375 };
const SQUARE: Extent = Extent { width: 224, height: 224 };

fn key(sample: u64) -> DrawKey {
    DrawKey { seed: 7, epoch: 1, pass: 0, sample: SampleId(sample), stream: 0 }
}

fn draws(spec: &ViewSpec, image: Extent) -> Vec<ViewParams> {
    (0..SAMPLES).map(|sample| spec.draw(image, SQUARE, &mut key(sample).rng())).collect()
}

fn crop_only(scale: [f64; 2], ratio: [f64; 2]) -> ViewSpec {
    ViewSpec { crop: CropSpec::RandomResized { scale, ratio }, ops: Vec::new() }
}

/// Asserts that values are uniform in [low, high): mean, variance and each tenth.
fn assert_uniform(name: &str, values: &[f64], low: f64, high: f64) {
    let count = values.len() as f64;
    let share = |value: &f64| (value - low) / (high - low);
    let mean = values.iter().map(share).sum::<f64>() / count;
    assert!((mean - 0.5).abs() < 4.0 * (1.0 / 12.0 / count).sqrt(), "{name}: mean {mean}");
    let mut tenths = [0f64; 10];
    for value in values {
        let share = share(value);
        assert!((-1e-3..=1.0 + 1e-3).contains(&share), "{name}: {value} beyond [{low}, {high}]");
        tenths[((share * 10.0) as usize).min(9)] += 1.0;
    }
    // Chi squared with 9 degrees of freedom exceeds 33.7 once in 10,000.
    let expected = count / 10.0;
    let chi: f64 = tenths.iter().map(|n| (n - expected).powi(2) / expected).sum();
    assert!(chi < 33.7, "{name}: chi squared {chi} of {tenths:?}");
}

fn assert_share(name: &str, hits: usize, of: usize, p: f64) {
    let share = hits as f64 / of as f64;
    let sigma = (p * (1.0 - p) / of as f64).sqrt();
    assert!((share - p).abs() <= 4.0 * sigma, "{name}: {share} of {of}, not {p}");
}

#[test]
fn area_and_log_ratio_of_a_crop_are_uniform_and_independent() {
    // A big image in the middle of the range: hardly a try is refused and rounding is small.
    let image = Extent { width: 40_000, height: 40_000 };
    let views = draws(&crop_only([0.05, 0.32], [0.75, 4.0 / 3.0]), image);
    let side = |length: u32| f64::from(length) / 40_000.0;
    let areas: Vec<f64> = views.iter().map(|v| side(v.crop.width) * side(v.crop.height)).collect();
    let ratios: Vec<f64> =
        views.iter().map(|v| (f64::from(v.crop.width) / f64::from(v.crop.height)).ln()).collect();
    assert_uniform("area", &areas, 0.05, 0.32);
    assert_uniform("log ratio", &ratios, 0.75f64.ln(), (4.0f64 / 3.0).ln());
    let covariance = areas.iter().zip(&ratios).map(|(a, r)| (a - 0.185) * r).sum::<f64>();
    let deviation = (0.27f64.powi(2) / 12.0 * (2.0 * (4.0f64 / 3.0).ln()).powi(2) / 12.0).sqrt();
    let correlation = covariance / SAMPLES as f64 / deviation;
    assert!(correlation.abs() < 4.0 / (SAMPLES as f64).sqrt(), "correlation {correlation}");
}

#[test]
fn a_box_lies_anywhere_in_the_image_both_edges_included() {
    let image = Extent { width: 8, height: 6 };
    let views = draws(&crop_only([0.2, 0.25], [0.99, 1.01]), image);
    // Sides of the root of 9.6 to 12 are 3: 6 columns and 4 rows to start from.
    let mut starts = [[0usize; 6]; 4];
    for view in &views {
        assert_eq!((view.crop.width, view.crop.height), (3, 3));
        starts[view.crop.top as usize][view.crop.left as usize] += 1;
    }
    for start in starts.as_flattened() {
        assert_share("start", *start, views.len(), 1.0 / 24.0);
    }
}

#[test]
fn a_box_is_within_the_image_and_not_empty_whatever_its_size() {
    let spec = crop_only([0.05, 1.0], [0.75, 4.0 / 3.0]);
    for image in [(1, 1), (1, 7), (7, 1), (2, 3), (3, 2000), (2000, 3), (37, 41), (65_535, 1)] {
        let image = Extent { width: image.0, height: image.1 };
        for sample in 0..500 {
            let CropBox { left, top, width, height } =
                spec.draw(image, SQUARE, &mut key(sample).rng()).crop;
            assert!(width > 0 && height > 0, "{image:?}");
            assert!(left + width <= image.width && top + height <= image.height, "{image:?}");
        }
    }
}

#[test]
fn when_no_try_fits_the_box_is_centred_with_the_nearest_ratio() {
    // Of a strip, a box of nearly the whole area and ratio below 4/3 never fits.
    let wide = Extent { width: 1000, height: 10 };
    let spec = crop_only([0.9, 1.0], [0.75, 4.0 / 3.0]);
    let crop = spec.draw(wide, SQUARE, &mut key(1).rng()).crop;
    assert_eq!(crop, CropBox { left: 493, top: 0, width: 13, height: 10 });
    let tall = Extent { width: 10, height: 1000 };
    let crop = spec.draw(tall, SQUARE, &mut key(1).rng()).crop;
    assert_eq!(crop, CropBox { left: 0, top: 493, width: 10, height: 13 });
}

#[test]
fn a_window_lies_within_the_resized_image_however_long_that_would_be() {
    let resize = 256;
    let sides = [10_000_000, 16_777_215, 20_000_000, u32::MAX];
    for (width, height) in sides.into_iter().flat_map(|long| [(1, long), (long, 1)]) {
        let image = Extent { width, height };
        for crop in [CropSpec::CenterAfterResize { resize }, CropSpec::RandomAfterResize { resize }]
        {
            let spec = ViewSpec { crop, ops: Vec::new() };
            for sample in 0..50 {
                let ViewParams { resized, window, .. } =
                    spec.draw(image, SQUARE, &mut key(sample).rng());
                assert_eq!(resized.width.min(resized.height), resize, "{image:?}");
                let ends = [(window.left, resized.width), (window.top, resized.height)];
                for (start, side) in ends {
                    assert!(
                        u64::from(start) + 224 <= u64::from(side),
                        "{image:?}: {start} of {side}"
                    );
                }
            }
        }
    }
}

/// The local views of `dinov2`, with every gate's probability and value range.
#[test]
fn gates_and_values_of_dinov2_follow_their_distributions() {
    let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
    let views = draws(&recipe.tensors[0].views[1], PHOTO);
    let all = || views.iter().flat_map(|view| &view.ops);
    let count = |is: fn(&DrawnOp) -> bool| all().filter(|op| is(op)).count();
    let n = views.len();
    assert_share("flip", count(|op| matches!(op, DrawnOp::Flip(Flipped))), n, 0.5);
    assert_share("jitter", count(|op| matches!(op, DrawnOp::ColorJitter { .. })), n, 0.8);
    assert_share("grayscale", count(|op| matches!(op, DrawnOp::Grayscale(Grayscaled))), n, 0.2);
    assert_share("blur", count(|op| matches!(op, DrawnOp::GaussianBlur(_))), n, 0.9);
    assert_share("solarize", count(|op| matches!(op, DrawnOp::Solarize(_))), n, 0.2);

    let mut factors: [Vec<f64>; 4] = Default::default();
    let mut firsts = [0usize; 24];
    let mut sigmas = Vec::new();
    for op in all() {
        match *op {
            DrawnOp::ColorJitter(jitter) => {
                for (step, factor) in jitter.steps() {
                    factors[step as usize].push(f64::from(factor));
                }
                firsts[rank(jitter.order)] += 1;
            }
            DrawnOp::GaussianBlur(Blurred { sigma }) => sigmas.push(f64::from(sigma)),
            _ => {}
        }
    }
    assert_uniform("brightness", &factors[0], 0.6, 1.4);
    assert_uniform("contrast", &factors[1], 0.6, 1.4);
    assert_uniform("saturation", &factors[2], 0.8, 1.2);
    assert_uniform("hue", &factors[3], -0.1, 0.1);
    assert_uniform("sigma", &sigmas, 0.1, 2.0);
    for orders in firsts {
        assert_share("order", orders, factors[0].len(), 1.0 / 24.0);
    }
}

/// Number of a permutation among the 24.
fn rank(order: [JitterStep; 4]) -> usize {
    let at = order.map(|step| step as usize);
    let smaller_after = |i: usize| at[i + 1..].iter().filter(|&&later| later < at[i]).count();
    smaller_after(0) * 6 + smaller_after(1) * 2 + smaller_after(2)
}

#[test]
fn operations_keep_the_order_of_the_recipe() {
    let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
    let place = |op: &DrawnOp| match op {
        DrawnOp::Flip(Flipped) => 0,
        DrawnOp::ColorJitter { .. } => 1,
        DrawnOp::Grayscale(Grayscaled) => 2,
        DrawnOp::GaussianBlur(_) => 3,
        DrawnOp::Solarize(_) => 4,
        _ => unreachable!("not in this recipe"),
    };
    for view in draws(&recipe.tensors[0].views[1], PHOTO) {
        assert!(view.ops.is_sorted_by_key(place), "{:?}", view.ops);
    }
}

#[test]
fn a_shut_gate_takes_one_number_and_no_values() {
    let jitter = |p| {
        OpSpec::ColorJitter(ColorJitter {
            p,
            brightness: [0.6, 1.4],
            contrast: [0.6, 1.4],
            saturation: [0.8, 1.2],
            hue: [-0.1, 0.1],
        })
    };
    let blur = OpSpec::GaussianBlur(GaussianBlur { p: 1.0, sigma: [0.1, 2.0] });
    let whole = CropSpec::CenterAfterResize { resize: 224 };
    let spec = ViewSpec { crop: whole, ops: vec![jitter(0.0), blur] };
    let mut rng = key(3).rng();
    let drawn = spec.draw(PHOTO, SQUARE, &mut rng).ops;
    let mut by_hand = key(3).rng();
    assert!(!by_hand.gate(0.0));
    assert!(by_hand.gate(1.0));
    assert_eq!(drawn, [DrawnOp::GaussianBlur(Blurred { sigma: by_hand.uniform(0.1, 2.0) as f32 })]);
    assert_eq!(rng.unit(), by_hand.unit());
}

#[test]
fn a_neutral_range_has_no_factor_and_changes_no_other_draw() {
    let jitter = |hue, contrast| {
        let factors = [0.6, 1.4];
        let (brightness, saturation) = (factors, factors);
        let op = OpSpec::ColorJitter(ColorJitter { p: 1.0, brightness, contrast, saturation, hue });
        let whole = CropSpec::CenterAfterResize { resize: 224 };
        let spec = ViewSpec { crop: whole, ops: vec![op, OpSpec::Flip(Flip { p: 0.5 })] };
        spec.draw(PHOTO, SQUARE, &mut key(3).rng()).ops
    };
    let (full, neutral) = (jitter([-0.1, 0.1], [0.6, 1.4]), jitter([0.0, 0.0], [1.0, 1.0]));
    let DrawnOp::ColorJitter(full_jitter) = full[0] else { panic!("{full:?}") };
    let expected = Jitter { hue: None, contrast: None, ..full_jitter };
    assert_eq!(neutral[0], DrawnOp::ColorJitter(expected));
    assert_eq!(neutral[1..], full[1..]);
    let steps: Vec<JitterStep> = expected.steps().map(|(step, _)| step).collect();
    let is_left =
        |step: &JitterStep| matches!(step, JitterStep::Brightness | JitterStep::Saturation);
    assert!(steps.iter().eq(full_jitter.order.iter().filter(|step| is_left(step))), "{steps:?}");
}

#[test]
fn a_centre_crop_truncates_the_long_side_and_rounds_the_origin_to_even() {
    let spec = |resize| ViewSpec { crop: CropSpec::CenterAfterResize { resize }, ops: Vec::new() };
    let params = spec(256).draw(PHOTO, SQUARE, &mut key(0).rng());
    // 256 * 500 / 375 = 341.3; (341 - 224) / 2 = 58.5 goes to 58.
    assert_eq!(params.resized, Extent { width: 341, height: 256 });
    assert_eq!(params.window, Origin { left: 58, top: 16 });
    assert_eq!(params.crop, CropBox { left: 0, top: 0, width: 500, height: 375 });
    let tall = Extent { width: 333, height: 500 };
    let params = spec(225).draw(tall, SQUARE, &mut key(0).rng());
    // 225 * 500 / 333 = 337.8; (337 - 224) / 2 = 56.5 goes to 56, 0.5 to 0.
    assert_eq!(params.resized, Extent { width: 225, height: 337 });
    assert_eq!(params.window, Origin { left: 0, top: 56 });
}

#[test]
fn drawing_into_used_memory_is_drawing_anew() {
    let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
    let spec = &recipe.tensors[0].views[1];
    let mut params = ViewParams::whole(PHOTO);
    for sample in 0..100 {
        spec.draw_into(
            crate::recipe::Interpolation::Bicubic,
            PHOTO,
            SQUARE,
            &mut key(sample).rng(),
            &mut params,
        );
        assert_eq!(params, spec.draw(PHOTO, SQUARE, &mut key(sample).rng()));
    }
}
