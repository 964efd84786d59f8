//! Shards that are read by way of the host's cache: the same bytes, fetched once, whatever becomes of the
//! entries.

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use headwater_storage::{CacheLevel, NodeCacheConfig, Storage, StorageConfig};
use headwater_storage_client::{Dataset, EncodedSample, FieldSelection, LocalFiles, StorageClient};

use crate::support::{Node, all_samples, client_config, config, shard, tar};

/// A node's configuration over three shards of 400 KB, through a cache of `bytes`.
fn cached(folder: &Path, bytes: u64) -> StorageConfig {
    let shards: Vec<_> = (0..3).map(|at| folder.join(format!("{at}.tar"))).collect();
    for (at, path) in shards.iter().enumerate() {
        if !path.exists() {
            std::fs::write(path, shard(at as u32 * 10, 10, 40_000)).unwrap();
        }
    }
    let dir = folder.join("cache");
    std::fs::create_dir_all(&dir).unwrap();
    StorageConfig { cache: level(dir, bytes), ..config(folder, &shards) }
}

/// A cache of one level, which takes files of this host too.
fn level(dir: PathBuf, bytes: u64) -> NodeCacheConfig {
    let cache = vec![CacheLevel { dir, bytes }];
    NodeCacheConfig { cache, cache_all: true, ..NodeCacheConfig::default() }
}

async fn read_all(dataset: &Dataset) -> Vec<EncodedSample> {
    let mut samples = Vec::new();
    for (at, shard) in dataset.manifest().shards().iter().enumerate() {
        let all: Vec<u32> = (0..shard.samples).collect();
        let fields = FieldSelection::all();
        samples.extend(dataset.read(at as u32, &all, &fields).await.unwrap());
    }
    samples
}

