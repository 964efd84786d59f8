//! Whether an index is scanned, checked against one of the `.idx` formats or kept from last time:
//! it is the same, and it is what Python's tarfile says (`tests/data/make.py`).

use std::path::Path;

use headwater_core::{Digest, ShardIndexBuilder};
use headwater_storage::{Storage, StorageError};

use crate::support::{config, data};

const ARCHIVES: [&str; 3] = ["gnu", "pax", "ustar"];

/// The index that Python's tarfile found.
fn expected(archive: &str) -> (u32, Digest) {
    let text = std::fs::read_to_string(data(&format!("{archive}.tsv"))).unwrap();
    let mut builder = ShardIndexBuilder::default();
    let mut last = None;
    for line in text.lines() {
        let [key, field, offset, bytes] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        if last != Some(key) {
            builder.sample(key).unwrap();
            last = Some(key);
        }
        builder.field(field, offset.parse().unwrap(), bytes.parse().unwrap()).unwrap();
    }
    let index = builder.finish();
    (index.samples(), index.digest())
}

async fn open(
    archive: &str,
    idx: Option<(&str, &str)>,
    folder: &Path,
) -> Result<(u32, Digest), StorageError> {
    let shard = folder.join("shard.tar");
    std::fs::copy(data(&format!("{archive}.tar")), &shard).unwrap();
    if let Some((format, name)) = idx {
        std::fs::copy(data(&format!("{archive}.{format}.idx")), folder.join(name)).unwrap();
    }
    let storage = Storage::open(config(folder, &[shard])).await?;
    let entry = storage.manifests().next().unwrap().shards()[0].clone();
    Ok((entry.samples, entry.digest))
}

#[tokio::test]
async fn a_scan_finds_what_tarfile_finds() {
    for archive in ARCHIVES {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            open(archive, None, folder.path()).await.unwrap(),
            expected(archive),
            "{archive}"
        );
    }
}

#[tokio::test]
async fn all_idx_formats_fit_and_change_nothing() {
    for archive in ARCHIVES {
        for format in ["v11", "v12", "i64", "energon"] {
            for name in ["shard.idx", "shard.tar.idx"] {
                let folder = tempfile::tempdir().unwrap();
                let opened = open(archive, Some((format, name)), folder.path()).await;
                assert_eq!(opened.unwrap(), expected(archive), "{archive} {format} {name}");
            }
        }
    }
}

#[tokio::test]
async fn a_kept_index_is_used_and_one_of_a_changed_shard_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = open("pax", None, folder.path()).await.unwrap();
    let kept: Vec<_> = std::fs::read_dir(folder.path().join("index")).unwrap().collect();
    assert_eq!(kept.len(), 1);

    // Same size and time, other bytes: only the kept index can still know the samples.
    let shard = folder.path().join("shard.tar");
    let modified = std::fs::metadata(&shard).unwrap().modified().unwrap();
    let size = std::fs::metadata(&shard).unwrap().len() as usize;
    std::fs::write(&shard, vec![0; size]).unwrap();
    std::fs::File::options().write(true).open(&shard).unwrap().set_modified(modified).unwrap();
    let storage = Storage::open(config(folder.path(), std::slice::from_ref(&shard))).await.unwrap();
    assert_eq!(storage.manifests().next().unwrap().shards()[0].digest, first.1);

    let changed = open("gnu", None, folder.path()).await.unwrap();
    assert_eq!(changed, expected("gnu"));
}

#[tokio::test]
async fn an_idx_that_appears_is_held_against_the_shard_though_an_index_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    open("gnu", None, folder.path()).await.unwrap();
    std::fs::write(folder.path().join("shard.idx"), "v1.1 0\n").unwrap();
    let error = open("gnu", None, folder.path()).await.unwrap_err().to_string();
    assert!(error.contains("shard.idx") && error.contains("line 1"), "{error}");
}
