//! `add`: the folders of a dataset that is begun.

use super::program::Place;

#[test]
fn the_folders_are_made_and_what_comes_next_is_said() {
    let place = Place::new();
    let said = place.printed(&["datasets", "add", "public", "rgb", "new-1.0", "train"]);
    let folder = place.in_hub("public/rgb/new-1.0/train", "");
    assert!(folder.is_dir());
    assert!(said.contains("datasets pack FOLDER --out") && said.contains("datasets index"));
    assert!(said.contains("--dataset hub:public/rgb/new-1.0/train"), "{said}");
    assert!(place.printed(&["datasets", "preview"]).contains("── new-1.0"));
}

#[test]
fn a_name_that_no_folder_of_the_hub_may_have_is_refused() {
    let place = Place::new();
    for (bad, level) in [("..", "name"), ("a/b", "name"), (".a", "name"), ("a b", "name")] {
        let args = ["datasets", "add", "public", "rgb", bad, "train"];
        place.refused(&args, &[level, &format!("`{bad}`"), "letters, digits"]);
    }
    place.refused(&["datasets", "add", "public", "rgb", "a", "*"], &["split `*`"]);
    assert!(!place.path("hub").exists());
}

#[test]
fn a_dataset_with_shards_is_not_begun_again() {
    let place = Place::with_photos();
    let args = ["datasets", "add", "public", "rgb", "photos", "train"];
    place.refused(&args, &["public/rgb/photos/train", "4 shards"]);
}
