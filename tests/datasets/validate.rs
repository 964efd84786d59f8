//! `validate`: what is broken is named by shard, number, key and reason.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use super::program::{Ended, Place, TRAIN, VAL, data, refused};

/// One line of the result holds all of these.
#[track_caller]
fn tells(ended: &Ended, parts: &[&str]) {
    let found = ended.stdout.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(found, "{parts:?} in no line of\n{}", ended.stdout);
}

fn lines(ended: &Ended) -> usize {
    // All but the one with the sums.
    ended.stdout.lines().count() - 1
}

#[test]
fn good_shards_are_good() {
    let place = Place::with_photos();
    let said = place.printed(&["datasets", "validate"]);
    let end = "8.6 MB, 0 with a checksum: 0 samples and 0 shards broken\n";
    assert_eq!(said, format!("{TRAIN}: 256 samples in 4 shards, {end}"));
}

#[test]
fn images_that_cannot_be_decoded_are_named() {
    let place = Place::new();
    let shard = place.put(TRAIN, "bad/broken-jpeg.tar").display().to_string();
    let ended = place.run(&["datasets", "validate", "photos"]);
    // What is wrong is written down in tests/data/README.md; 6 is a PNG by another name.
    tells(&ended, &[&shard, "sample 3, `000003`: ", "truncated"]);
    tells(&ended, &[&shard, "sample 5, `000005`: ", "not an image"]);
    tells(&ended, &[&shard, "sample 7, `000007`: ", "65500x65500"]);
    assert_eq!(lines(&ended), 3, "{}", ended.stdout);
    refused(&ended, &["3 samples and 0 shards broken: the lines above name them"]);
}

#[test]
fn missing_images_and_labels_are_named() {
    let place = Place::new();
    place.put(TRAIN, "bad/no-image.tar");
    let ended = place.run(&["datasets", "validate"]);
    tells(
        &ended,
        &[
            "no-image.tar: sample 3, ",
            "no field `jpg|jpeg|png|webp|image|img|gif|bmp|tif|tiff|ppm|pgm|pbm`, only `cls`",
        ],
    );
    assert_eq!(lines(&ended), 4);

    let ended = place.run(&["--set", "receiver.label_field=json", "datasets", "validate"]);
    tells(&ended, &["no-image.tar: sample 0, ", "no field `json` with a label"]);
    assert_eq!(lines(&ended), 8);
    refused(&ended, &["4 samples and 0 shards"]);
}

#[test]
fn a_shard_that_breaks_off_is_named_and_its_whole_samples_are_read() {
    let place = Place::new();
    place.put(TRAIN, "bad/truncated.tar");
    let ended = place.run(&["datasets", "validate"]);
    tells(&ended, &["truncated.tar: ", "at byte 12288", "`000002.jpg`"]);
    tells(&ended, &["2 samples in 1 shard,"]);
    refused(&ended, &["0 samples and 1 shard broken: the lines above name them"]);
}

#[test]
fn a_damaged_header_is_found_by_its_checksum() {
    let place = Place::with_photos();
    let shard = place.in_hub(TRAIN, "photos-000003.tar");
    // Owner of the first member: nothing but the header's checksum covers it.
    File::options().write(true).open(&shard).unwrap().write_all_at(b"7", 110).unwrap();
    let ended = place.run(&["datasets", "validate"]);
    tells(&ended, &["photos-000003.tar: ", "byte 0", "checksum"]);
    refused(&ended, &["0 samples and 1 shard broken: the lines above name them"]);
}

#[test]
fn an_index_that_disagrees_with_its_shard_is_named_with_the_line() {
    let place = Place::with_photos();
    let idx = place.in_hub(TRAIN, "photos-000000.idx");
    let text = fs::read_to_string(&idx).unwrap();
    let (head, rest) = text.split_at(text.find("cls 512 ").unwrap());
    fs::write(&idx, format!("{head}{}", rest.replacen("cls 512 ", "cls 1024 ", 1))).unwrap();
    let ended = place.run(&["datasets", "validate"]);
    tells(&ended, &["photos-000000.tar: ", "photos-000000.idx", "line 2", "1024"]);
    refused(&ended, &["0 samples and 1 shard broken: the lines above name them"]);
}

#[test]
fn checksums_of_sha256sum_are_held_to() {
    let place = Place::with_photos();
    let folder = place.in_hub(TRAIN, "");
    let Ok(sums) = Command::new("sha256sum")
        .args((0..4).map(|number| format!("photos-{number:06}.tar")))
        .current_dir(&folder)
        .output()
    else {
        eprintln!("sha256sum is not installed: skipped");
        return;
    };
    let gone = "00".repeat(32) + "  gone.tar\n";
    fs::write(folder.join("SHA256SUMS"), &sums.stdout).unwrap();
    assert!(place.printed(&["datasets", "validate"]).contains("4 with a checksum"));

    // A byte of padding, which nothing else covers.
    let shard = place.in_hub(TRAIN, "photos-000002.tar");
    let end = fs::metadata(&shard).unwrap().len();
    File::options().write(true).open(&shard).unwrap().write_all_at(b"x", end - 1).unwrap();
    fs::write(folder.join("SHA256SUMS"), [&sums.stdout[..], gone.as_bytes()].concat()).unwrap();
    let ended = place.run(&["datasets", "validate"]);
    tells(&ended, &["photos-000002.tar: ", "its SHA-256 is "]);
    tells(&ended, &["gone.tar: ", "not there"]);
    refused(&ended, &["0 samples and 2 shards"]);
}

