use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::{Dtype, Recipe};

/// What `tests/data/make_patches.py` had from the published code.
#[derive(Deserialize)]
struct Made {
    spec: Value,
    samples: u32,
    draws: VecDeque<Drawn>,
    masks_enc: Vec<Vec<Vec<i64>>>,
    masks_pred: Vec<Vec<Vec<i64>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Drawn {
    Unit { unit: f64 },
    Below { below: u64, bound: u64 },
}

/// The numbers that the published code drew.
struct Recorded(VecDeque<Drawn>);

impl Draws for Recorded {
    fn unit(&mut self) -> f64 {
        match self.0.pop_front() {
            Some(Drawn::Unit { unit }) => unit,
            _ => panic!("no number from 0 to 1 was drawn there"),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        match self.0.pop_front() {
            Some(Drawn::Below { below, bound: was }) if was == bound => below,
            _ => panic!("no number below {bound} was drawn there"),
        }
    }
}

fn plan(spec: &Value) -> Result<PatchPlan, PatchError> {
    let recipe = Recipe::preset("ijepa", Dtype::F32).expect("a preset");
    PatchPlan::new(serde_json::from_value(spec.clone()).expect("a specification"), &recipe)
}

fn key(step: u64) -> MaskKey {
    MaskKey { seed: 5, epoch: 1, step, rank: 2 }
}

#[test]
fn with_the_same_draws_blocks_are_those_of_the_published_code() {
    let made: Vec<Made> =
        serde_json::from_str(include_str!("../../tests/data/patches.json")).expect("the fixture");
    assert!(made.len() >= 8);
    for Made { mut spec, samples, draws, masks_enc, masks_pred } in made {
        spec["kind"] = "ijepa".into();
        // There the sizes of targets and context come from a generator of their own, first.
        let (mut sizes, mut places) = (draws, VecDeque::new());
        places.extend(sizes.drain(2..));
        let (mut sizes, mut places) = (Recorded(sizes), Recorded(places));
        let found = plan(&spec).expect("a plan").draw(&mut sizes, &mut places, samples);
        let left = sizes.0.len() + places.0.len();
        assert!(left == 0, "{spec}: {left} draws are left");
        for (tensor, expected) in found.tensors().iter().zip([masks_enc, masks_pred]) {
            let shape =
                [expected.len(), expected[0].len(), expected[0][0].len()].map(|side| side as u64);
            assert_eq!(tensor.shape, shape, "{} of {spec}", tensor.name);
            let expected: Vec<i64> = expected.into_iter().flatten().flatten().collect();
            assert_eq!(tensor.values, expected, "{} of {spec}", tensor.name);
        }
    }
}

#[test]
fn random_patches_are_a_permutation_and_its_inverse() {
    let plan = plan(&json!({"kind": "random", "patch": 16})).expect("a plan");
    let mut counts = vec![0; 196];
    for step in 0..400 {
        let found = plan.patches(key(step), 2);
        let [keep, restore] = found.tensors() else { panic!("two tensors") };
        assert_eq!(
            (keep.shape.as_slice(), restore.shape.as_slice()),
            (&[2, 49][..], &[2, 196][..])
        );
        for (keep, restore) in keep.values.chunks(49).zip(restore.values.chunks(196)) {
            for (place, patch) in (0..).zip(keep) {
                assert_eq!(restore[*patch as usize], place);
                counts[*patch as usize] += 1;
            }
            let mut places = restore.to_vec();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..196));
        }
    }
    // 800 rows keep a quarter: 200 times each patch, within five standard errors.
    assert!(counts.iter().all(|count: &i32| (count - 200).abs() < 62), "{counts:?}");
}

#[test]
fn they_follow_from_the_batchs_coordinates() {
    let plan = plan(&json!({"kind": "ijepa", "patch": 16})).expect("a plan");
    assert_eq!(plan.patches(key(3), 4), plan.patches(key(3), 4));
    assert_ne!(plan.patches(key(3), 4), plan.patches(key(4), 4));
    assert_ne!(plan.patches(key(3), 4), plan.patches(MaskKey { rank: 1, ..key(3) }, 4));
}

/// Rows and columns of the smallest block that holds patches of a 14 x 14 grid.
fn extent(patches: &[i64]) -> (i64, i64) {
    let span = |of: fn(&i64) -> i64| {
        let (least, most) = (patches.iter().map(of).min(), patches.iter().map(of).max());
        most.expect("a patch") - least.expect("a patch") + 1
    };
    (span(|patch| patch / 14), span(|patch| patch % 14))
}

#[test]
fn blocks_have_one_size_on_all_ranks_of_a_step_and_places_of_each_ranks_own() {
    // Nothing is taken out of a block, so that each list is a whole one.
    let plan = plan(&json!({"kind": "ijepa", "patch": 16, "allow_overlap": true})).expect("a plan");
    let mut sizes_of_steps = std::collections::BTreeSet::new();
    for step in 0..8 {
        let of_rank = |rank| plan.patches(MaskKey { rank, ..key(step) }, 4);
        let sizes = |masks: &PatchMasks| {
            let each = masks.tensors().iter().flat_map(|tensor| {
                let kept = *tensor.shape.last().expect("a side") as usize;
                tensor.values.chunks(kept).map(|block| (tensor.name, extent(block)))
            });
            each.collect::<std::collections::BTreeSet<_>>()
        };
        let first = of_rank(0);
        assert_eq!(sizes(&first).len(), 2, "one size of contexts and one of targets");
        for rank in 1..4 {
            let other = of_rank(rank);
            assert_eq!(sizes(&other), sizes(&first), "rank {rank}, step {step}");
            assert_ne!(other, first, "the places of rank {rank}, step {step}");
        }
        sizes_of_steps.insert(sizes(&first));
    }
    assert!(sizes_of_steps.len() > 1, "the sizes differ between steps");
}

#[test]
fn a_block_that_is_too_small_ends_the_tries() {
    let spec = json!({"kind": "ijepa", "patch": 56, "min_keep": 1000});
    let found = plan(&spec).expect("a plan").patches(key(0), 1);
    assert!(
        found.tensors().iter().all(|tensor| tensor.values.iter().all(|at| (0..16).contains(at)))
    );
}

#[test]
fn what_does_not_fit_is_refused_by_its_key() {
    for (spec, said) in [
        (json!({"kind": "ijepa", "patch": 15}), "patches.patch is 15: must divide 224 and 224"),
        (json!({"kind": "ijepa", "patch": 0}), "patches.patch is 0: must be 1 or more"),
        (json!({"kind": "ijepa", "patch": 224}), "patches.patch is 224: must leave two rows"),
        (
            json!({"kind": "random", "patch": 16, "ratio": 1.0}),
            "patches.ratio is 1: must be from 0 to below 1",
        ),
        (
            json!({"kind": "random", "patch": 16, "tensor": "views"}),
            "patches.tensor is `views`: the recipe has no",
        ),
        (
            json!({"kind": "ijepa", "patch": 16, "pred_mask_scale": [0.3, 0.2]}),
            "patches.pred_mask_scale is [0.3, 0.2]: must be [least, greatest]",
        ),
        (json!({"kind": "ijepa", "patch": 16, "num_pred_masks": 0}), "patches.num_pred_masks is 0"),
    ] {
        let error = plan(&spec).expect_err("refused").to_string();
        assert!(error.starts_with(said), "{error}");
    }
}
