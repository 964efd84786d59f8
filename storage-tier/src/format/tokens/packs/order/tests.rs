use proptest::prelude::*;

use super::*;

fn config(budget: u32, window: u32, batch: Option<u32>, ranks: Option<u32>) -> PackConfig {
    let json = serde_json::json!({"budget": budget, "window": window, "epochs": 3, "seed": 7,
        "sequences_max": 9, "batch": batch, "ranks": ranks});
    serde_json::from_value(json).unwrap()
}

fn sequences(lengths: &[u32]) -> Sequences {
    let mut sequences = Sequences::default();
    lengths.iter().for_each(|&length| sequences.push(length));
    sequences
}

fn order(lengths: &[u32], config: &PackConfig) -> PackOrder {
    PackOrder::new(sequences(lengths), config, 2).unwrap()
}

/// Lengths as texts have them: most are short, and some reach the end of the room.
fn of_texts(count: usize, budget: u32) -> Vec<u32> {
    let key = DrawKey { seed: 3, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 };
    let mut rng = key.rng();
    let length = |_| {
        // The sum of twelve is nearly normal.
        let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        ((600.0 * normal.exp()) as u32).clamp(1, budget)
    };
    (0..count).map(length).collect()
}

#[test]
fn packs_are_full_and_ranks_have_equal_loads() {
    let lengths = of_texts(30_000, 8192);
    let order = order(
        &lengths,
        &PackConfig { sequences_max: 256, ..config(8192, 4096, Some(64), Some(8)) },
    );
    assert!(order.len() > 5_000, "{}", order.len());
    assert!(order.padding() < 0.002, "{}", order.padding());
    let worst = order.worst_load(u64::MAX);
    assert!(worst < 1.03, "{worst}");
    // As they come they are far from even.
    let undealt = PackOrder {
        config: PackConfig { batch: None, ranks: None, ..order.config.clone() },
        ..order
    };
    let packs = undealt.packs(0..3200);
    let worst = packs.chunks(64).map(|step| {
        let loads: Vec<u64> =
            step.chunks(8).map(|packs| packs.iter().map(|pack| undealt.load(pack)).sum()).collect();
        *loads.iter().max().unwrap() as f64 * 8.0 / loads.iter().sum::<u64>() as f64
    });
    assert!(worst.fold(0.0, f64::max) > 1.2);
}

#[test]
fn packs_are_those_of_the_first_release_that_had_them() {
    // Whoever changes these changes the batches of runs that go on: name the digest of packs anew with them.
    let lengths: Vec<u32> = (0..500).map(|at| (at * 7919) % 41).collect();
    let digest = |by: &str, ranks: Option<u32>| {
        let mut config = config(64, 32, ranks.map(|_| 12), ranks);
        config.by = serde_json::from_value(by.into()).unwrap();
        let order = order(&lengths, &config);
        let mut digester = Digester::new("packs");
        for pack in order.packs(0..order.len()) {
            digester.number(pack.len() as u64);
            pack.into_iter().for_each(|number| {
                digester.number(number);
            });
        }
        digester.finish().to_string()
    };
    let found = [digest("best_fit", None), digest("next_fit", None), digest("best_fit", Some(4))];
    let expected = [
        "af39ab3d4fba59dfc440cab44f46e7dc",
        "158c4547da197b8ac561c8926bd75334",
        "bf1e5cb41291b1550bc3cb1f1b96d21e",
    ];
    assert_eq!(found, expected);
}

#[test]
fn tokens_before_a_sequence_are_counted_from_the_nearest_mark() {
    let lengths: Vec<u32> = (0..300).map(|at| at % 11).collect();
    let sequences = sequences(&lengths);
    let mut before = 0;
    for (number, &length) in lengths.iter().enumerate() {
        assert_eq!(sequences.tokens_before(number as u64), before);
        before += u64::from(length);
    }
    assert_eq!(sequences.tokens_before(300), before);
    // Where the number after the last one would have a mark.
    let whole = super::tests::sequences(&[2; 128]);
    assert_eq!([whole.tokens_before(128), whole.tokens_before(64)], [256, 128]);
}

proptest! {
    #[test]
    fn an_epoch_has_each_sequence_once_and_any_places_are_the_same_packs(
        lengths in prop::collection::vec(0_u32..=40, 1..300),
        window in 1_u32..60,
        batch in prop::sample::select(vec![None, Some((6, None)), Some((6, Some(1))), Some((6, Some(3))), Some((4, Some(4)))]),
        cut in any::<prop::sample::Index>(),
    ) {
        let (batch, ranks) = batch.map_or((None, None), |(batch, ranks)| (Some(batch), ranks));
        let config = config(40, window, batch, ranks);
        let order = order(&lengths, &config);
        // The definition: all epochs, window after window.
        let windows = lengths.len().div_ceil(window as usize);
        let mut all: Vec<Pack> = Vec::new();
        for window in 0..3 * windows as u64 {
            all.extend(order.window(window));
        }
        let of_epoch = |epoch: usize| {
            let windows = (epoch * windows) as u64..((epoch + 1) * windows) as u64;
            windows.flat_map(|window| order.window(window)).flatten().collect::<Vec<u64>>()
        };
        let expected: Vec<u64> =
            (0..lengths.len() as u64).filter(|&number| lengths[number as usize] > 0).collect();
        for epoch in 0..3 {
            let mut found = of_epoch(epoch);
            found.sort_unstable();
            prop_assert_eq!(&found, &expected);
        }
        if expected.len() > 100 {
            prop_assert_ne!(of_epoch(0), of_epoch(1));
        }
        let batch = batch.unwrap_or(1) as usize;
        all.truncate(all.len() / batch * batch);
        prop_assert_eq!(order.len(), all.len() as u64);
        let whole = order.packs(0..order.len());
        for (step, dealt) in all.chunks(batch).zip(whole.chunks(batch)) {
            let sorted = |packs: &[Pack]| {
                let mut packs = packs.to_vec();
                packs.sort();
                packs
            };
            prop_assert_eq!(sorted(step), sorted(dealt), "a step has its packs");
        }
        if !all.is_empty() {
            let cut = cut.index(all.len());
            let parts = [order.packs(0..cut as u64), order.packs(cut as u64..all.len() as u64)];
            prop_assert_eq!(parts.concat(), whole);
        }
    }
}
