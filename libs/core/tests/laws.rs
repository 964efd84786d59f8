//! What is drawn has the distributions of torchvision, timm and NumPy. `data/make_laws.py` had them draw 200,000 times:
//! each twentieth of their values is as frequent here. Seeds are fixed, so a test passes or fails always.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_core::draw::{CropBox, DrawKey, DrawRng, Extent, ViewParams};
use headwater_core::masks::MaskKey;
use headwater_core::mixing::{MixPlan, MixSpec};
use headwater_core::op::{AffineWarp, ChainMixed, DrawnOp, Erased, OpSpec, TimmRandAugment};
use headwater_core::recipe::{CropSpec, ViewSpec};
use headwater_core::sampler::{EpochEnd, Order, OrderList, Sampler, SamplerConfig};
use headwater_core::{Dtype, Recipe, SampleId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{dataset, epoch, sampler};

const DRAWS: u64 = 20_000;

#[derive(Deserialize)]
struct Made {
    /// The values below which there are 1 to 19 twentieths.
    laws: BTreeMap<String, Vec<f64>>,
}

/// Asserts that counts are those of shares. The bound is exceeded once in 10,000: Wilson's and Hilferty's.
fn assert_counts(name: &str, counts: &[u32], shares: &[f64]) {
    let all = f64::from(counts.iter().sum::<u32>());
    let part =
        |(&count, &share): (&u32, &f64)| (f64::from(count) - all * share).powi(2) / (all * share);
    let sum: f64 = counts.iter().zip(shares).map(part).sum();
    let freedom = counts.len() as f64 - 1.0;
    let third = 2.0 / (9.0 * freedom);
    let bound = freedom * (1.0 - third + 3.72 * third.sqrt()).powi(3);
    assert!(sum < bound, "{name}: chi squared {sum} over {bound}, {counts:?}");
}

fn assert_law(name: &str, values: impl Iterator<Item = f64>) {
    let made: Made = serde_json::from_str(include_str!("data/laws.json")).expect("the fixture");
    let edges = &made.laws[name];
    let mut counts = [0; 20];
    values.for_each(|value| counts[edges.partition_point(|&edge| edge <= value)] += 1);
    assert!(counts.iter().sum::<u32>() >= DRAWS as u32, "{name}: too few");
    assert_counts(name, &counts, &[0.05; 20]);
}

fn rng(sample: u64) -> DrawRng {
    DrawKey { seed: 3, epoch: 1, pass: 0, sample: SampleId(sample), stream: 7 }.rng()
}

fn draws(crop: CropSpec, ops: Value, image: (u32, u32), view: (u32, u32)) -> Vec<ViewParams> {
    let ops: Vec<OpSpec> = serde_json::from_value(ops).expect("operations");
    let spec = ViewSpec { crop, ops };
    let extent = |(width, height)| Extent { width, height };
    (0..DRAWS).map(|n| spec.draw(extent(image), extent(view), &mut rng(n))).collect()
}

/// The one operation of each view of `view` pixels.
fn ops(op: Value, view: (u32, u32)) -> Vec<DrawnOp> {
    let views = draws(CropSpec::Resize {}, json!([op]), view, view);
    views.iter().map(|view| view.ops[0]).collect()
}

/// Areas and places of boxes in an image of this size, as shares of what there is.
fn assert_laws_of_boxes(
    name: &str,
    boxes: impl Iterator<Item = CropBox> + Clone,
    (width, height): (u32, u32),
) {
    let side = f64::from;
    let all = side(width) * side(height);
    let law = |law: &str| format!("{name} {law}");
    assert_law(&law("area"), boxes.clone().map(|b| side(b.width) * side(b.height) / all));
    assert_law(&law("left"), boxes.clone().map(|b| side(b.left) / side(width + 1 - b.width)));
    assert_law(&law("top"), boxes.map(|b| side(b.top) / side(height + 1 - b.height)));
}

#[test]
fn crops_have_torchvisions_areas_ratios_and_places() {
    let crop = CropSpec::RandomResized { scale: [0.08, 1.0], ratio: [3.0 / 4.0, 4.0 / 3.0] };
    let views = draws(crop, json!([]), (3100, 2900), (224, 224));
    let boxes = || views.iter().map(|view| view.crop);
    let side = f64::from;
    assert_laws_of_boxes("crop", boxes(), (3100, 2900));
    assert_law("crop log ratio", boxes().map(|b| (side(b.width) / side(b.height)).ln()));
}

#[test]
fn erased_boxes_have_torchvisions_areas_ratios_and_places() {
    let view = (2000, 1500);
    let drawn =
        ops(json!({"op": "erase", "p": 1, "scale": [0.02, 0.33], "ratio": [0.3, 3.3]}), view);
    let boxes = || {
        drawn.iter().map(|op| match op {
            DrawnOp::Erase(Erased { area, .. }) => *area,
            other => panic!("{other:?}"),
        })
    };
    let side = f64::from;
    assert_laws_of_boxes("erased", boxes(), view);
    assert_law("erased log ratio", boxes().map(|b| (side(b.height) / side(b.width)).ln()));
}

#[test]
fn rotations_scales_and_translations_are_torchvisions() {
    let matrices = |op: Value| {
        let matrix = |op: &DrawnOp| match *op {
            DrawnOp::Affine(AffineWarp { matrix, .. }) => matrix,
            ref other => panic!("{other:?}"),
        };
        ops(op, (3000, 2000)).iter().map(matrix).collect::<Vec<_>>()
    };
    let turned = matrices(json!({"op": "rotation", "p": 1, "degrees": [-30, 45]}));
    assert_law("rotation", turned.iter().map(|m| -m[1].atan2(m[0]).to_degrees()));
    let scaled = matrices(json!({"op": "affine", "p": 1, "degrees": [0, 0], "scale": [0.5, 2]}));
    assert_law("scale", scaled.iter().map(|m| 1.0 / m[0]));
    let moved =
        matrices(json!({"op": "affine", "p": 1, "degrees": [0, 0], "translate": [0.1, 0.3]}));
    assert_law("translation", moved.iter().map(|m| -m[2]));
    assert_law("translation down", moved.iter().map(|m| -m[5]));
}

#[test]
fn factors_of_jitter_are_torchvisions() {
    let jitter = json!({"op": "color_jitter", "p": 1, "brightness": [0.6, 1.4], "contrast": [1, 1],
        "saturation": [1, 1], "hue": [-0.1, 0.2]});
    let drawn = ops(jitter, (9, 9));
    let factors = |op: &DrawnOp| match op {
        DrawnOp::ColorJitter(jitter) => {
            [jitter.brightness, jitter.hue].map(|f| f64::from(f.unwrap()))
        }
        other => panic!("{other:?}"),
    };
    assert_law("brightness", drawn.iter().map(|op| factors(op)[0]));
    assert_law("hue", drawn.iter().map(|op| factors(op)[1]));
}

#[test]
fn shares_of_mixup_are_numpys_beta() {
    let recipe = Recipe::preset("imagenet-train", Dtype::F32).expect("a preset");
    for alpha in [0.4, 0.8, 1.0] {
        let spec = MixSpec { mixup_alpha: alpha, cutmix_alpha: 0.0, ..MixSpec::default() };
        let plan = MixPlan::new(spec, &recipe).expect("a plan");
        let lam = |step| plan.mixing(MaskKey { seed: 5, epoch: 1, step, rank: 2 }, 1).lam()[0];
        assert_law(&format!("beta {alpha:?}"), (0..DRAWS).map(|step| f64::from(lam(step))));
    }
}

#[test]
fn shares_and_levels_of_policies_are_timms() {
    let views = draws(CropSpec::Resize {}, json!([{"op": "timm_aug_mix"}]), (9, 9), (9, 9));
    let weight = |view: &ViewParams| {
        let weights = view.ops.iter().find_map(|op| match op {
            DrawnOp::MixChain(ChainMixed { weight }) => Some(f64::from(*weight)),
            _ => None,
        });
        weights.expect("a chain")
    };
    assert_law("dirichlet", views.iter().map(weight));
    let policy = TimmRandAugment {
        num_ops: 1,
        magnitude: 5.0,
        magnitude_std: 1.0,
        p: 1.0,
        ..TimmRandAugment::default()
    };
    assert_law("timm level", (0..DRAWS).map(|n| policy.layers(&mut rng(n))[0].level));
}

#[test]
fn samples_of_a_weighted_order_come_as_often_as_their_weights_say() {
    let weights = [1.0, 0.0, 2.5, 0.25, 4.0, 0.01, 1.24];
    let config = SamplerConfig {
        order: Order::List,
        epoch_end: EpochEnd::Steps(DRAWS / 100),
        ..SamplerConfig::new(5, 1, 0, 100)
    };
    let data = dataset("a", &[3, 4]);
    let list = Arc::new(OrderList::weights(weights.to_vec()).expect("weights"));
    let mut sampler = Sampler::with_list(config, vec![data.clone()], list).expect("a sampler");
    let mut counts = [0; 7];
    for sample in epoch(&mut sampler, 0) {
        counts[data.shard_start(sample.shard) as usize + sample.index as usize] += 1;
    }
    assert_eq!(counts[1], 0, "a weight of 0");
    let drawn = [0, 2, 3, 4, 5, 6];
    assert_counts("weights", &drawn.map(|n| counts[n]), &drawn.map(|n| weights[n] / 9.0));
}

#[test]
fn all_orders_of_a_few_samples_are_equally_likely() {
    let data = [dataset("a", &[4])];
    let mut counts: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    for seed in 0..4_800 {
        let order = epoch(&mut sampler(&SamplerConfig::new(seed, 1, 0, 1), &data), 0);
        *counts.entry(order.iter().map(|sample| sample.index).collect()).or_default() += 1;
    }
    let counts: Vec<u32> = counts.into_values().collect();
    assert_eq!(counts.len(), 24);
    assert_counts("orders", &counts, &[1.0 / 24.0; 24]);
}
