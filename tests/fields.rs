//! Fields of a sample beside its image and its label, through three tiers of real processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use headwater_core::{Digest, Recipe};
use headwater_receiver::{Batch, DatasetUse, Receiver, ReceiverConfig, ReceiverError};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support;
use crate::support::everything::{self, recipe};
use crate::support::fleet::Fleet;
use crate::support::trainer::CALM_HEARTBEAT_MS;

fn open(config: &ReceiverConfig, recipe: Recipe) -> Result<Receiver, ReceiverError> {
    let mut config = ReceiverConfig { batch_samples: 5, ..config.clone() };
    config.window.part_samples = 2;
    Receiver::open(config, recipe, &[DatasetUse { name: "photos".into(), weight: None }])
}

/// Nodes over the shard of fields; workers that have its tokenizer.
fn fleet(workers: usize) -> Fleet {
    everything::fleet(workers, "")
}

fn digests(receiver: &Receiver) -> Vec<(u64, Digest)> {
    let batches = std::iter::from_fn(|| receiver.next_batch().expect("a batch"));
    batches.map(|batch| (batch.step(), batch.digest().expect("on the host"))).collect()
}

fn rows(batch: &Batch, name: &str) -> Vec<Vec<u8>> {
    let tensor = batch.tensor(name).unwrap_or_else(|| panic!("a tensor `{name}`"));
    let bytes = batch.tensor_bytes(tensor).expect("on the host");
    bytes.chunks(tensor.row_bytes as usize).map(<[u8]>::to_vec).collect()
}

/// Each sample has the values that numpy, Python's json and the package `tokenizers` made of it.
fn check(batch: &Batch, expected: &BTreeMap<String, (usize, Value)>, tokens: &Value) {
    let of = |name: &str| rows(batch, name);
    let caption = batch
        .packed(&recipe().fields[3])
        .expect("on the host")
        .expect("a field that differs in size");
    for (at, sample) in batch.provenance().iter().enumerate() {
        let (number, expected) = &expected[&sample.key];
        let count = expected["count"].as_i64().expect("a number");
        assert_eq!(of("count")[at], count.to_le_bytes());
        let score = expected["score64"].as_f64().expect("a number");
        assert_eq!(of("exact")[at], score.to_le_bytes());
        assert_eq!(of("score")[at], (score as f32).to_le_bytes());
        let (start, end) = (caption.offsets[at] as usize, caption.offsets[at + 1] as usize);
        let text = expected["caption"].as_str().expect("a text");
        assert_eq!(&caption.data[start..end], text.as_bytes());
        let ids: Vec<u8> = tokens[number][0]
            .as_array()
            .expect("ids")
            .iter()
            .flat_map(|id| id.as_i64().expect("a number").to_le_bytes())
            .collect();
        assert_eq!(of("ids")[at], ids);
        let tags: Vec<u8> = serde_json::from_value(expected["tags"].clone()).expect("tags");
        assert_eq!(of("tags")[at], tags);
    }
}

#[test]
fn fields_are_the_same_for_other_workers_a_killed_one_and_after_a_resume() {
    let mut fleet = fleet(3);
    let text = std::fs::read_to_string(support::data("fields/expected.json")).expect("a file");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    let samples = expected["samples"].as_array().expect("samples").iter().cloned().enumerate();
    let by_key = |(number, sample): (usize, Value)| {
        (sample["key"].as_str().expect("a key").to_owned(), (number, sample))
    };
    let samples: BTreeMap<_, _> = samples.map(by_key).collect();

    let all = fleet.config();
    let one = ReceiverConfig { workers: all.workers[..1].to_vec(), ..all.clone() };
    let alone = open(&one, recipe()).expect("a receiver");
    let mut reference = Vec::new();
    let mut middle = None;
    while let Some(batch) = alone.next_batch().expect("a batch") {
        check(&batch, &samples, &expected["tokens"]["bert"]);
        reference.push((batch.step(), batch.digest().expect("on the host")));
        drop(batch);
        if reference.len() == 2 {
            middle = Some(alone.state().expect("a state"));
        }
    }
    assert_eq!(reference.len(), everything::SAMPLES / 5);

    let three = open(&all, recipe()).expect("a receiver");
    let first = three.next_batch().expect("a batch").expect("one at least");
    assert_eq!(first.digest().expect("on the host"), reference[0].1);
    drop(first);
    fleet.worker(1).kill();
    assert_eq!(digests(&three), reference[1..], "one of three workers was killed");

    let other = ReceiverConfig { workers: all.workers[2..].to_vec(), ..all };
    let resumed = open(&other, recipe()).expect("a receiver");
    resumed.restore(middle.expect("a state"), Vec::new()).expect("the same recipe");
    assert_eq!(digests(&resumed), reference[2..], "resumed at another worker");
}

