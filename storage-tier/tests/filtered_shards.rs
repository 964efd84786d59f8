//! Shards with filters: the samples that stay, whichever way they are read, out of copies and files that others share.

use std::fs;
use std::path::{Path, PathBuf};

use headwater_storage::{
    CacheLevel, DatasetConfig, FilterConfig, FilterKind, Inspector, JpegEntries, NodeCacheConfig,
    StorageConfig,
};
use headwater_storage_client::{
    BytesRead, Dataset, EncodedSample, FieldSelection, LocalFiles, StorageClient,
};

use crate::support::counted::Counts;
use crate::support::{Node, client_config, config, shard};

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

/// A field of a sample as a number.
fn number(sample: &EncodedSample, name: &str) -> f64 {
    let field = sample.fields().find(|field| field.name == name).expect(name);
    let text = std::str::from_utf8(&field.data).expect("a text");
    text.trim().parse().unwrap_or_else(|_| panic!("{name} is {text:?}"))
}

/// Width of the JPEG of a sample, by the bytes of its frame header (ITU-T T.81, B.2.2).
fn width(sample: &EncodedSample) -> f64 {
    let jpeg = sample.fields().find(|field| field.name.starts_with("jp")).expect("a JPEG");
    let (jpeg, mut at) = (&jpeg.data, 2);
    loop {
        assert_eq!(jpeg[at], 0xff, "a marker at {at}");
        let is_frame =
            matches!(jpeg[at + 1], 0xc0..=0xcf) && ![0xc4, 0xc8, 0xcc].contains(&jpeg[at + 1]);
        if is_frame {
            return u16::from_be_bytes([jpeg[at + 7], jpeg[at + 8]]).into();
        }
        at += 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
    }
}

/// Checks that a client gets exactly those of `all` that are `meant`, in their order: over gRPC, and from files without gRPC.
/// Returns how many there are.
async fn check(
    node: &Node,
    all: &[EncodedSample],
    meant: impl Fn(&EncodedSample) -> bool,
) -> usize {
    let (samples, read) = check_samples(node, all, meant).await;
    assert!(read.grpc == 0 && read.file > 0, "{read:?}");
    samples
}

