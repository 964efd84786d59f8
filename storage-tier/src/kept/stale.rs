//! Removes the oldest files of places that have many sets of filters, or that have changed often.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use headwater_own_files::own_uid;

/// Files of one place that stay: the ones that were written last.
const FILES_KEPT: usize = 8;
const DIGEST_DIGITS: usize = 32;

/// Removes all but the newest files of each place from the folder of one that was just written. Their names are `PLACE.DIGEST` and then
/// the ending. Files of other users stay, and all that has another name. What is removed is made again when it is needed.
pub(super) fn remove(just_written: &Path, ending: &str) {
    let Some(Ok(entries)) = just_written.parent().map(Path::read_dir) else { return };
    let mut places: HashMap<String, Vec<(SystemTime, PathBuf)>> = HashMap::new();
    for entry in entries.flatten() {
        if let Some((place, written)) = place_of(&entry, ending) {
            places.entry(place).or_default().push((written, entry.path()));
        }
    }
    for mut files in places.into_values() {
        // Of files with one time, not the one that is needed now.
        files.sort_unstable_by_key(|(written, path)| Reverse((path == just_written, *written)));
        for (_, path) in files.drain(..).skip(FILES_KEPT) {
            // Another node may have done so.
            let removed = std::fs::remove_file(&path);
            tracing::debug!(path = %path.display(), ?removed, "an old file with what filters leave");
        }
    }
}

/// Name of the place that a file of this user is about, and when it was written.
fn place_of(entry: &DirEntry, ending: &str) -> Option<(String, SystemTime)> {
    let name = entry.file_name().into_string().ok()?;
    let (place, digest) = name.strip_suffix(ending)?.rsplit_once('.')?;
    let is_digest = digest.len() == DIGEST_DIGITS
        && digest.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    // Follows no link.
    let found = entry.metadata().ok()?;
    let is_meant = is_digest && !place.is_empty() && found.is_file() && found.uid() == own_uid();
    is_meant.then_some((place.to_owned(), found.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_files_of_each_place_stay_and_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::new();
        let mut make = |name: String, age: u64, stays: bool| {
            let file = File::create(folder.path().join(&name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            if stays {
                expected.insert(name);
            }
        };
        for number in 0..12 {
            make(format!("a.tar.{number:032x}.hwfilter"), 1000 + number, number < 8);
            make(format!("b.tar.{number:032x}.hwidx"), 1000 + number, true);
            make(format!("a.tar.{number:031x}.hwfilter"), 1000 + number, true);
            make(format!("a.tar.{number:031x}G.hwfilter"), 1000 + number, true);
            make(format!("{number:032x}.hwfilter"), 1000 + number, true);
        }
        make(format!("c.tar.{:032x}.hwfilter", 0), 9000, true);
        let apart = folder.path().join("apart");
        std::fs::write(&apart, "").unwrap();
        std::os::unix::fs::symlink(
            &apart,
            folder.path().join(format!("a.tar.{:032x}.hwfilter", 99)),
        )
        .unwrap();
        remove(&folder.path().join("new"), ".hwfilter");
        expected.insert("apart".to_owned());
        expected.insert(format!("a.tar.{:032x}.hwfilter", 99));
        let left = folder.path().read_dir().unwrap();
        let left: BTreeSet<_> =
            left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(left, expected);
    }
}