/// Each link, a part that is made twice because its worker stands still, and parts that two receivers share.
#[test]
fn links_hedges_and_shared_parts_bring_the_same_fields() {
    const SHARES: &str = "share_bytes = 67108864";
    let mut fleet = everything::fleet(1, SHARES);
    let still = fleet.add_worker(&everything::tokenizer());
    let all = fleet.config();
    let sharing = ReceiverConfig { workers: all.workers[..1].to_vec(), ..all.clone() };
    let over = |link: &str| {
        let job = format!("over {link}");
        ReceiverConfig { links: vec![link.into()], job, ..sharing.clone() }
    };
    let first = open(&over("tcp"), recipe()).expect("a receiver");
    let mut digested = Vec::new();
    let mut boxes = 0;
    while let Some(batch) = first.next_batch().expect("a batch") {
        let counts = rows(&batch, "found_count");
        let counts = counts.iter().map(|count| i64::from_le_bytes(count[..].try_into().unwrap()));
        boxes += counts.sum::<i64>();
        // The second image is the first one, without the operations on colours: there are none.
        assert!(rows(&batch, "second") == rows(&batch, "images"));
        digested.push((batch.step(), batch.digest().expect("on the host")));
    }
    assert!(boxes > 0, "no view has a box");
    assert_eq!(digested.len(), everything::SAMPLES / 5);
    let second = open(&over("shm"), recipe()).expect("a receiver");
    assert_eq!(digests(&second), digested, "over shared memory");
    assert!(second.stats().parts_shared > 0, "parts of the first one");

    // Of two workers one stands still in mid-epoch, and nobody gives it up: others make its parts as well.
    let mut late = ReceiverConfig { job: "late".into(), epochs: 4, ..all };
    late.leases.heartbeat_ms = CALM_HEARTBEAT_MS;
    (late.leases.hedge_first_ms, late.leases.hedge_floor_ms) = (300, 100);
    late.window.slots_max = 32;
    let late = open(&late, recipe()).expect("a receiver");
    let first = late.next_batch().expect("a batch").expect("one at least");
    assert_eq!(first.digest().expect("on the host"), digested[0].1);
    drop(first);
    fleet.worker(still).signal(Signal::STOP);
    let begun = Instant::now();
    assert_eq!(digests(&late), digested[1..], "the rest of the epoch");
    let third = (0..3).map(|_| digests(&late).len()).collect::<Vec<_>>();
    assert_eq!(third, [digested.len(); 3], "epochs with a worker that answers nothing");
    assert!(begun.elapsed() < Duration::from_millis(CALM_HEARTBEAT_MS.into()), "it was given up");
}

#[test]
fn a_field_that_no_sample_has_is_refused_with_the_fields_there_are() {
    let mut fleet = fleet(1);
    let mut recipe = recipe();
    recipe.fields[3].field = "caption".to_owned();
    let said = open(&fleet.config(), recipe).err().expect("no receiver").to_string();
    assert!(said.contains("has a field `caption` (`caption` of the recipe)"), "{said}");
    assert!(said.contains("only `blob`, `box.npy`, `cls`"), "{said}");
}

#[test]
fn a_sample_whose_field_is_bad_is_replaced_and_says_why() {
    let mut fleet = fleet(1);
    let mut recipe = recipe();
    let text = json!({"name": "caption", "kind": "text", "field": "txt", "bytes_max": 40});
    recipe.fields = vec![serde_json::from_value(text).expect("a field")];
    let receiver = open(&fleet.config(), recipe).expect("a receiver");
    let mut replaced = 0;
    while let Some(batch) = receiver.next_batch().expect("a batch") {
        for sample in batch.provenance() {
            let Some(substitution) = &sample.substituted else { continue };
            let reason = &substitution.reason;
            assert!(
                reason.contains("field `caption`: it has") && reason.contains("more than 40"),
                "{reason}"
            );
            replaced += 1;
        }
        let sizes = rows(&batch, "caption_sizes");
        assert!(sizes.iter().all(|size| i64::from_le_bytes(size[..].try_into().unwrap()) <= 40));
    }
    assert!(replaced > 0);
}
