//! The photographs of `tests/data`.

use std::io::Read;
use std::path::Path;

/// All of them, in order of shards and members.
pub(crate) fn all() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/photos");
    let mut photos = Vec::new();
    for shard in 0..4 {
        let path = folder.join(format!("photos-{shard:06}.tar"));
        let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for entry in tar::Archive::new(file).entries().expect("a tar") {
            let mut entry = entry.expect("an entry");
            if entry.path().is_ok_and(|path| path.extension().is_some_and(|e| e == "jpg")) {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).expect("a member");
                photos.push(bytes);
            }
        }
    }
    assert_eq!(photos.len(), 256, "photographs in {}", folder.display());
    photos
}
