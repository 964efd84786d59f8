//! iBOT masks against a plain implementation with the same draws, and what must hold of any.

use headwater_core::masks::{Draws, MaskStyle};
use headwater_core::{Dtype, MaskKey, MaskPlan, MaskSpec, Masks, Recipe};
use proptest::prelude::*;
use serde::Deserialize;

/// A batch as `tests/data/make_masks.py` made it.
#[derive(Deserialize)]
struct Case {
    samples: u32,
    views: usize,
    height: u32,
    width: u32,
    patch: u32,
    sample_probability: f64,
    ratio_min: f64,
    ratio_max: f64,
    style: MaskStyle,
    random_circular_shift: bool,
    indices: Vec<i64>,
    weight: Vec<f32>,
    upperbound: u64,
    draws: Vec<Draw>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Draw {
    Unit(f64),
    /// Bound and what was drawn under it.
    Below(u64, u64),
}

/// Gives out what was drawn once, and fails where something else is asked for.
struct Record<'a>(std::slice::Iter<'a, Draw>);

impl Draws for Record<'_> {
    fn unit(&mut self) -> f64 {
        match self.0.next() {
            Some(&Draw::Unit(value)) => value,
            other => panic!("asked for a number in [0, 1), recorded is {other:?}"),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        match self.0.next() {
            Some(&Draw::Below(recorded, value)) if recorded == bound => value,
            other => panic!("asked for a number below {bound}, recorded is {other:?}"),
        }
    }
}

/// `dinov2` with global crops of another size and number.
fn recipe(height: u32, width: u32, views: usize) -> Recipe {
    let mut recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
    let tensor = &mut recipe.tensors[0];
    (tensor.height, tensor.width) = (height, width);
    tensor.views.truncate(views);
    recipe
}

fn spec(patch: u32) -> MaskSpec {
    serde_json::from_value(serde_json::json!({ "patch": patch })).expect("the rest has defaults")
}

fn plan(side: u32, patch: u32) -> MaskPlan {
    MaskPlan::new(spec(patch), &recipe(side, side, 2)).expect("a plan")
}

fn key(step: u64) -> MaskKey {
    MaskKey { seed: 7, epoch: 1, step, rank: 3 }
}

fn counts(masks: &Masks) -> Vec<u64> {
    let rows = masks.cells().chunks_exact(masks.patches());
    rows.map(|row| row.iter().map(|&cell| u64::from(cell)).sum()).collect()
}

#[test]
fn with_the_same_draws_masks_are_those_of_the_plain_implementation() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/masks.json")).expect("a file");
    for (number, case) in cases.iter().enumerate() {
        let spec = MaskSpec {
            sample_probability: case.sample_probability,
            ratio_min: case.ratio_min,
            ratio_max: case.ratio_max,
            style: case.style,
            random_circular_shift: case.random_circular_shift,
            ..spec(case.patch)
        };
        let plan = MaskPlan::new(spec, &recipe(case.height, case.width, case.views));
        let mut record = Record(case.draws.iter());
        let masks = plan.expect("a plan").draw(case.samples, &mut record);
        assert_eq!(record.0.len(), 0, "case {number}: draws that were not asked for");
        assert_eq!(masks.indices(), case.indices, "case {number}");
        assert_eq!(masks.weight(), case.weight, "case {number}");
        assert_eq!(masks.upperbound(), case.upperbound, "case {number}");
    }
    assert!(cases.len() >= 13);
}