#[test]
fn only_what_is_named_is_read_and_configured_datasets_may_be() {
    let place = Place::with_photos();
    place.put(VAL, "bad/broken-jpeg.tar");
    assert!(place.printed(&["datasets", "validate", "photos/train"]).starts_with(TRAIN));
    let text =
        format!("[[dataset]]\nname = \"bad\"\nshards = '{}'\n", data("bad/no-image.tar").display());
    fs::write(place.path("headwater.toml"), text).unwrap();
    let ended = place.run(&["datasets", "validate", "--configured"]);
    tells(&ended, &["bad: 4 samples in 1 shard,"]);
}

/// A tar archive of these members.
fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, data) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Puts a shard of these bytes beside the others of `TRAIN`.
fn put(place: &Place, name: &str, bytes: &[u8]) -> String {
    let shard = place.in_hub(TRAIN, name);
    fs::create_dir_all(shard.parent().unwrap()).unwrap();
    fs::write(&shard, bytes).unwrap();
    shard.display().to_string()
}

#[test]
fn double_keys_and_shards_without_a_sample_are_told() {
    let place = Place::new();
    let members = [("a.cls", &b"1"[..]), ("b.cls", b"2"), ("a.cls", b"1"), ("a.txt", b"")];
    let doubled = put(&place, "doubled.tar", &tar(&members));
    let empty = put(&place, "empty.tar", &tar(&[("README", b"no sample")]));
    let ended = place.run(&["datasets", "validate"]);
    let has = |line: String| assert!(ended.stdout.lines().any(|l| l == line), "{}", ended.stdout);
    has(format!("{doubled}: has 2 samples with key `a`: keys must be unique in a shard"));
    has(format!("{empty}: holds no sample: members need a name KEY.FIELD, as in `000.jpg`"));
    refused(&ended, &["3 samples and 2 shards broken: the lines above name them"]);
}

#[test]
fn what_is_no_shard_at_all_is_told_with_the_remedy() {
    let place = Place::new();
    let gz = put(&place, "a.tar", b"\x1f\x8b\x08 and so on");
    let empty = put(&place, "b.tar", b"");
    let ended = place.run(&["datasets", "validate"]);
    let has = |line: String| assert!(ended.stdout.lines().any(|l| l == line), "{}", ended.stdout);
    has(format!(
        "{gz}: shard `{gz}` is compressed (gzip), so that its samples cannot be read one by one: \
         write it as a plain tar archive, as `gunzip {gz}` does"
    ));
    has(format!(
        "{empty}: shard `{empty}` is an empty file: fetch or write it again, or leave it out"
    ));
    let folder = place.in_hub(TRAIN, "").display().to_string();
    let folder = folder.trim_end_matches('/');
    let list = ["datasets", "list", "--dataset", &format!("x={folder}")];
    let said = format!(
        "`{folder}` cannot be served: no image lies in that folder: name the shards in it, as in \
         `{folder}/*.tar`"
    );
    place.refused(&list, &[&said]);
}

#[test]
fn a_field_with_dots_is_shown_and_explained() {
    let place = Place::new();
    let shard = put(&place, "dotted.tar", &tar(&[("a.b.jpg", b"x"), ("a.b.cls", b"1")]));
    let ended = place.run(&["--set", "receiver.label_field=", "datasets", "validate"]);
    let line = format!(
        "{shard}: sample 0, `a`: no field `jpg|jpeg|png|webp|image|img|gif|bmp|tif|tiff|ppm|pgm|pbm`, only `b.jpg`, `b.cls` (a field is all \
         that follows the first dot of a file's name)"
    );
    assert!(ended.stdout.lines().any(|l| l == line), "{}", ended.stdout);
}

#[test]
fn a_label_that_is_text_is_told_with_the_remedy() {
    let place = Place::new();
    put(&place, "text.tar", &tar(&[("a.cls", b"cat")]));
    let ended = place.run(&["datasets", "validate"]);
    tells(
        &ended,
        &["sample 0, `a`: label `cat` is not a whole number of 64 bits: write class numbers, as \
           `headwater datasets pack` does, or set receiver.label_field to another field, or to \
           \"\" for no labels"],
    );
}

#[test]
fn a_shards_file_name_cannot_act_on_the_terminal() {
    let place = Place::new();
    let shard = put(&place, "plain.tar", &tar(&[("a.cls", b"cat")]));
    let named = Path::new(&shard).with_file_name("\u{1b}[31mred\nforged.tar");
    fs::rename(&shard, named).unwrap();
    let ended = place.run(&["datasets", "validate"]);
    tells(&ended, &["/\\u{1b}[31mred\\u{a}forged.tar: sample 0, `a`: no field"]);
    let acts = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
    assert!(!acts(&ended.stdout) && !acts(&ended.stderr), "{:?}{:?}", ended.stdout, ended.stderr);
    assert!(!ended.stdout.lines().any(|line| line.starts_with("forged")), "{:?}", ended.stdout);
}

#[test]
fn names_in_a_shard_cannot_act_on_the_terminal() {
    let place = Place::new();
    let key = "\u{1b}[2Jgone\u{7}";
    let [no_image, apart] = [format!("{key}.cls"), format!("{key}.json")];
    put(&place, "named.tar", &tar(&[(&no_image, b"1"), ("b.cls", b"1"), (&no_image, b"2")]));
    put(&place, "other.tar", &tar(&[(&no_image, b"1"), ("b.cls", b"1"), (&apart, b"{}")]));
    let ended = place.run(&["datasets", "validate"]);
    tells(&ended, &["the members of sample `\\u{1b}[2Jgone\\u{7}` lie apart"]);
    tells(&ended, &["sample 0, `\\u{1b}[2Jgone\\u{7}`: no field"]);
    tells(&ended, &["has 2 samples with key `\\u{1b}[2Jgone\\u{7}`"]);
    let acts = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
    assert!(!acts(&ended.stdout) && !acts(&ended.stderr), "{}{}", ended.stdout, ended.stderr);
}
