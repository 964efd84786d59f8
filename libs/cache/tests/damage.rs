//! A file that is not what was written gives an error, never its bytes, and is filled anew.

use std::fs::{File, FileTimes, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use headwater_cache::{Cache, Cached, OpenError};

use crate::support::*;

const BYTES: u64 = 300_000;
const HEADER: u64 = 4096;

struct Entry {
    dir: tempfile::TempDir,
    cache: Cache,
    path: PathBuf,
}

/// A cache with entry 1.
fn entry() -> Entry {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&[(dir.path(), 8 * MIB)]);
    let path = ask(&cache, 1, BYTES).unwrap().path().to_owned();
    Entry { dir, cache, path }
}

fn writable(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

/// Changes a byte.
fn flip(path: &Path, at: u64) {
    let mut byte = [0];
    File::open(path).unwrap().read_exact_at(&mut byte, at).unwrap();
    writable(path).write_all_at(&[byte[0] ^ 0x40], at).unwrap();
}

/// Does something to a file and puts its time of change back, as a torn page of a drive has it.
fn unnoticed(path: &Path, change: impl FnOnce(&Path)) {
    let before = path.metadata().unwrap().modified().unwrap();
    change(path);
    writable(path).set_times(FileTimes::new().set_modified(before)).unwrap();
}

/// Moves all entries to a start of the machine before this one, and opens the cache again.
fn restart_machine(dir: &Path) -> Cache {
    let entries = user_folder(dir).join("entries");
    let before = entries.join("0123-before");
    let mut starts = std::fs::read_dir(&entries).unwrap().map(|start| start.unwrap().path());
    let current = starts.find(|start| *start != before).unwrap();
    // Everything in it was adopted.
    let _ = std::fs::remove_dir_all(&before);
    std::fs::rename(current, before).unwrap();
    open(&[(dir, 8 * MIB)])
}

#[test]
fn each_byte_of_the_header_and_of_the_meta_is_looked_at() {
    let Entry { dir: _dir, cache, path } = entry();
    let length = path.metadata().unwrap().len();
    for at in (0..HEADER).chain(HEADER + BYTES..length) {
        unnoticed(&path, |path| flip(path, at));
        let error = Cached::open(&path, &key(1), &[]).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "byte {at}: {error}");
        unnoticed(&path, |path| flip(path, at));
    }
    check(&Cached::open(&path, &key(1), &[]).unwrap(), 1, BYTES);
    for at in [0, 9, 20, 33, 41, 50, 70, 82, 1000, 4090, HEADER + BYTES] {
        flip(&path, at);
        assert!(cache.get(&key(1)).is_none());
        assert!(!path.exists(), "it is removed");
        assert!(had_to_fill(&cache, 1, BYTES));
    }
}

#[test]
fn a_file_that_was_changed_is_filled_anew() {
    let Entry { dir, cache, path } = entry();
    let length = path.metadata().unwrap().len();
    let zeros = vec![0; 5000];
    type Change<'a> = (&'a str, &'a dyn Fn(&File));
    let changes: [Change<'_>; 7] = [
        ("first byte", &|file| file.write_all_at(b"?", HEADER).unwrap()),
        ("last byte", &|file| file.write_all_at(b"?", HEADER + BYTES - 1).unwrap()),
        ("zeros at the end", &|file| file.write_all_at(&zeros, HEADER + BYTES - 5000).unwrap()),
        ("cut by a byte", &|file| file.set_len(length - 1).unwrap()),
        ("cut to half", &|file| file.set_len(length / 2).unwrap()),
        ("empty", &|file| file.set_len(0).unwrap()),
        ("longer", &|file| file.set_len(length + 1).unwrap()),
    ];
    for (name, change) in changes {
        change(&writable(&path));
        let error = Cached::open(&path, &key(1), &[]).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{name}: {error}");
        assert!(had_to_fill(&cache, 1, BYTES), "{name}");
        assert!(!had_to_fill(&cache, 1, BYTES), "{name}");
    }
    drop(open(&[(dir.path(), 8 * MIB)]));
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn an_entry_of_before_the_machine_was_restarted_is_checked_once() {
    let Entry { dir, path, .. } = &entry();
    let cache = restart_machine(dir.path());
    assert!(!path.exists());
    assert!(!had_to_fill(&cache, 1, BYTES));
    assert!(path.exists(), "it is among those of this start");

    let cache = restart_machine(dir.path());
    let older = user_folder(dir.path()).join("entries/0123-before");
    let fan = path.parent().unwrap().file_name().unwrap();
    let older = older.join(fan).join(path.file_name().unwrap());
    // A page that was never written before the power was lost.
    unnoticed(&older, |path| {
        writable(path).write_all_at(&[0; 4096], HEADER + 8192).unwrap();
    });
    let error = Cached::open(&older, &key(1), &[]).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(had_to_fill(&cache, 1, BYTES));
    assert!(!older.exists(), "it is removed");
    drop(open(&[(dir.path(), 8 * MIB)]));
    assert_eq!(part(dir.path(), "entries").len(), 1);
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn a_damaged_entry_does_not_go_down() {
    let (fast, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = open(&[(fast.path(), MIB), (large.path(), 8 * MIB)]);
    for number in [1, 2] {
        let path = ask(&cache, number, BYTES).unwrap().path().to_owned();
        if number == 1 {
            unnoticed(&path, |path| flip(path, HEADER + 10));
        }
    }
    for number in 3..6 {
        drop(ask(&cache, number, BYTES).unwrap());
    }
    assert!(cache.get(&key(2)).unwrap().path().starts_with(large.path()));
    assert!(had_to_fill(&cache, 1, BYTES));
}

#[test]
fn a_file_that_others_may_have_written_is_not_read() {
    let Entry { dir: _dir, cache, path } = entry();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let error = Cached::open(&path, &key(1), &[]).unwrap_err();
    assert!(matches!(error, OpenError::Untrusted { .. }), "{error}");
    assert!(had_to_fill(&cache, 1, BYTES));

    let link = path.with_extension("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = Cached::open(&link, &key(1), &[]).unwrap_err();
    assert!(matches!(error, OpenError::Untrusted { .. }), "{error}");

    if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
        println!("no root here: another user's file is not tried");
        return;
    }
    let error = Cached::open(&path, &key(1), &[]).unwrap_err();
    assert!(error.to_string().contains("12345"), "{error}");
    check(&Cached::open(&path, &key(1), &[12345]).unwrap(), 1, BYTES);
    assert!(had_to_fill(&cache, 1, BYTES));
}