proptest! {
    #[test]
    fn cells_indices_and_weights_say_the_same(
        samples in 1_u32..9,
        side in 1_u32..12,
        probability in 0.0..=1.0,
        (a, b) in (0.0..=1.0, 0.0..=1.0),
        step in 0_u64..1000,
    ) {
        let (ratio_min, ratio_max) = (f64::min(a, b), f64::max(a, b));
        let spec = MaskSpec { sample_probability: probability, ratio_min, ratio_max, ..spec(16) };
        let plan = MaskPlan::new(spec, &recipe(16 * side, 16 * (side + 1), 2)).unwrap();
        let masks = plan.masks(key(step), samples);
        let patches = (side * (side + 1)) as usize;
        prop_assert_eq!((masks.rows(), masks.patches()), (2 * samples as usize, patches));
        let counts = counts(&masks);
        let masked = (f64::from(2 * samples) * probability) as usize;
        prop_assert!(counts.iter().filter(|&&count| count > 0).count() <= masked);
        prop_assert!(counts.iter().sum::<u64>() <= masks.upperbound());
        prop_assert!(counts.iter().all(|&count| count as f64 <= patches as f64 * ratio_max + 1e-3));
        let set = (0..masks.cells().len()).filter(|&at| masks.cells()[at] == 1).map(|at| at as i64);
        prop_assert!(set.eq(masks.indices().iter().copied()));
        let weights = counts.iter().flat_map(|&n| (0..n).map(move |_| 1.0 / n as f32));
        prop_assert!(weights.eq(masks.weight().iter().copied()));
    }
}

/// Half of the rows, with targets that go up in equal strides from a tenth to a half.
#[test]
fn a_batch_of_dinov2_has_the_masks_it_asks_for() {
    let plan = plan(224, 14);
    let (mut sum, mut missed, mut rows_masked) = (0.0, 0_usize, [0_usize; 64]);
    const BATCHES: u64 = 400;
    for step in 0..BATCHES {
        let masks = plan.masks(key(step), 32);
        let mut counts = counts(&masks);
        for (row, count) in counts.iter().enumerate() {
            rows_masked[row] += usize::from(*count > 0);
        }
        counts.sort_unstable();
        assert!(counts[..32].iter().all(|&count| count == 0) && counts[32] > 0);
        for (number, &count) in counts[32..].iter().enumerate() {
            let [least, greatest] = [number, number + 1].map(|n| 25.6 + 102.4 * n as f64 / 32.0);
            // Sorted, a mask that stays short of its target moves others only down.
            assert!(count as f64 <= greatest, "{count} is not up to {greatest}");
            missed += usize::from((count as f64) < least.floor());
            sum += count as f64;
        }
    }
    let masks = (32 * BATCHES) as f64;
    // Targets are uniform in [25.6, 128] but for rounding down; a few are not met in full.
    assert!((74.0..76.8).contains(&(sum / masks)), "{} patches on average", sum / masks);
    assert!((missed as f64) < 0.3 * masks, "{missed} of {masks} stay short");
    for (row, &count) in rows_masked.iter().enumerate() {
        let share = count as f64 / BATCHES as f64;
        assert!((share - 0.5).abs() < 4.0 * 0.5 / (BATCHES as f64).sqrt(), "row {row}: {share}");
    }
}

/// DINOv3's masks have the sizes that their ratios say, to the patch: 64 masks of 128 crops have
/// 4,941 patches.
#[test]
fn a_batch_of_dinov3_has_all_the_masks_that_it_asks_for() {
    let spec = MaskSpec { style: MaskStyle::Dinov3, ..spec(16) };
    let plan = MaskPlan::new(spec, &recipe(256, 256, 2)).expect("a plan");
    for step in 0..30 {
        let masks = plan.masks(key(step), 16);
        let mut counts = counts(&masks);
        counts.sort_unstable();
        let expected = (1..=16).map(|n| (256.0_f32 * (0.1 + 0.4 * n as f32 / 16.0)) as u64);
        assert!(counts[16..].iter().copied().eq(expected), "{counts:?}");
        assert_eq!(masks.indices().len() as u64, masks.upperbound());
    }
}

/// Masks as `tests/data/make_mask_hits.py` counted them, made by the released code itself.
#[derive(Deserialize)]
struct Hits {
    masks: u64,
    masked: u64,
    masked_of_batch: [u64; 2],
    upperbound: u64,
    /// Neighbours in a row that are both masked.
    pairs: u64,
    cells: Vec<u64>,
}

/// Means of batches, and how they scatter together.
struct Scatter {
    batches: f64,
    sums: Vec<f64>,
    /// Sums of products, below and on the diagonal.
    products: Vec<Vec<f64>>,
}

// === impl Scatter ===

impl Scatter {
    fn new(len: usize) -> Self {
        let products = (1..=len).map(|row| vec![0.0; row]).collect();
        Self { batches: 0.0, sums: vec![0.0; len], products }
    }