async fn dataset(nodes: &[&Node], local_files: LocalFiles) -> (StorageClient, Dataset) {
    let client = StorageClient::connect(client_config(nodes, local_files)).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let dataset = client.dataset(Arc::new(manifest));
    (client, dataset)
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_those_of_the_source_over_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let with = cached(folder.path(), 64 << 20);
    let without = StorageConfig { cache: NodeCacheConfig::default(), ..with.clone() };
    let expected = all_samples(&Storage::open(without).await.unwrap()).await.unwrap();
    let node = Node::start(with);
    let (client, over_grpc) = dataset(&[&node], LocalFiles::Off).await;
    assert_eq!(read_all(&over_grpc).await, expected);
    assert_eq!(client.bytes_read().file, 0);
    let (client, by_file) = dataset(&[&node], LocalFiles::Auto).await;
    assert_eq!(read_all(&by_file).await, expected);
    let read = client.bytes_read();
    assert_eq!(read.grpc, 0, "entries of the cache are files of this host");
    assert!(read.file > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_of_one_layout_and_one_time_of_change_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let shards = ["a.tar", "b.tar"].map(|name| folder.path().join(name));
    for (path, text) in shards.iter().zip(["first one", "other one"]) {
        std::fs::write(path, tar(&[("0.txt", text.as_bytes())])).unwrap();
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        File::options().write(true).open(path).unwrap().set_times(times).unwrap();
    }
    let dir = folder.path().join("cache");
    std::fs::create_dir_all(&dir).unwrap();
    let cache = level(dir.clone(), 1 << 20);
    let config = StorageConfig { cache, ..config(folder.path(), &shards) };
    let samples = all_samples(&Storage::open(config).await.unwrap()).await.unwrap();
    let texts: Vec<_> = samples.iter().map(|sample| &sample.field("txt").unwrap()[..]).collect();
    assert_eq!(texts, [&b"first one"[..], b"other one"]);
    assert_eq!(entries(&dir).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_make_room_are_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    // Room for two shards of three.
    let node = Node::start(cached(folder.path(), 1 << 20));
    let (_, first) = dataset(&[&node], LocalFiles::Off).await;
    let expected = read_all(&first).await;
    let left = entries(&folder.path().join("cache"));
    assert!((1..=2).contains(&left.len()), "one made room: {left:?}");
    assert_eq!(read_all(&first).await, expected, "whichever made room");
    for path in entries(&folder.path().join("cache")) {
        // As another process of the host evicts it: while nobody reads, by its name.
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(read_all(&first).await, expected, "opened anew");
    let (_, second) = dataset(&[&node], LocalFiles::Auto).await;
    assert_eq!(read_all(&second).await, expected);
    for path in entries(&folder.path().join("cache")) {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(read_all(&second).await, expected, "by file, opened anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_after_an_eviction_reads_files() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(cached(folder.path(), 64 << 20));
    let (_, first) = dataset(&[&node], LocalFiles::Off).await;
    let expected = read_all(&first).await;
    for path in entries(&folder.path().join("cache")) {
        std::fs::remove_file(path).unwrap();
    }
    // The node still has what was evicted open.
    let (client, second) = dataset(&[&node], LocalFiles::Auto).await;
    assert_eq!(read_all(&second).await, expected);
    assert_eq!(client.bytes_read().grpc, 0, "no path of an evicted entry was named");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_without_room_is_read_past() {
    let folder = tempfile::tempdir().unwrap();
    let shards = [folder.path().join("large.tar")];
    std::fs::write(&shards[0], shard(0, 20, 100_000)).unwrap();
    let dir = folder.path().join("cache");
    std::fs::create_dir_all(&dir).unwrap();
    let cache = level(dir.clone(), 1 << 20);
    let plain = config(folder.path(), &shards);
    let expected = all_samples(&Storage::open(plain.clone()).await.unwrap()).await.unwrap();
    let config = StorageConfig { cache, ..plain };
    let found = all_samples(&Storage::open(config).await.unwrap()).await.unwrap();
    assert_eq!(found, expected);
    assert!(entries(&dir).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_entry_is_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = cached(folder.path(), 64 << 20);
    let expected = all_samples(&Storage::open(config.clone()).await.unwrap()).await.unwrap();
    let dir = folder.path().join("cache");
    let found = entries(&dir);
    assert_eq!(found.len(), 3);
    for path in &found {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let again = all_samples(&Storage::open(config).await.unwrap()).await.unwrap();
    assert_eq!(again, expected);
}

/// An array of bytes as NumPy writes it.
fn npy(rows: usize, row_bytes: usize) -> Vec<u8> {
    let shape = format!("({rows}, {row_bytes})");
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes()].concat();
    file.extend_from_slice(header.as_bytes());
    file.extend((0..rows * row_bytes).map(|at| (at * 31 % 251) as u8));
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_file_with_several_shards_each_is_kept_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let (rows, row_bytes) = (24, 200_000);
    std::fs::write(&path, npy(rows, row_bytes)).unwrap();
    let dir = folder.path().join("cache");
    std::fs::create_dir_all(&dir).unwrap();
    let mut plain = config(folder.path(), &[path]);
    plain.datasets[0].shard_samples = 4;
    let cache = level(dir.clone(), 64 << 20);
    let expected = all_samples(&Storage::open(plain.clone()).await.unwrap()).await.unwrap();
    let node = Node::start(StorageConfig { cache, ..plain });
    for way in [LocalFiles::Off, LocalFiles::Auto] {
        let (_client, dataset) = dataset(&[&node], way).await;
        assert_eq!(read_all(&dataset).await, expected);
    }
    let kept = entries(&dir);
    assert_eq!(kept.len(), rows / 4);
    let bytes: u64 = kept.iter().map(|path| path.metadata().unwrap().len()).sum();
    let of_rows = (rows * row_bytes) as u64;
    assert!(bytes < of_rows * 11 / 10, "{bytes} bytes are kept of {of_rows}");
}

/// Files of entries, below a cache's folder.
fn entries(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(entries(&path));
        } else if path.file_name().is_some_and(|name| name.len() == 32) {
            found.push(path);
        }
    }
    found
}
