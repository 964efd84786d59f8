//! `pack`: a folder of images becomes shards, always the same ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::program::{Place, data, refused};
use super::tar_walk::{self, Member};

const CLASSES: [&str; 3] = ["bird", "cat", "dog"];

/// A folder `images` with JPEGs from the photo shards: key of the sample, class and bytes.
fn images(place: &Place) -> Vec<(String, usize, Vec<u8>)> {
    let members = tar_walk::members(&data("photos/photos-000003.tar")).into_iter();
    let jpegs = members.filter(|member| member.name.ends_with(".jpg"));
    let mut made = Vec::new();
    for (number, Member { name, data, .. }) in jpegs.enumerate() {
        let (class, stem) = (number % CLASSES.len(), name.trim_end_matches(".jpg"));
        let folder = place.path("images").join(CLASSES[class]);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{stem}.JPEG")), &data).unwrap();
        made.push((format!("{}/{stem}", CLASSES[class]), class, data));
    }
    made.sort();
    made
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap());
    let named = entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path())));
    named.map(|(name, bytes)| (name, bytes.expect("a file"))).collect()
}

#[test]
fn two_runs_give_equal_bytes_and_all_images_with_their_labels() {
    let place = Place::new();
    let images = images(&place);
    fs::write(place.path("images/cat/notes.txt"), "no image").unwrap();
    let args = ["datasets", "pack", "images", "--sorted", "--max-samples", "12", "--out"];
    let said = place.printed(&[&args[..], &["a"]].concat());
    assert!(said.contains("41 samples of 3 classes in 4 shards") && said.contains("notes.txt"));
    let slow = ["--set", "storage.readers=1"];
    place.printed(&[&slow[..], &args, &["b"]].concat());
    assert_eq!(files(&place.path("a")), files(&place.path("b")));

    let mut expected = Vec::new();
    for (key, class, jpg) in &images {
        expected.push((format!("{key}.cls"), class.to_string().into_bytes()));
        expected.push((format!("{key}.jpg"), jpg.clone()));
    }
    let mut found = Vec::new();
    for number in 0..4 {
        let shard = place.path(&format!("a/shard-{number:06}.tar"));
        assert_eq!(tar_walk::samples(&shard), [12, 12, 12, 5][number]);
        let idx = fs::read_to_string(shard.with_extension("idx")).unwrap();
        assert_eq!(idx, tar_walk::dali_idx(&shard));
        for Member { name, mode, uid, gid, mtime, data, .. } in tar_walk::members(&shard) {
            assert_eq!((mode, uid, gid, mtime), (0o644, 0, 0, 0), "{name}");
            found.push((name, data));
        }
    }
    assert!(found == expected);
    let classes = fs::read_to_string(place.path("a/classes.json")).unwrap();
    assert_eq!(serde_json::from_str::<Vec<String>>(&classes).unwrap(), CLASSES);
}

#[test]
fn shards_are_not_sorted_by_class_unless_that_is_asked_for() {
    let place = Place::new();
    images(&place);
    let order = |args: &[&str], out: &str| {
        place.printed(&[&["datasets", "pack", "images"], args, &["--out", out]].concat());
        let members = tar_walk::members(&place.path(&format!("{out}/shard-000000.tar")));
        members.into_iter().map(|member| member.name).collect::<Vec<_>>()
    };
    let (mixed, again, sorted) = (order(&[], "a"), order(&[], "b"), order(&["--sorted"], "c"));
    assert!(sorted.is_sorted() && !mixed.is_sorted());
    assert_eq!(mixed, again);
}

#[test]
fn a_file_name_cannot_act_on_the_terminal() {
    let place = Place::new();
    images(&place);
    fs::write(place.path("images/cat/\u{1b}[31mnotes.txt"), "no image").unwrap();
    let said = place.printed(&["datasets", "pack", "images", "--out", "out\u{7}"]);
    assert!(said.starts_with("left out: 1 file, ") && said.contains("/\\u{1b}[31mnotes.txt`\n"));
    assert!(said.contains("\nout\\u{7}: 41 samples of 3 classes in 1 shard, "), "{said:?}");
}