    fn add(&mut self, values: &[f64]) {
        self.batches += 1.0;
        for ((sum, row), &value) in self.sums.iter_mut().zip(&mut self.products).zip(values) {
            *sum += value;
            row.iter_mut().zip(values).for_each(|(product, other)| *product += value * other);
        }
    }

    /// Hotelling's T squared of the means of these batches and those of others: chi-squared over as many values, if both
    /// are drawn alike.
    fn squared(&self, means: &[f64], batches: f64) -> f64 {
        let n = self.batches;
        let mean = |at: usize| self.sums[at] / n;
        // The triangle L of the covariance L L', row by row, and with it L y = difference.
        let mut rows: Vec<Vec<f64>> = Vec::new();
        let mut squared = 0.0;
        let mut solved: Vec<f64> = Vec::new();
        for (at, products) in self.products.iter().enumerate() {
            let mut row: Vec<f64> = Vec::new();
            for (other, product) in products.iter().enumerate() {
                let covariance = (product - n * mean(at) * mean(other)) / (n - 1.0);
                let dot = |of: &[f64]| row.iter().zip(of).map(|(a, b)| a * b).sum::<f64>();
                let value = if other < at {
                    (covariance - dot(&rows[other])) / rows[other][other]
                } else {
                    (covariance - dot(&row)).sqrt()
                };
                row.push(value);
            }
            let known: f64 = row.iter().zip(&solved).map(|(a, b)| a * b).sum();
            let y = (mean(at) - means[at] - known) / row[at];
            squared += y * y;
            solved.push(y);
            rows.push(row);
        }
        squared / (1.0 / n + 1.0 / batches)
    }
}

/// 100,000 masks from other random numbers: the same sizes, places and shapes.
#[test]
fn masks_are_distributed_as_those_of_the_released_code() {
    let text = include_str!("data/mask_hits.json");
    let theirs: std::collections::BTreeMap<String, Hits> =
        serde_json::from_str(text).expect("hits");
    for (name, style) in [("dinov2", MaskStyle::Dinov2), ("dinov3", MaskStyle::Dinov3)] {
        let theirs = &theirs[name];
        let plan = MaskPlan::new(MaskSpec { style, ..spec(16) }, &recipe(256, 256, 2)).unwrap();
        // Without the last patch, which follows from the others where all batches have as many.
        let mut scatter = Scatter::new(255);
        let (mut pairs, mut masked) = (0_u64, Vec::new());
        let batches = theirs.masks / 16;
        for step in 0..batches {
            let masks = plan.masks(key(step), 16);
            assert_eq!(masks.upperbound(), theirs.upperbound, "{name}");
            let mut cells = [0.0; 256];
            masks.indices().iter().for_each(|&index| cells[index as usize % 256] += 1.0);
            scatter.add(&cells[..255]);
            let both = |row: &[u8]| row.windows(2).filter(|two| two == &[1, 1]).count() as u64;
            pairs += masks.cells().chunks_exact(16).map(both).sum::<u64>();
            masked.push(masks.indices().len() as u64);
        }
        if style == MaskStyle::Dinov3 {
            assert_eq!(theirs.masked_of_batch, [theirs.upperbound; 2]);
            assert!(masked.iter().all(|&count| count == theirs.upperbound));
        }
        // Means of a mask, in patches and in pairs of neighbours.
        let of_mask = |sum: u64| sum as f64 / theirs.masks as f64;
        let apart = |ours: u64, theirs: u64| (of_mask(ours) - of_mask(theirs)).abs();
        let total: u64 = masked.iter().sum();
        assert!(apart(total, theirs.masked) < 0.05, "{name}: {total} patches");
        assert!(apart(pairs, theirs.pairs) < 0.15, "{name}: {pairs} pairs");
        // Patches of a mask, and masks of a batch, hang together: so their covariance counts.
        let means: Vec<_> = theirs.cells.iter().map(|&hits| hits as f64 / batches as f64).collect();
        let squared = scatter.squared(&means, batches as f64);
        println!(
            "{name}: {:.2} and {:.2} patches of a mask, {:.2} and {:.2} pairs, chi-squared {squared:.0} of 255",
            of_mask(total),
            of_mask(theirs.masked),
            of_mask(pairs),
            of_mask(theirs.pairs),
        );
        // The mean, and four times the standard deviation, of chi-squared over 255. The covariance is an estimate, too.
        let estimated = (batches as f64 - 255.0) / (batches as f64 - 1.0);
        let most = 255.0 + 4.0 * (2.0 * 255.0_f64).sqrt();
        assert!(squared * estimated < most, "{name}: chi-squared {squared}");
    }
}

