use super::*;
use crate::{Dtype, Recipe};

fn plan(spec: MixSpec) -> MixPlan {
    let recipe = Recipe::preset("imagenet-train", Dtype::F32).expect("a preset");
    MixPlan::new(spec, &recipe).expect("a specification that fits")
}

fn key(step: u64) -> MaskKey {
    MaskKey { seed: 5, epoch: 1, step, rank: 2 }
}

#[test]
fn a_batch_is_mixed_alike_whoever_asks() {
    let plan = plan(MixSpec::default());
    assert_eq!(plan.mixing(key(3), 8), plan.mixing(key(3), 8));
    assert_ne!(plan.mixing(key(3), 8).lam(), plan.mixing(key(4), 8).lam());
    let other = MaskKey { rank: 3, ..key(3) };
    assert_ne!(plan.mixing(key(3), 8).lam(), plan.mixing(other, 8).lam());
}

#[test]
fn partners_are_those_of_each_definition() {
    let timm = plan(MixSpec::default()).mixing(key(0), 4);
    assert_eq!(timm.partner(), [3, 2, 1, 0]);
    let spec = MixSpec { style: MixStyle::Torchvision, ..MixSpec::default() };
    assert_eq!(plan(spec).mixing(key(0), 4).partner(), [3, 0, 1, 2]);
}

#[test]
fn what_is_drawn_once_is_for_a_batch_a_sample_or_a_pair() {
    let drawn = |mode| plan(MixSpec { mode, ..MixSpec::default() }).mixing(key(7), 6);
    let batch = drawn(MixMode::Batch);
    assert!(batch.lam().iter().all(|lam| *lam == batch.lam()[0]));
    let elem = drawn(MixMode::Elem);
    assert!((1..6).all(|sample| elem.lam()[sample] != elem.lam()[0]));
    let pair = drawn(MixMode::Pair);
    for sample in 0..3 {
        assert_eq!(pair.lam()[sample], pair.lam()[5 - sample]);
        assert_eq!(pair.boxes()[sample], pair.boxes()[5 - sample]);
    }
    assert_ne!(pair.lam()[0], pair.lam()[1]);
    let odd = plan(MixSpec { mode: MixMode::Pair, ..MixSpec::default() }).mixing(key(7), 5);
    assert_eq!(odd.partner(), [4, 3, 2, 1, 0]);
    assert_eq!((odd.lam().len(), odd.lam()[1]), (5, odd.lam()[3]));
}

#[test]
fn a_share_is_what_its_box_leaves() {
    for style in [MixStyle::Timm, MixStyle::Torchvision] {
        let plan = plan(MixSpec { style, mixup_alpha: 0.0, ..MixSpec::default() });
        let mut areas = Vec::new();
        for step in 0..3000 {
            let mixing = plan.mixing(key(step), 1);
            let [top, bottom, left, right] = mixing.boxes()[0];
            assert!(0 <= top && top <= bottom && bottom <= 224, "{mixing:?}");
            assert!(0 <= left && left <= right && right <= 224, "{mixing:?}");
            let area = (bottom - top) * (right - left);
            assert_eq!(mixing.lam()[0], (1.0 - area as f64 / (224.0 * 224.0)) as f32);
            areas.push(1.0 - f64::from(mixing.lam()[0]));
        }
        // E[1 - λ] is 1/2; what a box loses beyond the edges makes it less: the square of the mean that stays of
        // a side s, which is s - s²/4. With s² uniform: E[s² - s³/2 + s⁴/16] = 1/2 - 1/5 + 1/48.
        let mean = areas.iter().sum::<f64>() / areas.len() as f64;
        assert!((mean - (0.5 - 0.2 + 1.0 / 48.0)).abs() < 0.02, "{style:?}: {mean}");
    }
}

#[test]
fn each_kind_of_mixing_has_its_probability() {
    let count = |spec: MixSpec| {
        let plan = plan(spec);
        let mut counts = [0; 3];
        for step in 0..4000 {
            let mixing = plan.mixing(key(step), 2);
            let kind = match (mixing.lam()[0], mixing.boxes()[0]) {
                (_, [top, bottom, ..]) if bottom > top => 2,
                (lam, _) if lam < 1.0 => 1,
                _ => 0,
            };
            counts[kind] += 1;
        }
        counts.map(|count| f64::from(count) / 4000.0)
    };
    let near = |found: [f64; 3], expected: [f64; 3]| {
        // Boxes at times have no row: those are counted as none.
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.05), "{found:?}");
    };
    near(count(MixSpec::default()), [0.0, 0.5, 0.5]);
    near(count(MixSpec { prob: 0.4, switch_prob: 0.25, ..MixSpec::default() }), [0.6, 0.3, 0.1]);
    near(count(MixSpec { cutmix_alpha: 0.0, ..MixSpec::default() }), [0.0, 1.0, 0.0]);
    let minmax = Some([0.2, 0.8]);
    let spec = MixSpec { cutmix_minmax: minmax, cutmix_alpha: 0.0, ..MixSpec::default() };
    near(count(spec), [0.0, 0.5, 0.5]);
}

#[test]
fn what_cannot_be_mixed_is_refused_by_its_key() {
    let recipe = |name| Recipe::preset(name, Dtype::F32).expect("a preset");
    let refused = |spec: MixSpec, preset| {
        MixPlan::new(spec, &recipe(preset)).expect_err("refused").to_string()
    };
    let default = MixSpec::default;
    let cases = [
        (MixSpec { mixup_alpha: -1.0, ..default() }, "mixing.mixup_alpha is -1: must be from 0"),
        (MixSpec { prob: f64::NAN, ..default() }, "mixing.prob is NaN: must be from 0 to 1"),
        (
            MixSpec { mixup_alpha: 0.0, cutmix_alpha: 0.0, ..default() },
            "mixing.mixup_alpha is 0: must be above",
        ),
        (
            MixSpec { cutmix_minmax: Some([0.5, 0.2]), ..default() },
            "mixing.cutmix_minmax is [0.5, 0.2]",
        ),
        (
            MixSpec { style: MixStyle::Torchvision, mode: MixMode::Pair, ..default() },
            "mixing.mode is pair: must be batch or elem",
        ),
    ];
    for (spec, said) in cases {
        let error = refused(spec, "imagenet-train");
        assert!(error.starts_with(said), "{error}");
    }
    let error = refused(default(), "dinov2");
    assert!(error.contains("`global_crops` and `local_crops` have unlike sizes"), "{error}");
    assert!(refused(default(), "raw").contains("no image tensor"));
}
