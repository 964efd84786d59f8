//! What a training stops at, or leaves out, is what `validate` has named before: one table of bad files through
//! both.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::{Place, data};

/// How a training goes on such a file.
enum Training {
    /// Not at all: the storage node does not start, with the words that `validate` has.
    Refused,
    /// It ends with the words that `validate` has, at once.
    Ends,
    /// So many samples give way to others, as many as `validate` names.
    Goes(usize),
}

use Training::{Ends, Goes, Refused};

/// What to make of files of tests/data, the image field of arrays, what is said, and how a training goes.
type Row = (fn(&Path) -> PathBuf, &'static str, &'static str, Training);

const ROWS: &[Row] = &[
    (|_| data("bad/broken-jpeg.tar"), "", "000003", Goes(3)),
    (|_| data("bad/truncated.tar"), "", "is broken at byte 12288: `000002.jpg`", Refused),
    (|_| data("bad/no-image.tar"), "", "only `cls`", Refused),
    (|to| written(to, "a.tar", b"PK\x03\x04 and so on"), "", "it is a zip archive", Refused),
    (|to| written(to, "a.tar", b"\x1f\x8b\x08 and so on"), "", "is compressed (gzip)", Refused),
    (|to| written(to, "a.tar", b""), "", "is an empty file", Refused),
    (|to| written(to, "a.parquet", LFS), "", "a pointer of Git LFS", Refused),
    (
        |to| written(to, "a.csv", b"txt,n\na,1\n\xff,2\n"),
        "txt",
        "record 2: a value is not",
        Refused,
    ),
    (|to| written(to, "a.jsonl", b"{\"txt\": 1}\n{\"txt\": \n"), "txt", "record 2: EOF", Refused),
    (|to| cut(to, "arrays/npy/pixels.npy"), "bin", "4 rows of 108 bytes are to follow", Refused),
    (|to| changed(to, "arrays/hdf5/checked.h5", 616), "noise", "is broken", Refused),
    // What only reading shows.
    (|to| changed(to, "arrays/npz/deflated.npz", 200), "image", "`image.npy`: ", Ends),
    (|to| changed(to, "parquet/codecs.parquet", 200), "words", "of row group 0: no page", Ends),
    (
        |to| folder(to, "arrays/zarr/v3-checked.zarr", "c/0/0/0", 40),
        "bin",
        "chunk [0, 0, 0]: it does not have its checksum (CRC-32C)",
        Ends,
    ),
    (
        |to| folder(to, "mds/zstd", "shard.00001.mds.zstd", 60),
        "",
        "its sha1 is not that of index.json",
        Ends,
    ),
];

const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";

fn written(to: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = to.join(name);
    fs::write(&path, bytes).expect("a file");
    path
}

/// A copy of a file of tests/data/formats, as `change` leaves it.
fn copy(to: &Path, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let from = data("formats").join(file);
    let mut bytes = fs::read(&from).expect("a file of tests/data");
    change(&mut bytes);
    written(to, from.file_name().unwrap().to_str().unwrap(), &bytes)
}

/// The copy, with another byte.
fn changed(to: &Path, file: &str, at: usize) -> PathBuf {
    copy(to, file, |bytes| bytes[at] ^= 0xff)
}

/// The copy, without its last bytes.
fn cut(to: &Path, file: &str) -> PathBuf {
    copy(to, file, |bytes| bytes.truncate(bytes.len() - 10))
}

/// A copy of a folder in which one file has another byte.
fn folder(to: &Path, folder: &str, file: &str, at: usize) -> PathBuf {
    copy_below(&data("formats").join(folder), to);
    let mut bytes = fs::read(to.join(file)).expect("a file of the folder");
    bytes[at] ^= 0xff;
    fs::write(to.join(file), bytes).expect("a file");
    to.to_owned()
}

fn copy_below(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_below(&from, &to);
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }
}

#[test]
fn what_a_training_stops_at_is_named_before_it() {
    for (number, (make, field, words, training)) in ROWS.iter().enumerate() {
        let place = Place::new();
        // A folder's name says the format of what is in it.
        let files = place.path(if *field == "bin" { "files.zarr" } else { "files" });
        fs::create_dir(&files).expect("a folder");
        let dataset = format!("a={}", make(&files).display());
        let image_field = format!("receiver.image_field={field}");
        let mut settings = vec!["--dataset", &dataset];
        if !field.is_empty() {
            settings.extend(["--set", "recipe.preset=raw", "--set", "receiver.label_field="]);
            settings.extend(["--set", &image_field]);
        }
        let run = |verb: &[&str]| place.run(&[verb, &settings].concat());

        let validated = run(&["datasets", "validate"]);
        let said = validated.stdout + &validated.stderr;
        assert!(validated.code == Some(1) && said.contains(words), "row {number}: {said}");

        let trained = run(&["run", "--batch", "1", "--epochs", "1", "--links", "tcp"]);
        let failed = trained.stderr.lines().last().unwrap_or_default();
        let told = format!("row {number}: {}{}", trained.stdout, trained.stderr);
        match training {
            Refused | Ends => {
                assert!(trained.code == Some(1) && failed.contains(words), "{told}");
                // Without another attempt.
                let began = failed.contains("epoch 0 step ") && failed.contains(" failed 1 time");
                assert_eq!(began, matches!(training, Ends), "{told}");
            }
            Goes(bad) => {
                assert_eq!(trained.code, Some(0), "{told}");
                assert!(trained.stdout.contains(&format!("substituted: {bad} samples")), "{told}");
                assert!(said.contains(&format!(": {bad} samples and 0 shards broken")), "{said}");
            }
        }
    }
}