#[test]
fn system_tools_read_what_was_written() {
    let place = Place::new();
    let images = images(&place);
    place.printed(&["datasets", "pack", "images", "--sorted", "--out", "out"]);
    let tool = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(place.path("out")).output();
        let Ok(output) = output else {
            eprintln!("{program} is not installed: skipped");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    if let Some(listed) = tool("tar", &["-tf", "shard-000000.tar"]) {
        let names =
            images.iter().flat_map(|(key, ..)| [format!("{key}.cls"), format!("{key}.jpg")]);
        assert_eq!(listed.lines().collect::<Vec<_>>(), names.collect::<Vec<_>>());
    }
    tool("sha256sum", &["--check", "--strict", "--quiet", "SHA256SUMS"]);
}

#[test]
fn a_packed_split_is_indexed_valid_and_trained_on() {
    let place = Place::new();
    images(&place);
    let split = "public/rgb/mine/train";
    let out = place.in_hub(split, "").display().to_string();
    let args =
        ["datasets", "pack", "images", "--max-bytes", "400k", "--shuffle", "3", "--out", &out];
    place.printed(&args);
    let shards = files(Path::new(&out)).into_iter().filter(|(name, _)| name.ends_with(".tar"));
    let sizes: Vec<usize> = shards.map(|(_, bytes)| bytes.len()).collect();
    assert!(sizes.len() > 3 && sizes.iter().all(|size| *size <= 400_000), "{sizes:?}");
    let said = place.printed(&["datasets", "index"]);
    assert!(said.contains(": 0 written"), "{said}");
    let said = place.printed(&["datasets", "validate"]);
    assert!(said.contains(&format!("{} with a checksum: 0 samples and 0 shards", sizes.len())));
    let args = ["run", "--dataset", "hub:mine", "--batch", "41", "--recipe", "imagenet-eval"];
    let said = place.printed(&[&["--set", "storage.index_dir=index"], &args[..]].concat());
    assert!(said.contains("epoch 0: 41 samples in 1 batch, 41 distinct"), "{said}");
}

#[test]
fn labels_of_another_split_are_kept_to() {
    let place = Place::new();
    images(&place);
    place.printed(&["datasets", "pack", "images", "--out", "train"]);
    fs::remove_dir_all(place.path("images/bird")).unwrap();
    let args = ["datasets", "pack", "images", "--sorted", "--classes", "train/classes.json"];
    let args = [&args[..], &["--out", "val"]].concat();
    place.printed(&args);
    let members = tar_walk::members(&place.path("val/shard-000000.tar"));
    assert_eq!((members[0].name.starts_with("cat/"), &members[0].data[..]), (true, &b"1"[..]));
    assert_eq!(
        files(&place.path("val"))["classes.json"],
        files(&place.path("train"))["classes.json"]
    );
}

#[test]
fn a_run_that_is_cut_off_leaves_no_shard_and_the_next_one_is_whole() {
    let place = Place::new();
    fs::create_dir_all(place.path("images/a")).unwrap();
    for number in 0..1500 {
        fs::write(place.path(&format!("images/a/{number:04}.jpg")), [7; 2000]).unwrap();
    }
    let args = ["--set", "storage.readers=1", "datasets", "pack", "images", "--max-samples", "1"];
    let mut child = place.command(&[&args[..], &["--out", "out"]].concat()).spawn().unwrap();
    let begun = Instant::now();
    let hidden = || {
        let mut entries = fs::read_dir(place.path("out")).ok()?.map_while(Result::ok);
        entries.find(|entry| entry.file_name().to_string_lossy().starts_with(".headwater-pack"))
    };
    let has_half = || hidden().is_some_and(|at| at.path().join("shard-000001.tar").exists());
    while !has_half() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1, "only the hidden folder");

    fs::write(hidden().unwrap().path().join("left.tar"), "half").unwrap();
    let args = ["datasets", "pack", "images", "--out"];
    place.printed(&[&args[..], &["out"]].concat());
    place.printed(&[&args[..], &["other"]].concat());
    assert_eq!(files(&place.path("out")), files(&place.path("other")));
}

#[test]
fn what_cannot_be_packed_is_named() {
    let place = Place::new();
    images(&place);
    let pack = |args: &[&str], parts: &[&str]| {
        place.refused(&[&["datasets", "pack"], args].concat(), parts);
    };
    pack(&["absent", "--out", "out"], &["`absent`"]);
    pack(&["images", "--out", "images/new"], &["images/new", "another folder"]);
    pack(&["images", "--out", "out", "--max-bytes", "2k"], &["images/bird", "--max-bytes"]);
    fs::write(place.path("images/cat/empty.jpg"), "").unwrap();
    pack(&["images", "--out", "out"], &["cat/empty.jpg", "0 bytes"]);
    fs::remove_file(place.path("images/cat/empty.jpg")).unwrap();
    assert!(!place.path("out").exists());
    place.printed(&["datasets", "pack", "images", "--out", "out"]);
    let again = place.run(&["datasets", "pack", "images", "--out", "out"]);
    refused(&again, &["shard-000000.tar", "already"]);
}
