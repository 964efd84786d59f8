//! Photographs to measure with.

use std::io::Read;
use std::path::Path;

/// The `.jpg` members of all tars in the folder that `HEADWATER_BENCH_PHOTOS` names; without it
/// nothing but a note.
pub(crate) fn read() -> Option<Vec<Vec<u8>>> {
    let Ok(folder) = std::env::var("HEADWATER_BENCH_PHOTOS") else {
        println!("set HEADWATER_BENCH_PHOTOS to a folder of tars with .jpg members");
        return None;
    };
    Some(photos(Path::new(&folder)))
}

fn photos(folder: &Path) -> Vec<Vec<u8>> {
    let mut tars: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tar"))
        .collect();
    tars.sort();
    let mut photos = Vec::new();
    for tar in tars {
        let mut archive = tar::Archive::new(std::fs::File::open(tar).expect("a tar"));
        for entry in archive.entries().expect("a tar") {
            let mut entry = entry.expect("an entry");
            let is_jpeg = entry.path().is_ok_and(|p| p.extension().is_some_and(|e| e == "jpg"));
            if is_jpeg {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).expect("a member");
                photos.push(bytes);
            }
        }
    }
    photos
}
