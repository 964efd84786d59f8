//! What fuzzing has found, and what it began with, replayed: `make fuzz` looks for more.

#[path = "../fuzz/door.rs"]
mod door;

use std::fs;
use std::path::Path;

#[test]
fn any_bytes_give_libjpegs_pixels_or_a_doubt() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/pixels");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert!(paths.len() >= 12, "too small a corpus");
    for path in paths {
        println!("{}", path.display());
        door::pixels(&fs::read(&path).expect("a file"));
    }
}
