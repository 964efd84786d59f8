use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::*;
use crate::format::arrays::trial::{self, Held, Sample};
use crate::format::conformance;

type Files = Vec<(PathBuf, Vec<u8>)>;

/// What megatron-core makes of the corpora of [`corpus`].
fn certificate() -> Value {
    let file = "../libs/megatron-order/tests/certificate.json";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The files that `certify.py` writes for a corpus.
fn corpus(name: &str, number: u64, documents: u64) -> Files {
    let lengths: Vec<u32> =
        (0..documents).map(|at| ((at * 7919 + number * 104_729) % 61) as u32).collect();
    let tokens: u32 = lengths.iter().sum();
    let token = |at: u32| ((u64::from(at) * 31 + number * 1009) % 97) as u16;
    let bin = (0..tokens).flat_map(|at| token(at).to_le_bytes()).collect();
    let mut idx = b"MMIDIDX\0\0\x01\0\0\0\0\0\0\0\x08".to_vec();
    for count in [documents, documents + 1] {
        idx.extend(count.to_le_bytes());
    }
    lengths.iter().for_each(|length| idx.extend(length.to_le_bytes()));
    let mut begin = 0u64;
    for length in &lengths {
        idx.extend(begin.to_le_bytes());
        begin += 2 * u64::from(*length);
    }
    (0..=documents).for_each(|document| idx.extend(document.to_le_bytes()));
    vec![(format!("{name}.bin").into(), bin), (format!("{name}.idx").into(), idx)]
}

fn megatron(length: u64, options: Value) -> Megatron {
    let dataset = json!({"name": "d", "shards": ["d"], "sequence_length": length,
        "shard_samples": 100, "megatron": options});
    Megatron::new(&serde_json::from_value(dataset).unwrap()).unwrap().unwrap()
}

/// A list beside corpora of 40, 90 and 25 documents.
fn three(list: &str) -> Place {
    let mut files: Files = vec![("m/blend.txt".into(), list.as_bytes().to_vec())];
    for (number, documents) in [(0, 40), (1, 90), (2, 25)] {
        files.extend(corpus(&format!("m/c{number}"), number, documents));
    }
    Held::place_among("m/blend.txt", files)
}

fn text(sample: &Sample) -> Vec<u16> {
    let (_, bytes) = sample.1.iter().find(|(name, _)| name == "text").unwrap();
    bytes.chunks_exact(2).map(|token| u16::from_le_bytes([token[0], token[1]])).collect()
}

#[test]
fn samples_are_those_of_megatrons_dataset() {
    for case in certificate()["built"].as_array().unwrap() {
        let mut files = Files::new();
        let mut list = String::new();
        for (at, documents) in case["corpora"].as_array().unwrap().iter().enumerate() {
            let weight = case["weights"].get(at).map(|weight| format!("{weight} "));
            // Absolute in one, from the list's folder in the others.
            let name = if at == 1 { "/m/c1".to_owned() } else { format!("c{at}") };
            list += &format!("{}{name}\n", weight.unwrap_or_default());
            files.extend(corpus(&format!("/m/c{at}"), at as u64, documents.as_u64().unwrap()));
        }
        files.push(("/m/blend.txt".into(), list.into_bytes()));
        let only = case["weights"].is_null() && case["corpora"].as_array().unwrap().len() == 1;
        let place = Held::place_among(if only { "/m/c0.bin" } else { "/m/blend.txt" }, files);
        let part = ["train", "valid", "test"][case["part"].as_u64().unwrap() as usize];
        let options = json!({"samples": case["wanted"], "split": case["split"], "part": part,
            "extra_token": case["extra_token"]});
        let length = case["length"].as_u64().unwrap();
        let format = megatron(length, options);
        let samples = trial::samples(&format, &place).unwrap();
        assert_eq!(samples.len() as u64, case["samples"].as_u64().unwrap(), "{}", case["name"]);
        let mut sha = Sha256::new();
        for token in samples.iter().flat_map(text) {
            sha.update(u64::from(token).to_le_bytes());
        }
        let sha: String = sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sha, case["text"], "{}", case["name"]);
    }
}

#[test]
fn a_sample_says_which_corpus_it_is_of() {
    let format = megatron(16, json!({"samples": 200}));
    let samples = trial::samples(&format, &three("1 c0 2 c1 1 c2")).unwrap();
    let of = |number: &str| {
        let is = |sample: &&Sample| sample.1.contains(&("corpus".into(), number.into()));
        samples.iter().filter(is).count()
    };
    assert_eq!([of("0"), of("1"), of("2")], [50, 100, 50]);
    let (key, fields) = &samples[123];
    assert_eq!(key, "blend/00000123");
    let notes = [("text.dtype", "<u2"), ("text.shape", "17")];
    for (name, value) in notes {
        assert!(fields.contains(&(name.to_owned(), value.into())), "{fields:?}");
    }
}

#[test]
fn any_shard_can_be_the_first_that_is_opened() {
    let options = json!({"samples": 900});
    let place = three("0.3 c0 0.5 c1 0.2 c2");
    let whole = trial::samples(&megatron(16, options.clone()), &place).unwrap();
    let format = megatron(16, options.clone());
    let outlines = format.outlines(&place).unwrap();
    for shard in [7, 2, 8, 0] {
        // Another process, which has not seen the place.
        let format = megatron(16, options.clone());
        let opened = format.open(&place, shard, outlines[0].version).unwrap();
        let begin = shard as usize * 100;
        let end = whole.len().min(begin + 100);
        assert_eq!(trial::unpacked(opened).unwrap(), whole[begin..end]);
    }
}

