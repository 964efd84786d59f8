use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::format::arrays::trial::{self, Held, Sample};
use crate::format::conformance;

type Files = Vec<(PathBuf, Vec<u8>)>;

/// A corpus of sequences with these lengths; each token says its corpus, its sequence and its place.
fn corpus(name: &str, number: u32, lengths: &[u32]) -> Files {
    let token = |sequence: usize, at: u32| (number << 28 | (sequence as u32) << 12 | at) as i32;
    let of = |(sequence, &length): (usize, &u32)| (0..length).map(move |at| token(sequence, at));
    let bin = lengths.iter().enumerate().flat_map(of).flat_map(i32::to_le_bytes).collect();
    let mut idx = b"MMIDIDX\0\0\x01\0\0\0\0\0\0\0\x04".to_vec();
    for count in [lengths.len(), lengths.len() + 1] {
        idx.extend((count as u64).to_le_bytes());
    }
    lengths.iter().for_each(|length| idx.extend(length.to_le_bytes()));
    let mut begin = 0u64;
    for length in lengths {
        idx.extend(begin.to_le_bytes());
        begin += 4 * u64::from(*length);
    }
    (0..=lengths.len() as u64).for_each(|document| idx.extend(document.to_le_bytes()));
    vec![(format!("{name}.bin").into(), bin), (format!("{name}.idx").into(), idx)]
}

fn dataset(options: Value) -> Result<Option<Packs>, StorageError> {
    let dataset = json!({"name": "d", "shards": ["d"], "shard_samples": 7, "pack": options});
    Packs::new(&serde_json::from_value(dataset).unwrap())
}

fn packs(options: Value) -> Packs {
    dataset(options).unwrap().unwrap()
}

fn lengths(number: u32) -> Vec<u32> {
    (0..60 + 30 * number).map(|at| (at * 7919 + number * 104_729) % 41).collect()
}

fn two(list: &str) -> Place {
    let mut files: Files = vec![("m/list.txt".into(), list.as_bytes().to_vec())];
    for number in 0..2 {
        files.extend(corpus(&format!("m/c{number}"), number, &lengths(number)));
    }
    Held::place_among("m/list.txt", files)
}

/// The sequences of a pack, as tokens.
fn sequences((_, fields): &Sample) -> Vec<Vec<i32>> {
    let [(name, bytes)] = &fields[..] else { panic!("{fields:?}") };
    assert_eq!(name, "pack");
    let words: Vec<i32> =
        bytes.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect();
    let (lengths, mut tokens) = words[1..].split_at(words[0] as usize);
    let take = |&length: &i32| {
        let (sequence, rest) = tokens.split_at(length as usize);
        tokens = rest;
        sequence.to_vec()
    };
    let sequences = lengths.iter().map(take).collect();
    assert!(tokens.is_empty());
    sequences
}

#[test]
fn each_epoch_has_all_sequences_whole_and_once() {
    let place = two("c0\nc1\n");
    let format = packs(json!({"budget": 64, "window": 32, "epochs": 2, "sequences_max": 5}));
    let samples = trial::samples(&format, &place).unwrap();
    assert_eq!(samples[8].0, "list/00000008");
    let mut seen: BTreeMap<Vec<i32>, u32> = BTreeMap::new();
    for sample in &samples {
        let sequences = sequences(sample);
        let tokens: usize = sequences.iter().map(Vec::len).sum();
        assert!((1..=64).contains(&tokens) && sequences.len() <= 5);
        sequences.into_iter().for_each(|sequence| *seen.entry(sequence).or_default() += 1);
    }
    let mut expected = BTreeMap::new();
    for number in 0..2u32 {
        for (sequence, length) in
            lengths(number).into_iter().enumerate().filter(|(_, length)| *length > 0)
        {
            let token = |at: u32| (number << 28 | (sequence as u32) << 12 | at) as i32;
            expected.insert((0..length).map(token).collect::<Vec<i32>>(), 2);
        }
    }
    assert_eq!(seen, expected);
}

#[test]
fn any_shard_can_be_the_first_that_is_opened() {
    let options = json!({"budget": 64, "window": 32, "epochs": 2, "batch": 4, "ranks": 2});
    let place = two("c0 c1");
    let whole = trial::samples(&packs(options.clone()), &place).unwrap();
    assert!(whole.len().is_multiple_of(4) && whole.len() > 30, "{}", whole.len());
    let version = packs(options.clone()).outlines(&place).unwrap()[0].version;
    for shard in [3, 1, 4, 0] {
        let begin = shard as usize * 7;
        let found =
            trial::unpacked(packs(options.clone()).open(&place, shard, version).unwrap()).unwrap();
        assert_eq!(found, whole[begin..begin + found.len()]);
    }
}

