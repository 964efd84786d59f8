//! Shards with filters: the samples that stay, whichever way they are read, out of copies and files that others share.

use std::fs;
use std::path::{Path, PathBuf};

use headwater_storage::{
    CacheLevel, DatasetConfig, FilterConfig, FilterKind, Inspector, JpegEntries, NodeCacheConfig,
    StorageConfig,
};
use headwater_storage_client::{Dataset, EncodedSample, FieldSelection, LocalFiles, StorageClient};

use crate::support::counted::Counts;
use crate::support::{Node, client_config, config};

const SERVED: &str = "headwater_storage_served_jpegs_total";
const REFUSED: &str = "headwater_storage_entries_refused_total";

fn wide(least: f64) -> FilterConfig {
    FilterConfig { kind: FilterKind::Width, min: Some(least), ..FilterConfig::default() }
}

fn label(most: f64) -> FilterConfig {
    let field = "label".to_owned();
    FilterConfig { kind: FilterKind::Number, field, max: Some(most), ..FilterConfig::default() }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

fn with(config: &StorageConfig, filters: &[FilterConfig]) -> StorageConfig {
    StorageConfig { filters: filters.to_vec(), ..config.clone() }
}

/// A copy of one shard of photographs in a folder of its own.
fn photos(folder: &Path) -> StorageConfig {
    let shard = folder.join("photos.tar");
    fs::copy(data("photos/photos-000003.tar"), &shard).unwrap();
    StorageConfig { index_dir: None, ..config(folder, &[shard]) }
}

async fn dataset(node: &Node, way: LocalFiles) -> (StorageClient, Dataset) {
    let client = StorageClient::connect(client_config(&[node], way)).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let dataset = client.dataset(manifest.into());
    (client, dataset)
}

async fn read_all(dataset: &Dataset) -> Vec<EncodedSample> {
    let mut samples = Vec::new();
    for (at, shard) in dataset.manifest().shards().iter().enumerate() {
        let all: Vec<u32> = (0..shard.samples).collect();
        samples.extend(dataset.read(at as u32, &all, &FieldSelection::all()).await.unwrap());
    }
    samples
}

/// A field's name, bytes and entry points.
type Shown = (String, Vec<u8>, Vec<u8>);

/// Samples by their keys, with all that belongs to them but their numbers, which filters change.
fn shown(samples: &[EncodedSample]) -> Vec<(String, Vec<Shown>)> {
    let field = |field: &headwater_storage_client::Field| {
        (field.name.clone(), field.data.to_vec(), field.entries.to_vec())
    };
    let sample =
        |sample: &EncodedSample| (sample.key.clone(), sample.fields().map(field).collect());
    samples.iter().map(sample).collect()
}

/// Checks that a client gets exactly those of `all` that a filter leaves: over gRPC, and from files without gRPC.
async fn check(node: &Node, all: &[EncodedSample]) -> usize {
    let (client, over_grpc) = dataset(node, LocalFiles::Off).await;
    let samples = shown(&read_all(&over_grpc).await);
    assert_eq!(client.bytes_read().file, 0);
    let all = shown(all);
    let amiss = samples.iter().filter(|sample| !all.contains(sample)).count();
    assert!(
        samples.len() < all.len() && amiss == 0,
        "{} of {}, {amiss} amiss",
        samples.len(),
        all.len()
    );
    let (client, by_file) = dataset(node, LocalFiles::Auto).await;
    assert_eq!(shown(&read_all(&by_file).await), samples);
    assert!(client.bytes_read().grpc == 0 && client.bytes_read().file > 0);
    samples.len()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// One copy of a shard, or one that is unpacked, serves all sets of filters.
#[tokio::test(flavor = "multi_thread")]
async fn entries_of_the_cache_are_shared_by_all_filters() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    fs::create_dir_all(&dir).unwrap();
    let cache = vec![CacheLevel { dir: dir.clone(), bytes: 64 << 20 }];
    let cache = NodeCacheConfig { cache, cache_all: true, ..NodeCacheConfig::default() };
    let in_place = StorageConfig { cache: cache.clone(), ..photos(folder.path()) };
    let table = folder.path().join("hub.parquet");
    fs::copy(data("formats/parquet/hub.parquet"), &table).unwrap();
    let packed = StorageConfig { cache, ..config(folder.path(), &[table]) };
    for (config, few, fewer) in
        [(in_place, wide(300.0), wide(400.0)), (packed, label(1.0), label(0.0))]
    {
        let all = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
        let entries = files_below(&dir);
        assert!(!entries.is_empty());
        let first = check(&Node::start(with(&config, &[few])), &all).await;
        let second = check(&Node::start(with(&config, &[fewer])), &all).await;
        assert!(second < first, "{second} of {first}");
        assert_eq!(files_below(&dir), entries, "nothing was fetched or unpacked again");
    }
}

/// Several shards of one array: each is checked against its size in the manifest, of the rows that stay.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_file_are_read_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.h5");
    fs::copy(data("formats/arrays/hdf5/contiguous.h5"), &path).unwrap();
    let of = DatasetConfig {
        name: "d".to_owned(),
        shards: vec![path.display().to_string()],
        shard_samples: 4,
        ..DatasetConfig::default()
    };
    let config = StorageConfig { datasets: vec![of], ..config(folder.path(), &[]) };
    let all = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
    assert_eq!(all.len(), 11, "three shards");
    assert_eq!(check(&Node::start(with(&config, &[label(1.0)])), &all).await, 8);
}

/// Entry points are of a file and not of what a job takes of it.
#[tokio::test(flavor = "multi_thread")]
async fn entry_points_serve_all_filters_and_are_made_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let config = photos(folder.path());
    let place = Inspector::new(&config).find(&config.datasets[0]).unwrap().remove(0);
    let kept = place.keep_entries(false, 2).unwrap().remove(0);
    let all = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
    let node = Node::start(with(&config, &[wide(300.0)]));
    check(&node, &all).await;
    assert!(node.counts.of(SERVED, "yes") > 0 && node.counts.of(REFUSED, "") == 0);

    let path = kept.written.unwrap();
    let written = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let makes = StorageConfig { jpeg_entries: JpegEntries::Make, ..config };
    let node = Node::start(with(&makes, &[wide(300.0)]));
    read_all(&dataset(&node, LocalFiles::Off).await.1).await;
    made(node.counts, &path).await;
    assert_eq!(fs::read(&path).unwrap(), written);
}

/// Waits for the file that a node makes in the background.
async fn made(counts: Counts, path: &Path) {
    let is_there = async {
        while !path.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let limit = std::time::Duration::from_secs(120);
    let made = tokio::time::timeout(limit, is_there).await;
    assert!(made.is_ok(), "nothing was made, {} refused", counts.of(REFUSED, ""));
}
