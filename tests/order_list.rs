//! Ranks that go through a list of samples, with real tiers.

use std::path::Path;
use std::process::Command;

use headwater_core::sampler::{Order, Term};
use headwater_core::{Dtype, Recipe};
use headwater_receiver::{Batch, DatasetUse, OrderConfig, Receiver, ReceiverConfig};
use serde_json::Value;

use crate::support;
use crate::support::fleet::Fleet;

/// Number of the first sample of each of the four shards, which have 80, 64, 71 and 41.
const FIRSTS: [u64; 4] = [0, 80, 144, 215];

/// One axis, or two, of `<i8`, as `numpy.save` writes them.
fn npy(path: &Path, shape: &str, numbers: &[u64]) {
    let header = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    let length = (header.len() as u16).to_le_bytes();
    let mut bytes = [b"\x93NUMPY\x01\0", &length[..], header.as_bytes()].concat();
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    std::fs::write(path, bytes).expect("a file");
}

fn open(config: ReceiverConfig) -> Receiver {
    let recipe = Recipe::preset("imagenet-train", Dtype::U8).expect("a preset");
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    Receiver::open(config, recipe, &[dataset]).expect("a receiver")
}

fn next(receiver: &Receiver) -> Batch {
    receiver.next_batch().expect("no fault").expect("a batch")
}

/// The numbers of a batch's samples, counted through the shards.
fn numbers(batch: &Batch) -> Vec<u64> {
    let samples = batch.samples().iter();
    samples.map(|sample| FIRSTS[sample.shard as usize] + u64::from(sample.index)).collect()
}

fn bytes(batch: &Batch) -> Vec<u8> {
    batch.tensor_bytes(&batch.layout().tensors()[0]).expect("on the host")
}

/// What `headwater plan --json` says of a step of rank 0 of two.
fn planned(shards: &str, list: &Path, step: u64) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .current_dir(folder.path())
        .args(["plan", "--json", "--recipe", "imagenet-train", "--seed", "7", "--batch", "5"])
        .args(["--rank", "0", "--world-size", "2", "--step", &step.to_string()])
        .args(["--set", "receiver.order=list", "--set", "storage.index_dir=index"])
        .args(["--set", &format!("receiver.order_list={}", list.display())])
        .args(["--dataset", &format!("photos={shards}")])
        .output()
        .expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    assert!(output.status.success(), "{}", text(output.stderr));
    let lines = text(output.stdout);
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn two_ranks_take_slices_of_the_list_and_one_rank_goes_on() {
    let shards = support::data("photos/photos-{000000..000003}.tar").display().to_string();
    let mut fleet = Fleet::start(&shards, 1);
    let list = fleet.dir().join("order.npy");
    // Two epochs: some samples of all shards, backwards, and one of them comes twice; then others.
    let first: Vec<u64> = std::iter::once(203).chain((0..35).rev().map(|n| n * 7)).collect();
    let second: Vec<u64> = (0..36).map(|n| n * 5).collect();
    npy(&list, "(2, 36)", &[first.clone(), second.clone()].concat());
    let config = ReceiverConfig {
        order: OrderConfig {
            order: Order::List,
            order_list: list.clone(),
            ..OrderConfig::default()
        },
        seed: 7,
        world_size: 2,
        batch_samples: 5,
        epochs: 2,
        ..fleet.config()
    };
    let ranks: Vec<Receiver> =
        (0..2).map(|rank| open(ReceiverConfig { rank, ..config.clone() })).collect();
    let (mut keys, mut states, mut pixels) = (Vec::new(), Vec::new(), Vec::new());
    for row in [&first, &second] {
        for step in 0..3 {
            states.push(ranks[0].state().expect("a state"));
            assert_eq!(ranks[1].state().expect("a state"), states[states.len() - 1]);
            let batches: Vec<Batch> = ranks.iter().map(next).collect();
            let taken: Vec<u64> = batches.iter().flat_map(numbers).collect();
            assert_eq!(taken, row[step * 10..][..10], "drop_last leaves six out");
            keys.push(batches[0].provenance().iter().map(|p| p.key.clone()).collect::<Vec<_>>());
            pixels.push(batches.iter().flat_map(bytes).collect::<Vec<u8>>());
        }
        for rank in &ranks {
            assert!(rank.next_batch().expect("no fault").is_none(), "the end of the epoch");
        }
    }
    let row_bytes = pixels[0].len() / 10;
    assert_eq!((first[0], first[6]), (203, 203));
    let again = &pixels[0][6 * row_bytes..][..row_bytes];
    assert!(pixels[0][..row_bytes] != *again, "a sample that comes again is cut otherwise");

    let plan = planned(&shards, &list, 2);
    let plan_keys: Vec<&str> =
        plan.iter().map(|line| line["key"].as_str().expect("a key")).collect();
    assert_eq!(plan_keys, keys[2]);
    assert_eq!(plan[0]["list"], states[0].list.expect("a list").to_string());

    // One rank of the same global batch goes on from the third step of the first epoch.
    let alone = open(ReceiverConfig { world_size: 1, batch_samples: 10, ..config.clone() });
    alone.restore(states[2].clone(), Vec::new()).expect("the same list");
    assert_eq!(bytes(&next(&alone)), pixels[2]);
    assert!(alone.next_batch().expect("no fault").is_none());
    assert_eq!(bytes(&next(&alone)), pixels[3]);
    let refused = alone.set_weight_by_name("photos", 2.0).expect_err("a list has no weights");
    assert!(refused.to_string().contains("do not go together"), "{refused}");

    // A list that has changed.
    npy(&list, "(36,)", &second);
    let changed = open(ReceiverConfig { batch_samples: 10, world_size: 1, ..config });
    let text =
        changed.restore(states[2].clone(), Vec::new()).expect_err("another list").to_string();
    assert!(text.contains("order-list is"), "{text}");
    assert!(text.contains(&states[2].list.expect("a list").to_string()), "{text}");
    changed.restore(states[2].clone(), vec![Term::OrderList]).expect("it is allowed");
    assert_eq!(numbers(&next(&changed)), second[20..30]);
}

#[test]
fn a_list_that_is_the_built_in_order_gives_the_same_pixels() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let built_in = ReceiverConfig { batch_samples: 16, ..fleet.config() };
    let receiver = open(built_in.clone());
    let batches: Vec<Batch> = (0..2).map(|_| next(&receiver)).collect();
    let text: String =
        batches.iter().flat_map(numbers).map(|number| format!("{number}\n")).collect();
    let order_list = fleet.dir().join("order.txt");
    std::fs::write(&order_list, text).expect("a file");
    let order = OrderConfig { order: Order::List, order_list, ..built_in.order };
    let listed = open(ReceiverConfig { order, ..built_in });
    for batch in &batches {
        let same = next(&listed);
        assert_eq!(same.digest().expect("on the host"), batch.digest().expect("on the host"));
        assert!(bytes(&same) == bytes(batch), "other pixels at step {}", batch.step());
    }
}
