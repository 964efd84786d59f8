//! A dataset of the hub wherever a dataset is named.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::program::{Place, TRAIN, VAL, refused};

/// One line per dataset, up to its digest.
fn listed(place: &Place, args: &[&str]) -> Vec<String> {
    let args = [&["--set", "storage.index_dir=index", "datasets", "list"], args].concat();
    place.printed(&args).lines().map(str::to_owned).collect()
}

#[test]
fn every_way_to_name_it_is_the_same_dataset() {
    let place = Place::with_photos();
    let pattern = place.in_hub(TRAIN, "*.tar").display().to_string();
    let by_path = listed(&place, &["--dataset", &format!("x={pattern}")]);
    assert!(by_path[0].starts_with("x: 4 shards, 256 samples"), "{by_path:?}");
    assert_eq!(listed(&place, &["--dataset", "x=hub:photos"]), by_path);
    for hub in ["photos", "photos/train", "public/rgb/photos", TRAIN] {
        let text = format!("[[dataset]]\nname = \"x\"\nhub = \"{hub}\"\n");
        fs::write(place.path("headwater.toml"), text).unwrap();
        assert_eq!(listed(&place, &[]), by_path, "{hub}");
    }
    // Without a name of its own it has its whole one, however it was written.
    let whole = listed(&place, &["--dataset", &format!("hub:{TRAIN}")]);
    assert!(whole[0].starts_with(&format!("{TRAIN}: 4 shards")), "{whole:?}");
    assert_eq!(listed(&place, &["--dataset", "hub:photos"]), whole);
    fs::write(place.path("headwater.toml"), format!("[[dataset]]\nhub = \"{TRAIN}\"\n")).unwrap();
    assert_eq!(listed(&place, &[]), whole);
}

#[test]
fn run_trains_on_it_in_one_process_and_in_several() {
    let place = Place::with_photos();
    let hash = |dataset: &str, more: &[&str]| {
        let args = [
            ["run", "--batch", "32", "--recipe", "imagenet-eval", "--dataset", dataset].as_slice(),
            &["--set", "storage.index_dir=index", "--set", "receiver.seed=7"],
            more,
        ]
        .concat();
        let printed = place.printed(&args);
        let line = printed.lines().find(|line| line.starts_with("epoch 0")).expect("an epoch");
        line.split("hash ").nth(1).expect("a hash").to_owned()
    };
    let pattern = format!("x={}", place.in_hub(TRAIN, "*.tar").display());
    let by_path = hash(&pattern, &[]);
    assert_eq!(hash("x=hub:photos", &[]), by_path);
    assert_eq!(hash("x=hub:photos", &["--processes"]), by_path);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let place = Place::with_photos();
    place.put(VAL, "photos/photos-000003.tar");
    place.printed(&["datasets", "add", "public", "rgb", "none", "train"]);
    let list = |dataset: &str, parts: &[&str]| {
        place.refused(&["datasets", "list", "--dataset", dataset], parts);
    };
    list("hub:photos", &["`photos`", TRAIN, VAL]);
    list("hub:photos/test", &["`photos/test`", TRAIN, VAL]);
    list("hub:none", &["no shards yet", "none/train"]);
    let both = "[[dataset]]\nname = \"x\"\nhub = \"photos/train\"\nshards = \"a.tar\"\n";
    fs::write(place.path("headwater.toml"), both).unwrap();
    place.refused(&["--check-config"], &["`x`", "leave one out"]);
    fs::write(place.path("headwater.toml"), "[[dataset]]\nname = \"x\"\n").unwrap();
    place.printed(&["--check-config"]);
    let node = ["storage", "--listen", "127.0.0.1:0"];
    place.refused(&node, &["`x` has no shards here", "`shards` or `hub`"]);
}

#[test]
fn who_reads_no_shards_needs_no_hub() {
    let place = Place::with_photos();
    let hub = place.path("hub").display().to_string();
    let node = ["storage", "--listen", "127.0.0.1:0", "--dataset", "hub:photos"];
    let own = std::process::id().to_string();
    let mut node = place.command(&[&["--die-with", &own], &node[..]].concat());
    let mut node = node
        .env("HEADWATER_DATASETS_ROOT", &hub)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let lines = BufReader::new(node.stdout.take().expect("a pipe")).lines();
    let mut listening = lines.map_while(Result::ok).filter_map(|line| {
        let (_, address) = line.split_once("listening on ")?;
        Some(address.split_whitespace().next()?.to_owned())
    });
    let address = listening.next().expect("a node that listens");

    let elsewhere = Place::new();
    let plan = ["plan", "--step", "0", "--batch", "4", "--storage", &address];
    let config = |text: &str| fs::write(elsewhere.path("headwater.toml"), text).unwrap();
    config(&format!("[[dataset]]\nhub = \"{TRAIN}\"\n"));
    assert!(elsewhere.printed(&["--check-config"]).contains("usable"));
    let planned = elsewhere.run(&plan);
    config("[[dataset]]\nhub = \"photos\"\n");
    let short = elsewhere.run(&plan);
    node.kill().expect("a node");
    node.wait().expect("a node");
    assert!(planned.stdout.contains("photos-00000"), "{}{}", planned.stdout, planned.stderr);
    refused(&short, &["no hub at"]);
}

#[test]
fn a_batch_is_planned_from_the_hub() {
    let place = Place::with_photos();
    let plan = |dataset: &str| {
        let args = ["--set", "storage.index_dir=index", "plan", "--step", "1", "--batch", "4"];
        place.printed(&[&args[..], &["--dataset", dataset]].concat())
    };
    let pattern = format!("x={}", place.in_hub(TRAIN, "*.tar").display());
    assert_eq!(plan("x=hub:photos"), plan(&pattern));
}

#[test]
fn shards_are_listed_where_they_are_asked_for() {
    let place = Place::with_photos();
    let lines = listed(&place, &["--dataset", "hub:photos", "--shards"]);
    let shards: Vec<&str> = lines[1..].iter().filter_map(|line| line.split(", ").next()).collect();
    let expected = [80, 64, 71, 41].into_iter().enumerate();
    let expected: Vec<String> =
        expected.map(|(at, n)| format!("  photos-{at:06}.tar: {n} samples")).collect();
    assert_eq!(shards, expected);
}

#[test]
fn a_hub_whose_path_would_be_taken_for_a_pattern_is_refused() {
    let place = Place::with_photos();
    fs::rename(place.path("hub"), place.path("hub[1]")).unwrap();
    let root = ["--set", "hub.root=hub[1]"];
    assert_eq!(
        place.printed(&[&root[..], &["datasets", "count", "photos"]].concat()),
        format!("256 {TRAIN}\n")
    );
    let list = [&root[..], &["datasets", "list", "--dataset", "hub:photos"]].concat();
    place.refused(&list, &["hub[1]", "another path"]);
}