/// A rectangle may begin and end at the edges, but never spans the grid.
#[test]
fn every_patch_is_masked_and_edges_less_often() {
    let plan = plan(224, 16);
    let mut hits = vec![0_u32; 196];
    for step in 0..300 {
        let masks = plan.masks(key(step), 16);
        masks.indices().iter().for_each(|&index| hits[index as usize % 196] += 1);
    }
    let at = |y: usize, x: usize| f64::from(hits[y * 14 + x]);
    let corners = (at(0, 0) + at(0, 13) + at(13, 0) + at(13, 13)) / 4.0;
    let middle = (at(6, 6) + at(6, 7) + at(7, 6) + at(7, 7)) / 4.0;
    assert!(corners > 0.0 && middle > 1.5 * corners, "{corners} at corners, {middle} within");
    for (y, x) in [(0, 5), (3, 9), (1, 1)] {
        let mirrored = [at(y, x), at(13 - y, x), at(y, 13 - x), at(x, y)];
        let mean = mirrored.iter().sum::<f64>() / 4.0;
        assert!(
            mirrored.iter().all(|hits| (hits - mean).abs() < 5.0 * mean.sqrt()),
            "{mirrored:?}"
        );
    }
}

#[test]
fn masks_follow_from_the_batchs_coordinates() {
    let plan = plan(224, 14);
    let here = key(5);
    let masks = plan.masks(here, 8);
    assert_eq!(masks, plan.clone().masks(here, 8));
    let elsewhere = [
        MaskKey { seed: 8, ..here },
        MaskKey { epoch: 2, ..here },
        MaskKey { step: 6, ..here },
        MaskKey { rank: 0, ..here },
    ];
    for other in elsewhere {
        assert_ne!(masks, plan.masks(other, 8), "{other:?}");
    }
}

#[test]
fn a_spec_that_does_not_fit_is_refused_by_its_key() {
    type Change = fn(&mut MaskSpec);
    let refused = |change: Change, recipe: &Recipe| {
        let mut spec = spec(16);
        change(&mut spec);
        MaskPlan::new(spec, recipe).expect_err("a wrong value").to_string()
    };
    let dinov2 = recipe(224, 224, 2);
    let cases: [(Change, &str); 7] = [
        (|s| s.patch = 0, "masks.patch is 0: must be 1 or more"),
        (|s| s.patch = 15, "masks.patch is 15 of 224 x 224: must divide"),
        (|s| s.tensor = "crops".into(), "masks.tensor is `crops`: the recipe has no tensor"),
        (|s| s.sample_probability = 1.5, "masks.sample_probability is 1.5: must be from 0 to 1"),
        (|s| s.ratio_min = -0.1, "masks.ratio_min is -0.1"),
        (|s| s.ratio_max = f64::NAN, "masks.ratio_max is NaN"),
        (|s| s.ratio_min = 0.6, "masks.ratio_min is 0.6: must be at most masks.ratio_max"),
    ];
    for (change, message) in cases {
        let error = refused(change, &dinov2);
        assert!(error.starts_with(message), "{error}");
    }
    let of_locals = MaskSpec { tensor: "local_crops".into(), ..spec(1) };
    assert!(MaskPlan::new(of_locals, &dinov2).is_ok());
    let large = refused(|s| s.patch = 1, &recipe(512, 512, 2));
    assert!(large.contains("more than 65536 patches"), "{large}");
    let mut taken = recipe(224, 224, 2);
    taken.tensors[1].name = "masks_weight".into();
    let error = refused(|_| {}, &taken);
    assert!(error.contains("beside a tensor `masks_weight`"), "{error}");
}
