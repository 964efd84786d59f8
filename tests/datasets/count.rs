//! `count`: by whatever index there is, or none.

use std::fs;

use super::program::{Place, TRAIN, VAL, data};
use super::tar_walk;

#[test]
fn text_binary_and_no_index_give_what_a_walk_of_the_archive_gives() {
    let place = Place::new();
    for number in 0..4 {
        let split = format!("public/rgb/photos/s{number}");
        let shard = place.put(&split, &format!("photos/photos-{number:06}.tar"));
        if number % 2 == 0 {
            place.put(&split, &format!("photos/photos-{number:06}.idx"));
        }
        let line = format!("{} {split}\n", tar_walk::samples(&shard));
        assert_eq!(place.printed(&["datasets", "count", &format!("photos/s{number}")]), line);
    }
    let total: u64 =
        fs::read_to_string(data("photos/manifest.csv")).unwrap().lines().count() as u64;
    let printed = place.printed(&["datasets", "count", "photos"]);
    assert_eq!(printed.lines().last(), Some(format!("{} total", total - 1).as_str()));
}

#[test]
fn an_index_of_an_earlier_state_is_not_counted_by() {
    let place = Place::with_photos();
    let idx = place.in_hub(TRAIN, "photos-000001.idx");
    fs::copy(data("photos/photos-000000.idx"), idx).unwrap();
    assert_eq!(place.printed(&["datasets", "count", "photos"]), format!("256 {TRAIN}\n"));
}

#[test]
fn a_name_that_several_have_is_refused_with_all_of_them() {
    let place = Place::with_photos();
    let other = "secret/ir/photos/train";
    place.put(other, "photos/photos-000003.tar");
    place.put(VAL, "photos/photos-000003.tar");
    place.refused(&["datasets", "count", "photos"], &["`photos`", TRAIN, VAL, other]);
    place.refused(&["datasets", "count", "photos/train"], &["`photos/train`", TRAIN, other]);
    assert_eq!(place.printed(&["datasets", "count", other]), format!("41 {other}\n"));
    let of_one = place.printed(&["datasets", "count", "public/rgb/photos"]);
    assert_eq!(of_one, format!("256 {TRAIN}\n 41 {VAL}\n297 total\n"));
    place.refused(&["datasets", "count", "phots"], &["`phots`", TRAIN, other]);
    assert_eq!(place.run(&["datasets", "count", "../photos"]).code, Some(2));
}
