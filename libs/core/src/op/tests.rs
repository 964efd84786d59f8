//! What is known of each operation.

use super::*;
use crate::SampleId;
use crate::draw::DrawKey;

const VIEW: Extent = Extent { width: 64, height: 48 };

fn drawn(op: &OpSpec, sample: u64) -> Vec<DrawnOp> {
    let key = DrawKey { seed: 1, epoch: 2, pass: 0, sample: SampleId(sample), stream: 3 };
    let mut ops = Vec::new();
    op.draw(VIEW, &mut key.rng(), &mut ops);
    ops
}

#[test]
fn an_example_is_valid_and_is_what_its_json_says() {
    for op in OpSpec::examples() {
        op.validate("op").unwrap_or_else(|error| panic!("{error}"));
        let json = serde_json::to_value(&op).expect("plain data");
        assert_eq!(json["op"], op.name());
        assert_eq!(serde_json::from_value::<OpSpec>(json).expect("an operation"), op);
    }
}

#[test]
fn what_is_drawn_is_what_its_json_says_and_has_a_text() {
    for op in OpSpec::examples() {
        let ops: Vec<DrawnOp> = (0..100).flat_map(|sample| drawn(&op, sample)).collect();
        assert!(ops.len() >= 50, "{} is drawn {} times", op.name(), ops.len());
        for op in ops {
            let json = serde_json::to_value(op).expect("plain data");
            assert_eq!(serde_json::from_value::<DrawnOp>(json).expect("an operation"), op);
            assert!(!op.text().is_empty(), "{op:?}");
        }
    }
}

/// Boxes and smooth levels follow a `Mirror` and are refused beside a `Warp`: what is drawn has to be that.
#[test]
fn what_is_drawn_moves_pixels_as_its_reach_says() {
    for op in OpSpec::examples() {
        let motions: Vec<Motion> =
            (0..100).flat_map(|sample| drawn(&op, sample)).map(|drawn| drawn.motion()).collect();
        let fits = |motion: &Motion| match (op.reach(), motion) {
            (Reach::Mirror, motion) => matches!(motion, Motion::MirrorAcross | Motion::MirrorDown),
            (Reach::Warp, motion) => matches!(motion, Motion::Affine(_) | Motion::Perspective(_)),
            (Reach::Chosen, _) => true,
            (_, motion) => *motion == Motion::Stays,
        };
        assert!(motions.iter().all(fits), "{}: {motions:?}", op.name());
    }
}

/// Written down by hand: who adds an operation thinks of each.
#[test]
fn what_gpus_do_and_where_operations_may_stand() {
    let names = |holds: &dyn Fn(&OpSpec) -> bool| -> Vec<&str> {
        let examples = OpSpec::examples();
        examples.iter().filter(|op| holds(op)).map(OpSpec::name).collect()
    };
    let kernels =
        ["flip", "vertical_flip", "color_jitter", "grayscale", "gaussian_blur", "solarize"];
    assert_eq!(names(&OpSpec::has_kernel), kernels);
    let on_images = [
        "color_jitter",
        "grayscale",
        "solarize",
        "invert",
        "posterize",
        "equalize",
        "auto_contrast",
        "sharpness",
        "gaussian_noise",
        "python",
    ];
    let may = |op: &OpSpec| matches!(op.reach(), Reach::Colours | Reach::Unknown);
    assert_eq!(names(&may), on_images);
    let not_followed = [
        "rand_augment",
        "trivial_augment_wide",
        "auto_augment",
        "timm_rand_augment",
        "timm_aug_mix",
        "python",
    ];
    let lost = |op: &OpSpec| matches!(op.reach(), Reach::Chosen | Reach::Unknown);
    assert_eq!(names(&lost), not_followed);
    let warps = |op: &OpSpec| op.reach() == Reach::Warp;
    assert_eq!(names(&warps), ["rotation", "affine", "perspective"]);
}
