//! `headwater plan` tells what a worker will do, without one.

use std::io::Read as _;
use std::process::Command;

use headwater_core::draw::ViewParams;
use headwater_core::op::{DrawnOp, Flipped};
use headwater_core::recipe::ResizePasses;
use headwater_core::{Dtype, Recipe};
use headwater_pixels::image::Planes;
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_receiver::{DatasetUse, Receiver, ReceiverConfig};
use headwater_render::decode::{DecodeLimits, Decoder};
use headwater_simd::Simd;
use serde_json::Value;

use crate::support;
use crate::support::fleet::Fleet;

const STEP: u64 = 3;

/// The lines of `headwater plan --json` of one rank.
fn planned(rank: u32, shards: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .current_dir(folder.path())
        .args(["plan", "--json", "--recipe", "imagenet-train", "--seed", "7"])
        .args(["--step", &STEP.to_string(), "--rank", &rank.to_string(), "--world-size", "2"])
        .args(["--batch", "16", "--set", "receiver.shuffle_block=2"])
        .args(["--set", "storage.index_dir=index", "--dataset", &format!("photos={shards}")])
        .output()
        .expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    assert!(output.status.success(), "{}", text(output.stderr));
    let lines = text(output.stdout);
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The view as the plan says it is made: cut, resized, perhaps mirrored; planes one by one.
fn view(key: &str, params: &ViewParams) -> Vec<u8> {
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let encoded = photo(key);
    let image = decoder.decode(&encoded).expect("a photograph");
    let geometry = Geometry {
        crop: params.crop,
        resized: params.resized,
        window: params.window,
        view: params.resized,
        passes: ResizePasses::default(),
        filter: params.filter,
    };
    let mirrored = match params.ops.as_slice() {
        [] => false,
        [DrawnOp::Flip(Flipped)] => true,
        other => panic!("imagenet-train has no {other:?}"),
    };
    let mut planes = Planes::new();
    Resizer::new(Simd::best()).resize(image, &geometry, mirrored, &mut planes);
    planes.planes().concat()
}

/// The photograph of a key, read from the shards by the `tar` crate.
fn photo(key: &str) -> Vec<u8> {
    for shard in 0..4 {
        let path = support::data(&format!("photos/photos-{shard:06}.tar"));
        let mut archive = tar::Archive::new(std::fs::File::open(path).expect("a shard"));
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").into_owned();
            if path.with_extension("").as_os_str() == key && path.extension().unwrap() != "cls" {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).expect("bytes");
                return bytes;
            }
        }
    }
    panic!("no photograph {key}");
}

#[test]
fn a_plan_holds_the_samples_and_the_crops_of_the_batch_that_comes() {
    let shards = support::data("photos/photos-{000000..000003}.tar").display().to_string();
    let mut fleet = Fleet::start(&shards, 1);
    let recipe = Recipe::preset("imagenet-train", Dtype::U8).expect("a preset");
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    for rank in 0..2 {
        let config = ReceiverConfig { rank, world_size: 2, ..fleet.config() };
        let receiver = Receiver::open(config, recipe.clone(), std::slice::from_ref(&dataset));
        let receiver = receiver.expect("a receiver");
        let next = || receiver.next_batch().expect("no fault").expect("a batch");
        (0..STEP).for_each(|_| drop(next()));
        let batch = next();
        let images = batch.tensor_bytes(&batch.layout().tensors()[0]).expect("on the host");
        let row_bytes = batch.layout().tensors()[0].row_bytes as usize;

        let plan = planned(rank, &shards);
        assert_eq!(plan.len(), batch.len());
        for (position, line) in plan.iter().enumerate() {
            let (sample, known) = (&batch.samples()[position], &batch.provenance()[position]);
            assert_eq!(line["key"], known.key.as_str());
            assert_eq!(line["label"], known.label);
            assert_eq!(line["index"], sample.index);
            assert!(
                line["shard"].as_str().expect("a name").contains(&format!("{:06}", sample.shard))
            );
            assert_eq!(line["position"], u64::from(rank) * 16 + position as u64);
            let params: ViewParams =
                serde_json::from_value(line["views"][0].clone()).expect("a view");
            let row = &images[position * row_bytes..][..row_bytes];
            assert!(view(&known.key, &params) == row, "{} is cut otherwise", known.key);
        }
    }
}

#[test]
fn a_plan_says_which_views_share_a_cut_and_what_was_done_to_the_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let shards = support::data("photos/photos-000001.tar");
    let options = "recipe.dinov3={share_color_jitter = true, gram_crops_size = 300, \
                   localcrops_subset_of_globalcrops = true}";
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .current_dir(folder.path())
        .args(["plan", "--recipe", "dinov3", "--step", "0", "--batch", "8", "--dataset"])
        .arg(format!("photos={}", shards.display()))
        .args(["--set", options, "--set", "storage.index_dir=index"])
        .output()
        .expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("whole image: jitter (") && text.contains("base 1: box "), "{text}");
    let view = "global_crops[1]: box 300x300 at (0, 0) of base 1 -> 256x256";
    assert!(text.contains(view), "{text}");
    let local = text.lines().find(|line| line.contains("local_crops[7]")).expect("a view");
    assert!(local.contains("of base 1 -> 300x300") && local.contains("cut at ("), "{local}");
    assert!(text.contains("gram_crops[0]: box 300x300 at (0, 0) of base 0 -> 300x300\n"));
}

#[test]
fn a_plan_names_what_stands_for_a_broken_sample() {
    let shard = support::data("bad/broken-jpeg.tar");
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .current_dir(folder.path())
        .args(["plan", "--json", "--step", "0", "--batch", "8", "--dataset"])
        .arg(format!("bad={}", shard.display()))
        .args(["--set", "storage.index_dir=index"])
        .output()
        .expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut replaced: Vec<(u64, u64)> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if let Some(used) = line["substitution"]["used_index"].as_u64() {
            replaced.push((line["index"].as_u64().expect("an index"), used));
            assert_ne!(line["substitution"]["reason"], "");
        }
    }
    replaced.sort_unstable();
    assert_eq!(replaced, [(3, 4), (5, 6), (7, 0)]);
}