#[test]
fn long_sequences_are_refused_cut_or_left_out() {
    let place = two("c0 c1");
    let of = |long: &str| {
        let format = packs(json!({"budget": 32, "window": 32, "long": long}));
        Ok::<_, StorageError>(
            trial::samples(&format, &place)?.iter().flat_map(sequences).collect::<Vec<_>>(),
        )
    };
    let said = of("refuse").unwrap_err().to_string();
    assert!(
        said.contains("sequence") && said.contains("of `c0`") && said.contains("`long`"),
        "{said}"
    );
    let tokens = |sequences: &[Vec<i32>]| sequences.iter().map(Vec::len).sum::<usize>();
    let all: u32 = lengths(0).iter().chain(&lengths(1)).sum();
    let long: u32 = lengths(0).iter().chain(&lengths(1)).filter(|&&length| length > 32).sum();
    let (cut, dropped) = (of("cut").unwrap(), of("drop").unwrap());
    assert_eq!(tokens(&cut), all as usize);
    assert_eq!(tokens(&dropped), (all - long) as usize);
    // The second part of a sequence begins where the first ends.
    assert!(cut.iter().any(|sequence| sequence[0] & 0xfff == 32));
    assert!(cut.iter().all(|sequence| sequence.windows(2).all(|pair| pair[1] == pair[0] + 1)));
}

#[test]
fn what_cannot_be_packed_says_why() {
    for (options, said) in [
        (json!({"budget": 0}), "`budget` of `pack` is 0"),
        (json!({"budget": 8, "window": 0}), "`window` of `pack` is 0"),
        (json!({"budget": 8, "epochs": 0}), "`epochs` of `pack` is 0"),
        (json!({"budget": 8, "ranks": 2}), "`ranks` and no `batch`"),
        (json!({"budget": 8, "batch": 6, "ranks": 4}), "4, does not divide `batch`, 6"),
    ] {
        let error = dataset(options).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    for (list, options, said) in [
        ("1 c0 1 c1", json!({"budget": 64}), "prefixes only"),
        ("c0 c1", json!({"budget": 64, "batch": 1000}), "fewer than `batch`, 1000"),
    ] {
        let error = packs(options).outlines(&two(list)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let both = json!({"name": "d", "shards": ["d"], "sequence_length": 8, "pack": {"budget": 8}});
    let error = Packs::new(&serde_json::from_value(both).unwrap()).unwrap_err().to_string();
    assert!(error.contains("no `sequence_length`"), "{error}");
}

#[test]
fn the_digest_follows_from_every_key_and_length() {
    let digest = |place: &Place, options: Value| packs(options).outlines(place).unwrap()[0].digest;
    let place = two("c0 c1");
    let plain = json!({"budget": 64});
    let changed = [
        ("budget", json!(65)),
        ("window", json!(7)),
        ("by", json!("next_fit")),
        ("seed", json!(1)),
        ("epochs", json!(2)),
        ("long", json!("cut")),
        ("sequences_max", json!(9)),
        ("batch", json!(2)),
    ];
    let mut digests = vec![digest(&place, plain.clone()), digest(&two("c1 c0"), plain.clone())];
    for (key, value) in changed {
        let mut options = plain.clone();
        options[key] = value;
        digests.push(digest(&place, options));
    }
    digests.push(digest(&place, json!({"budget": 64, "batch": 2, "ranks": 2})));
    for (at, one) in digests.iter().enumerate() {
        assert!(!digests[..at].contains(one), "digest {at} came before");
    }
    assert_eq!(digests[0], digest(&place, plain));
}

#[test]
fn it_keeps_the_rules_of_formats() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..2 {
        for (name, bytes) in corpus(&format!("c{number}"), number, &lengths(number)) {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
    }
    let list = folder.path().join("list.txt");
    std::fs::write(&list, "c0 c1").unwrap();
    let make = || Arc::new(packs(json!({"budget": 64, "window": 32}))) as Arc<dyn Format>;
    conformance::check(&make, &Place::of_file(&list));
    conformance::check(&make, &Place::of_file(&folder.path().join("c0.bin")));
}
