//! `index --entries`: entry points of JPEG images, for storage nodes to send with samples.

use std::fs;

use super::program::{Place, TRAIN, refused};

/// JPEG images of the four shards, and those of them that are no baseline ones: progressive.
const IMAGES: usize = 80 + 64 + 71 + 41;

fn file(place: &Place, number: u32) -> std::path::PathBuf {
    place.in_hub(TRAIN, &format!("photos-{number:06}.tar.hwentries"))
}

#[test]
fn entries_are_written_once_and_anew_for_a_shard_that_was_changed() {
    let place = Place::with_photos();
    let said = place.printed(&["datasets", "index", "photos", "--entries"]);
    let expected = format!("{TRAIN}: 4 written, 0 up to date; ");
    let rest = said.strip_prefix(&expected).unwrap_or_else(|| panic!("{said}"));
    let (with, rest) = rest.split_once(" of ").expect("counts");
    assert!(rest.starts_with(&format!("{IMAGES} JPEG images have entry points, in ")), "{said}");
    assert!((220..IMAGES).contains(&with.parse().unwrap()), "{said}");
    let written: Vec<Vec<u8>> =
        (0..4).map(|number| fs::read(file(&place, number)).unwrap()).collect();
    // DALI's are not touched.
    assert!(!place.in_hub(TRAIN, "photos-000001.idx").exists());

    let said = place.printed(&["datasets", "index", "photos", "--entries"]);
    assert_eq!(said, format!("{TRAIN}: 0 written, 4 up to date\n"));
    fs::write(file(&place, 0), &written[0][..written[0].len() - 1]).unwrap();
    place.put(TRAIN, "photos/photos-000001.tar");
    let said = place.printed(&["datasets", "index", "photos", "--entries"]);
    assert!(said.starts_with(&format!("{TRAIN}: 2 written, 2 up to date; ")), "{said}");
    assert_eq!(fs::read(file(&place, 0)).unwrap(), written[0]);
    // Of another state of the shard, whose images are the same.
    let again = fs::read(file(&place, 1)).unwrap();
    assert!(again[..64] != written[1][..64] && again[64..] == written[1][64..]);
    let said = place.printed(&["datasets", "index", "photos", "--entries", "--force"]);
    assert!(said.starts_with(&format!("{TRAIN}: 4 written, 0 up to date; {with} of")), "{said}");
}

#[test]
fn they_are_kept_in_the_folder_of_the_indices_where_that_is_configured() {
    let place = Place::with_photos();
    let folder = format!("storage.index_dir={}", place.path("index").display());
    place.printed(&["--set", &folder, "datasets", "index", "--entries"]);
    assert!(!file(&place, 0).exists());
    assert_eq!(fs::read_dir(place.path("index")).unwrap().count(), 4);
    // The folder is a file now.
    let folder = format!("storage.index_dir={}", file(&place, 0).display());
    fs::write(file(&place, 0), b"").unwrap();
    let args = ["--set", &folder, "datasets", "index", "--entries"];
    place.refused(&args, &["cannot be written to", "set `storage.index_dir` to another one"]);
}

#[test]
fn a_broken_shard_is_named_and_the_others_have_theirs() {
    let place = Place::with_photos();
    place.put(TRAIN, "bad/truncated.tar");
    let ended = place.run(&["datasets", "index", "--entries"]);
    assert!(ended.stdout.contains("truncated.tar") && ended.stdout.contains("4 written"));
    refused(&ended, &["broken and without entry points: 1 shard, named above"]);
}