/// As [`check`], wherever the bytes come from: also what a client has read that may read files.
async fn check_samples(
    node: &Node,
    all: &[EncodedSample],
    meant: impl Fn(&EncodedSample) -> bool,
) -> (usize, BytesRead) {
    let expected: Vec<_> = all.iter().filter(|sample| meant(sample)).cloned().collect();
    assert!((1..all.len()).contains(&expected.len()), "{} of {}", expected.len(), all.len());
    let keys = |samples: &[EncodedSample]| -> Vec<String> {
        samples.iter().map(|sample| sample.key.clone()).collect()
    };
    let mut read = BytesRead::default();
    for way in [LocalFiles::Off, LocalFiles::Auto] {
        let (client, dataset) = dataset(node, way).await;
        assert_eq!(dataset.manifest().samples(), expected.len() as u64);
        let samples = read_all(&dataset).await;
        assert_eq!(keys(&samples), keys(&expected), "{way:?}");
        assert!(shown(&samples) == shown(&expected), "other fields, {way:?}");
        read = client.bytes_read();
        assert!(way == LocalFiles::Auto || read.file == 0);
    }
    (expected.len(), read)
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
    type Meant = fn(&EncodedSample) -> bool;
    let wider: [(FilterConfig, Meant); 2] =
        [(wide(300.0), |s| width(s) >= 300.0), (wide(400.0), |s| width(s) >= 400.0)];
    let fewer: [(FilterConfig, Meant); 2] =
        [(label(1.0), |s| number(s, "label") <= 1.0), (label(0.0), |s| number(s, "label") <= 0.0)];
    for (config, [(few, is_few), (fewer, is_fewer)]) in [(in_place, wider), (packed, fewer)] {
        let all = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
        let entries = files_below(&dir);
        assert!(!entries.is_empty());
        let first = check(&Node::start(with(&config, &[few])), &all, is_few).await;
        let second = check(&Node::start(with(&config, &[fewer])), &all, is_fewer).await;
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
    let node = Node::start(with(&config, &[label(1.0)]));
    assert_eq!(check(&node, &all, |sample| number(sample, "label") <= 1.0).await, 8);
}

/// The shards before and behind one that is empty have their samples.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_of_which_nothing_stays_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [0, 1, 2].map(|number| {
        let path = folder.path().join(format!("{number}.tar"));
        fs::write(&path, shard(5 * number, 5, 300)).unwrap();
        path
    });
    let config = config(folder.path(), &paths);
    let all = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
    // The image of sample `i`, from 0 to 14, has 300 + i bytes.
    let bytes = |least: f64, most: f64| FilterConfig {
        kind: FilterKind::Bytes,
        field: "jpg".to_owned(),
        min: Some(300.0 + least),
        max: Some(300.0 + most),
        ..FilterConfig::default()
    };
    let few = |sample: &EncodedSample| [3.0, 4.0].contains(&number(sample, "cls"));
    let node = Node::start(with(&config, &[bytes(3.0, 4.0)]));
    check(&node, &all, few).await;
    let samples = |dataset: Dataset| -> Vec<u32> {
        dataset.manifest().shards().iter().map(|shard| shard.samples).collect()
    };
    assert_eq!(samples(dataset(&node, LocalFiles::Off).await.1), [2, 0, 0]);
    let cls = FilterConfig {
        kind: FilterKind::Number,
        field: "cls|none".to_owned(),
        min: Some(10.0),
        ..FilterConfig::default()
    };
    let node = Node::start(with(&config, &[cls, bytes(0.0, 11.0)]));
    check(&node, &all, |sample| [10.0, 11.0].contains(&number(sample, "cls"))).await;
    assert_eq!(samples(dataset(&node, LocalFiles::Off).await.1), [0, 0, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_in_a_folder_are_read_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = photos(folder.path());
    let photos = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
    let top = folder.path().join("images");
    for (number, sample) in photos.iter().enumerate() {
        let image = sample.fields().find(|field| field.name == "jpg").expect("a JPEG");
        let class = top.join(format!("class-{}", number % 2));
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join(format!("{}.jpg", sample.key)), &image.data).unwrap();
    }
    let of = DatasetConfig {
        name: "d".to_owned(),
        shards: vec![top.display().to_string()],
        shard_samples: 3,
        ..DatasetConfig::default()
    };
    let config = StorageConfig { datasets: vec![of], ..config };
    let all = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
    assert_eq!(all.len(), photos.len());
    let class = FilterConfig {
        kind: FilterKind::Number,
        field: "cls".to_owned(),
        min: Some(1.0),
        ..FilterConfig::default()
    };
    let node = Node::start(with(&config, &[wide(300.0), class]));
    let meant = |sample: &EncodedSample| width(sample) >= 300.0 && number(sample, "cls") >= 1.0;
    check_samples(&node, &all, meant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mds_is_filtered_by_its_columns_whether_it_is_compressed_or_not() {
    for kind in ["raw", "zstd"] {
        let folder = tempfile::tempdir().unwrap();
        let place = data(&format!("formats/mds/{kind}"));
        let config = config(folder.path(), &[place]);
        let all = read_all(&dataset(&Node::start(config.clone()), LocalFiles::Off).await.1).await;
        let labels: Vec<f64> = all.iter().map(|sample| number(sample, "label")).collect();
        let most = labels.iter().sum::<f64>() / labels.len() as f64;
        let node = Node::start(with(&config, &[label(most)]));
        check(&node, &all, |sample| number(sample, "label") <= most).await;
    }
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
    check(&node, &all, |sample| width(sample) >= 300.0).await;
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
