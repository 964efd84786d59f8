//! Every index beside what megatron-core computes: `certificate.json`, which `certify.py` writes.

use headwater_megatron_order::{
    Blend, BlendList, CorpusOrder, ListFault, Mixture, MixtureFault, Part, Pick, Split, Wanted,
};
use proptest::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};

const SEED: u32 = 1234;

fn certificate() -> Value {
    serde_json::from_str(include_str!("certificate.json")).unwrap()
}

fn cases(certificate: &Value, name: &str) -> Vec<Value> {
    let cases = certificate[name].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn sha256(values: impl Iterator<Item = u64>) -> String {
    let mut sha = Sha256::new();
    values.for_each(|value| sha.update(value.to_le_bytes()));
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The formulas of the script.
fn weights(kind: &str, corpora: u64) -> Vec<f64> {
    let one = |at: u64| match kind {
        "equal" => 1.0,
        "zipf" => 1.0 / (at + 1) as f64,
        "mixed" => (1 + at * 7919 % 1009) as f64,
        "uniform" => (1 + at * 2_654_435_761 % 4_294_967_296) as f64 / 4_294_967_296.0,
        other => panic!("{other}"),
    };
    (0..corpora).map(one).collect()
}

fn lengths(corpus: u64, documents: u64) -> Vec<u32> {
    (0..documents).map(|at| ((at * 7919 + corpus * 104_729) % 61) as u32).collect()
}

fn check_picks(case: &Value, picks: &[Pick]) {
    assert_eq!(sha256(picks.iter().map(|pick| pick.corpus.into())), case["index"], "{case}");
    assert_eq!(sha256(picks.iter().map(|pick| pick.sample)), case["sample"], "{case}");
}

/// What Megatron's `normalize` makes of weights, by the one door there is.
fn normalized(weights: &[f64]) -> Vec<f64> {
    let sum = headwater_megatron_order::pairwise_sum(weights);
    weights.iter().map(|weight| weight / sum).collect()
}

#[test]
fn blends_of_up_to_ten_thousand_corpora_are_megatrons() {
    let certificate = certificate();
    let steps = whole(&certificate["steps"]);
    for case in cases(&certificate, "blended") {
        let weights = weights(case["kind"].as_str().unwrap(), whole(&case["corpora"]));
        let blend = Blend::weighted(&normalized(&weights), steps);
        check_picks(&case, &blend.window(0..steps));
    }
}

#[test]
fn exhaustive_blends_are_megatrons() {
    for case in cases(&certificate(), "exhausted") {
        let sizes: Vec<u64> = (0..whole(&case["corpora"])).map(|at| 1 + at * 7919 % 211).collect();
        let blend = Blend::exhaustive(&sizes);
        check_picks(&case, &blend.window(0..u64::MAX));
        assert_eq!(blend.taken(), sizes);
    }
}

#[test]
fn windows_in_any_order_are_the_same_as_all_at_once() {
    for (kind, corpora) in [("uniform", 300), ("equal", 500), ("mixed", 9)] {
        let weights = normalized(&weights(kind, corpora));
        let steps = 20_000;
        let all = Blend::weighted(&weights, steps).window(0..steps);
        let blend = Blend::weighted(&weights, steps);
        // Each window from another place, more than are kept.
        for at in 0..700u64 {
            let begin = at * 7919 % steps;
            let end = (begin + at % 40).min(steps);
            assert_eq!(blend.window(begin..end), all[begin as usize..end as usize], "{begin}");
        }
        let mut counted = vec![0; corpora as usize];
        all.iter().for_each(|pick| counted[pick.corpus as usize] += 1);
        assert_eq!(blend.taken(), counted);
    }
}

#[test]
fn more_corpora_than_megatron_can_count_take_turns() {
    let corpora = 40_000u64;
    let blend = Blend::weighted(&vec![1.0 / corpora as f64; corpora as usize], 3 * corpora);
    let picks = blend.window(corpora - 1..corpora + 2);
    let told: Vec<_> = picks.iter().map(|pick| (pick.corpus, pick.sample)).collect();
    assert_eq!(told, [(39_999, 0), (0, 1), (1, 1)]);
}

/// Megatron's loop as it is written: all corpora that have samples left are compared at each step.
fn plain(corpora: &[(f64, u64)], steps: u64) -> Vec<Pick> {
    let mut taken = vec![0; corpora.len()];
    let mut picks = Vec::new();
    for step in 0..steps {
        let mut best = (f64::MIN, 0);
        for (at, &(weight, limit)) in corpora.iter().enumerate() {
            let behind = weight * (step.max(1) as f64) - taken[at] as f64;
            if taken[at] < limit && behind > best.0 {
                best = (behind, at);
            }
        }
        picks.push(Pick { corpus: best.1 as u32, sample: taken[best.1] });
        taken[best.1] += 1;
    }
    picks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_weights_give_what_the_plain_loop_gives(
        // Few values, so that some are equal, over many sizes of ten.
        each in proptest::collection::vec((1u32..40, 0i32..9), 1..700),
        steps in 1u64..6000,
    ) {
        let weight = |&(base, tens): &(u32, i32)| f64::from(base) / 10f64.powi(tens);
        let weights = normalized(&each.iter().map(weight).collect::<Vec<_>>());
        let all: Vec<_> = weights.iter().map(|&weight| (weight, u64::MAX)).collect();
        let blend = Blend::weighted(&weights, steps);
        prop_assert_eq!(blend.window(0..steps), plain(&all, steps));
    }

    #[test]
    fn any_sizes_give_what_the_plain_loop_gives(
        sizes in proptest::collection::vec(1u64..30, 1..400),
    ) {
        let total: u64 = sizes.iter().sum();
        let all: Vec<_> =
            sizes.iter().map(|&size| (size as f64 / total as f64, size)).collect();
        prop_assert_eq!(Blend::exhaustive(&sizes).window(0..total), plain(&all, total));
    }
}

fn order_of(case: &Value) -> (Mixture, Vec<CorpusOrder>) {
    let text = |name: &str| case[name].as_str().unwrap().to_owned();
    let split = Split::parse(&text("split")).unwrap();
    let part = [Part::Train, Part::Valid, Part::Test][whole(&case["part"]) as usize];
    let documents = case["corpora"].as_array().unwrap().iter().map(whole);
    let lengths: Vec<Vec<u32>> = (0..)
        .zip(documents)
        .map(|(corpus, documents)| {
            let part = part.of(&split, documents);
            lengths(corpus, documents)[part.start as usize..part.end as usize].to_vec()
        })
        .collect();
    let tokens = |lengths: &Vec<u32>| lengths.iter().map(|&n| u64::from(n)).sum::<u64>();
    let corpora: Vec<_> = lengths.iter().map(|each| (each.len() as u64, tokens(each))).collect();
    let weights = case["weights"].as_array();
    let weights = weights.map(|each| each.iter().map(|w| w.as_f64().unwrap()).collect::<Vec<_>>());
    let wanted = Wanted {
        samples: case["wanted"].as_u64(),
        sequence_length: whole(&case["length"]) as u32,
        extra_token: case["extra_token"].as_bool().unwrap(),
        surplus: 0.005,
    };
    let mixture = Mixture::new(&wanted, weights.as_deref(), &corpora).unwrap();
    let orders = mixture.sizes().iter().zip(lengths);
    let orders = orders.map(|(size, lengths)| CorpusOrder::new(*size, lengths, SEED)).collect();
    (mixture, orders)
}

/// Megatron's rows of the sample index: in which of the documents as they are read a sample begins, and where. One
/// without the extra token may begin at the end of the document before.
fn sample_index(order: &CorpusOrder, lengths: &[u32]) -> Vec<u64> {
    let size = order.size();
    let mut rows = vec![0, 0];
    let (mut at, mut before) = (0, 0);
    for sample in 1..=size.samples {
        let last = sample * size.sequence_length - (1 - size.extra);
        while before + u64::from(lengths[order.documents()[at] as usize]) <= last {
            before += u64::from(lengths[order.documents()[at] as usize]);
            at += 1;
        }
        rows.extend([at as u64, last - before + (1 - size.extra)]);
    }
    rows
}

#[test]
fn documents_samples_and_shuffles_are_megatrons() {
    for case in cases(&certificate(), "built") {
        let (mixture, orders) = order_of(&case);
        assert_eq!(mixture.samples(), whole(&case["samples"]), "{}", case["name"]);
        if case.get("index").is_some() {
            check_picks(&case, &mixture.window(0..mixture.samples()));
        }
        for (at, order) in orders.iter().enumerate() {
            let documents = order.documents().iter().map(|&document| document.into());
            assert_eq!(sha256(documents), case["document_index"][at], "{}", case["name"]);
            let shuffled = (0..order.size().samples).map(|sample| order.cut(sample));
            assert_eq!(sha256(shuffled), case["shuffle_index"][at], "{}", case["name"]);
            let documents = whole(&case["corpora"][at]);
            let split = Split::parse(case["split"].as_str().unwrap()).unwrap();
            let part = [Part::Train, Part::Valid, Part::Test][whole(&case["part"]) as usize];
            let begin = part.of(&split, documents).start as usize;
            let rows = sample_index(order, &lengths(at as u64, documents)[begin..]);
            assert_eq!(sha256(rows.into_iter()), case["sample_index"][at], "{}", case["name"]);
        }
    }
}

#[test]
fn the_tokens_of_all_samples_are_megatrons() {
    for case in cases(&certificate(), "built") {
        let (mixture, orders) = order_of(&case);
        let split = Split::parse(case["split"].as_str().unwrap()).unwrap();
        let part = [Part::Train, Part::Valid, Part::Test][whole(&case["part"]) as usize];
        let mut text = Vec::new();
        for Pick { corpus, sample } in mixture.window(0..mixture.samples()) {
            let documents = whole(&case["corpora"][corpus as usize]);
            let before = part.of(&split, documents).start as usize;
            let before: u64 = lengths(corpus.into(), documents)[..before]
                .iter()
                .map(|&tokens| u64::from(tokens))
                .sum();
            let order = &orders[corpus as usize];
            for piece in order.pieces(sample) {
                let begin = before + order.tokens_before(piece.document) + piece.offset;
                let token = |at: u64| (at * 31 + u64::from(corpus) * 1009) % 97;
                text.extend((begin..begin + piece.tokens).map(token));
            }
        }
        assert_eq!(sha256(text.into_iter()), case["text"], "{}", case["name"]);
    }
}

#[test]
fn lists_are_read_as_megatron_reads_them() {
    let parse = |text| BlendList::parse(text).map(|list| (list.prefixes, list.weights));
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(parse(" 0.3 a/b\n0.7 c "), Ok((names(&["a/b", "c"]), Some(vec![0.3, 0.7]))));
    assert_eq!(parse("a b"), Ok((names(&["a", "b"]), None)));
    assert_eq!(parse("a"), Ok((names(&["a"]), None)));
    // An odd number of words is prefixes, whatever they are.
    assert_eq!(parse("1 a 2"), Ok((names(&["1", "a", "2"]), None)));
    assert_eq!(parse("0.5 a b c"), Err(ListFault::Mixed { prefix: "c".to_owned() }));
    assert_eq!(parse("0.5 a web\n\n0.5 b web\n"), Err(ListFault::ThirdColumn));
    assert_eq!(parse("0.5 a web\n0.5 b web\n1 c books"), Err(ListFault::ThirdColumn));
    assert_eq!(parse("a b c\nd e f"), Ok((names(&["a", "b", "c", "d", "e", "f"]), None)));
    assert_eq!(parse("\n"), Err(ListFault::Empty));
    assert_eq!(parse("0 a 1 b"), Err(ListFault::Weight { prefix: "a".to_owned(), weight: 0.0 }));
    assert!(matches!(parse("nan a 1 b"), Err(ListFault::Weight { .. })));
}

#[test]
fn what_megatron_would_fail_on_is_refused() {
    let wanted = |samples| Wanted { samples, sequence_length: 16, extra_token: true, surplus: 0.0 };
    let mix = |samples, weights: &[f64], corpora: &[(u64, u64)]| {
        Mixture::new(&wanted(samples), Some(weights), corpora).map(|_| ())
    };
    assert_eq!(mix(None, &[1.0], &[(9, 900)]), Err(MixtureFault::NoSize));
    let short = MixtureFault::Short { corpus: 1, tokens: 0, documents: 0 };
    assert_eq!(mix(Some(9), &[1.0, 1.0], &[(9, 900), (0, 0)]), Err(short));
    assert_eq!(mix(Some(0), &[1.0], &[(9, 900)]), Err(MixtureFault::Samples { samples: 0 }));
    // Too many documents, too many samples, and tokens beyond 64 bits.
    for (samples, corpus) in
        [(1 << 40, (1 << 20, 1 << 22)), (1 << 34, (1, 1 << 10)), (1 << 40, (1, 1))]
    {
        let long = Wanted {
            sequence_length: if corpus.1 == 1 { 1 << 24 } else { 16 },
            ..wanted(Some(samples))
        };
        let fault = Mixture::new(&long, Some(&[1.0]), &[corpus]).map(|_| ());
        assert_eq!(fault, Err(MixtureFault::Long { corpus: 0, documents: corpus.0 }));
    }
    // Small shares are rounded up to whole samples, 13 in all, and half of them is more than the first corpus has.
    let (weights, corpora) =
        ([&[8.0][..], &[1.0; 8]].concat(), [&[(1, 81)][..], &[(1, 17); 8]].concat());
    match mix(Some(10), &weights, &corpora) {
        Err(MixtureFault::Oversampled { corpus: 0, samples: 5, taken: 6 | 7 }) => {}
        other => panic!("{other:?}"),
    }
    let more = [&[(1, 97)][..], &[(1, 17); 8]].concat();
    assert_eq!(mix(Some(10), &weights, &more), Ok(()));
    let by_size = Mixture::new(&wanted(None), None, &[(1, 17), (1, 33)]).unwrap();
    assert_eq!(by_size.samples(), 3);
}

#[test]
fn splits_are_shares() {
    let of = |split: &str| {
        let split = Split::parse(split).unwrap();
        [Part::Train, Part::Valid, Part::Test].map(|part| part.of(&split, 1000))
    };
    assert_eq!(of("969,30,1"), [0..969, 969..999, 999..1000]);
    assert_eq!(of("1"), [0..1000, 1000..1000, 1000..1000]);
    assert_eq!(of("0, 1"), [0..0, 0..1000, 1000..1000]);
    for split in ["", "a", "1,2,3,4", "-1,2", "0,0", "nan"] {
        let fault = Split::parse(split).unwrap_err().to_string();
        assert!(fault.contains("969,30,1"), "{fault}");
    }
}