#[test]
fn it_keeps_the_contract_of_formats() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in corpus("a", 0, 12).into_iter().chain(corpus("b", 1, 9)) {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let list = folder.path().join("blend.txt");
    std::fs::write(&list, "2 a\n1 b\n").unwrap();
    let make = || -> Arc<dyn Format> { Arc::new(megatron(16, json!({"samples": 250}))) };
    conformance::check(&make, &Place::of_file(&list));
    let make = || -> Arc<dyn Format> { Arc::new(megatron(16, json!({}))) };
    conformance::check(&make, &Place::of_file(&folder.path().join("a.bin")));
}

#[test]
fn corpora_that_change_are_not_mixed_with_those_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, number| {
        for (name, bytes) in corpus(name, number, 30) {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
    };
    write("a", 0);
    write("b", 1);
    let list = folder.path().join("blend.txt");
    std::fs::write(&list, "a b").unwrap();
    let place = Place::of_file(&list);
    let format = megatron(16, json!({}));
    let version = format.outlines(&place).unwrap()[0].version;
    let read = |format: &Megatron| format.open(&place, 0, version).and_then(trial::unpacked);
    assert!(read(&format).is_ok());
    write("b", 5);
    for format in [&format, &megatron(16, json!({}))] {
        let error = read(format).unwrap_err();
        assert!(matches!(error, StorageError::ShardChanged { .. }), "{error}");
    }
    // With the files of the start again, but another list.
    write("b", 1);
    let version = format.outlines(&place).unwrap()[0].version;
    std::fs::write(&list, "b  a").unwrap();
    let error = format.open(&place, 0, version).unwrap_err();
    assert!(matches!(error, StorageError::ShardChanged { .. }), "{error}");
}

#[test]
fn what_cannot_be_mixed_says_why() {
    let refused = |list: &str, options: Value, words: &[&str]| {
        let error = megatron(16, options).outlines(&three(list)).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused("0.5 c0 0.5 c1", json!({}), &["blend.txt", "`samples`"]);
    refused("0.5 c0 c1 c2", json!({}), &["c2", "weight"]);
    refused("1 s3://b/c0", json!({"samples": 9}), &["s3://b/c0", "URL"]);
    refused("1 c9", json!({"samples": 9}), &["c9.bin"]);
    let test = json!({"samples": 9, "split": "99,1,0", "part": "test"});
    refused("1 c0 1 c1", test, &["corpus 0", "`c0`", "0 documents"]);
    let list = "c0 c1 c2";
    let files = [("m/c1.idx", "\x04"), ("m/c1.idx", "x")];
    for (file, code) in files {
        let mut place_files: Files = vec![("m/blend.txt".into(), list.as_bytes().to_vec())];
        for number in 0..3 {
            place_files.extend(corpus(&format!("m/c{number}"), number, 40));
        }
        let idx = place_files.iter_mut().find(|(name, _)| name.to_str() == Some(file)).unwrap();
        idx.1[17] = code.as_bytes()[0];
        let place = Held::place_among("m/blend.txt", place_files);
        let error = megatron(16, json!({})).outlines(&place).unwrap_err().to_string();
        assert!(error.contains("c1") && error.contains("type"), "{error}");
    }
}

#[test]
fn an_index_that_is_broken_in_its_middle_is_found_by_whoever_looks_for_damage() {
    let mut files: Files = vec![("m/blend.txt".into(), b"1 c0 1 c1".to_vec())];
    for number in 0..2 {
        files.extend(corpus(&format!("m/c{number}"), number, 40));
    }
    let damages = |files: &Files| {
        let place = Held::place_among("m/blend.txt", files.clone());
        let format = megatron(16, json!({"samples": 200}));
        let version = format.outlines(&place).unwrap()[0].version;
        [0, 1].map(|shard| format.verify(&place, shard, version).unwrap())
    };
    assert_eq!(damages(&files), [vec![], vec![]]);
    let idx = files.iter_mut().find(|(name, _)| name.to_str() == Some("m/c1.idx")).unwrap();
    // The length of the 20th document, which no reader of two offsets sees.
    idx.1[34 + 4 * 20] ^= 1;
    let [first, second] = damages(&files);
    assert!(first.len() == 1 && second.is_empty(), "{first:?} {second:?}");
    assert!(
        first[0].fault.contains("c1.idx") && first[0].fault.contains("sequence 21"),
        "{first:?}"
    );
}

#[test]
fn options_that_cannot_work_are_refused() {
    let dataset = |options: Value, length: Value| {
        let dataset = json!({"name": "d", "shards": ["d"], "sequence_length": length,
            "megatron": options});
        Megatron::new(&serde_json::from_value(dataset).unwrap()).unwrap_err().to_string()
    };
    assert!(dataset(json!({"split": "a"}), json!(16)).contains("969,30,1"));
    assert!(dataset(json!({"surplus": -1.0}), json!(16)).contains("`surplus`"));
    for length in [json!(null), json!(1)] {
        assert!(dataset(json!({}), length).contains("`sequence_length`"));
    }
}

#[test]
fn any_index_gives_samples_or_an_error() {
    let files = corpus("a", 0, 20);
    let idx = files[1].1.clone();
    let read = |bytes: Vec<u8>| {
        let place = Held::place_among("a.bin", vec![files[0].clone(), ("a.idx".into(), bytes)]);
        trial::samples(&megatron(16, json!({"split": "60,40,0"})), &place)
    };
    assert!(read(idx.clone()).unwrap().len() > 10);
    trial::mutate_with(&idx, 1, &read);
}
