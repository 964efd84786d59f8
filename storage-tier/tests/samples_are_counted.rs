//! A shard is counted by any form of index beside it, or by a scan, and never by an index that is
//! of another shard. Expected numbers are those of Python's tarfile (`tests/data/make.py`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use headwater_storage::{IdxForm, InspectedShard, count_samples};

use crate::support::{data, shard};

const ARCHIVES: [&str; 3] = ["gnu", "pax", "ustar"];

/// Keys in the order of the archive, as tarfile lists them.
fn tarfile_samples(archive: &str) -> u64 {
    let text = fs::read_to_string(data(&format!("{archive}.tsv"))).unwrap();
    let mut keys: Vec<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
    keys.dedup();
    keys.len() as u64
}

fn placed(folder: &Path, archive: &str, form: Option<&str>) -> PathBuf {
    let shard = folder.join("a.tar");
    fs::copy(data(&format!("{archive}.tar")), &shard).unwrap();
    if let Some(form) = form {
        fs::copy(data(&format!("{archive}.{form}.idx")), folder.join("a.idx")).unwrap();
    }
    shard
}

#[test]
fn every_form_of_index_gives_the_number_that_tarfile_gives() {
    let forms = [
        (Some("v11"), Some(IdxForm::Other)),
        (Some("v12"), Some(IdxForm::DaliV12)),
        (Some("i64"), Some(IdxForm::Other)),
        (Some("energon"), Some(IdxForm::Other)),
        (None, None),
    ];
    for archive in ARCHIVES {
        for (form, by_idx) in forms {
            let folder = tempfile::tempdir().unwrap();
            let count = count_samples(&placed(folder.path(), archive, form)).unwrap();
            assert_eq!(count.samples, tarfile_samples(archive), "{archive} {form:?}");
            // A last sample with a long name is not found from its own header only.
            assert!(count.by_idx == by_idx || archive != "ustar", "{archive} {form:?}: {count:?}");
        }
    }
}

#[test]
fn an_index_that_is_older_or_of_another_shard_is_not_counted_by() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    let idx = folder.path().join("a.idx");
    fs::write(&path, shard(0, 5, 700)).unwrap();
    let text = InspectedShard::open(&path).unwrap().dali_idx();
    fs::write(&idx, &text).unwrap();
    assert_eq!(count_samples(&path).unwrap().by_idx, Some(IdxForm::DaliV12));

    File::open(&idx).unwrap().set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
    let count = count_samples(&path).unwrap();
    assert_eq!((count.samples, count.by_idx), (5, None), "older");

    fs::write(&path, shard(0, 7, 700)).unwrap();
    fs::write(&idx, &text).unwrap();
    let count = count_samples(&path).unwrap();
    assert_eq!((count.samples, count.by_idx), (7, None), "of the first five samples");

    fs::write(&path, shard(0, 5, 700)).unwrap();
    fs::write(&idx, text.replacen("v1.2 5", "v1.2 9", 1)).unwrap();
    let count = count_samples(&path).unwrap();
    assert_eq!((count.samples, count.by_idx), (5, None), "announces what it does not have");
}

#[test]
fn a_written_index_is_what_dali_writes() {
    for archive in ARCHIVES {
        let inspected = InspectedShard::open(&data(&format!("{archive}.tar"))).unwrap();
        let dali = fs::read_to_string(data(&format!("{archive}.v12.idx"))).unwrap();
        assert_eq!(inspected.dali_idx(), dali, "{archive}");
    }
}
