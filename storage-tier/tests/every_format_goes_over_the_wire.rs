//! Whole shards of every format, by one query each: over gRPC, and as files of the host where they are.

use std::path::Path;

use headwater_storage::{DatasetConfig, NodeCacheConfig, Storage, StorageConfig};
use headwater_storage_client::{Dataset, EncodedSample, FieldSelection, LocalFiles, StorageClient};

use crate::support::{Node, client_config};

/// Places of tests/data/formats by the names of their datasets, and whether their shards are files that
/// a reader may open: a folder's images are one file each.
const PLACES: [(&str, &str, bool); 11] = [
    ("folder", "", false),
    ("tfrecord", "tfrecord/photos.tfrecord", true),
    ("gzip", "tfrecord/packed.tfrecord.gz", true),
    ("mds", "mds/raw", true),
    ("zstd", "mds/zstd", true),
    ("parquet", "parquet/hub.parquet", true),
    ("rows", "arrays/npy/rows.npy", true),
    ("npz", "arrays/npz/stored.npz", true),
    ("hdf5", "arrays/hdf5/contiguous.h5", true),
    ("zarr", "arrays/zarr/group-v3.zarr", true),
    ("tokens", "arrays/tokens/short.bin", true),
];

fn config(folder: &Path) -> StorageConfig {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let images = folder.join("images");
    for class in ["a", "b"] {
        std::fs::create_dir_all(images.join(class)).unwrap();
        for image in 0..3 {
            // Smaller than what is said of it beside it.
            std::fs::write(images.join(class).join(format!("{image}.jpg")), class).unwrap();
        }
    }
    let dataset = |name: &str, place: &Path| DatasetConfig {
        name: name.to_owned(),
        shards: vec![place.display().to_string()],
        shard_samples: 4,
        sequence_length: Some(3),
        ..DatasetConfig::default()
    };
    let place = |name: &str| match name {
        "" => images.clone(),
        name => data.join("formats").join(name),
    };
    let mut datasets: Vec<_> =
        PLACES.iter().map(|(name, of, _)| dataset(name, &place(of))).collect();
    datasets.push(dataset("tar", &data.join("photos/photos-000003.tar")));
    let cache = vec![headwater_storage::CacheLevel { dir: folder.to_owned(), bytes: 64 << 20 }];
    let cache = NodeCacheConfig { cache, ..NodeCacheConfig::default() };
    StorageConfig { datasets, index_dir: Some(folder.join("index")), cache, ..Default::default() }
}

/// Each shard by one query.
async fn whole_shards(dataset: &Dataset) -> Vec<Vec<EncodedSample>> {
    let mut shards = Vec::new();
    for (at, shard) in dataset.manifest().shards().iter().enumerate() {
        let all: Vec<u32> = (0..shard.samples).collect();
        let read = dataset.read(at as u32, &all, &FieldSelection::all()).await;
        shards.push(read.unwrap_or_else(|error| panic!("{}: {error}", shard.name)));
    }
    shards
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_those_of_the_node_both_ways_and_one_dataset_is_no_hindrance_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let storage = Storage::open(config.clone()).await.unwrap();
    let node = Node::start(config);
    let connect = |way| StorageClient::connect(client_config(&[&node], way));
    let (grpc, file) =
        (connect(LocalFiles::Off).await.unwrap(), connect(LocalFiles::Auto).await.unwrap());
    let names = PLACES.iter().map(|(name, _, is_file)| (*name, *is_file)).chain([("tar", true)]);
    for (name, is_file) in names {
        let manifest = grpc.manifest(name).await.unwrap();
        let mut expected = Vec::new();
        for (at, shard) in manifest.shards().iter().enumerate() {
            let all: Vec<u32> = (0..shard.samples).collect();
            expected
                .push(storage.read(name, at as u32, &all, &FieldSelection::all()).await.unwrap());
        }
        assert!(expected.iter().flatten().count() > 0);
        let of = |client: &StorageClient| client.dataset(manifest.clone().into());
        assert_eq!(whole_shards(&of(&grpc)).await, expected, "{name} over gRPC");
        let before = file.bytes_read();
        assert_eq!(whole_shards(&of(&file)).await, expected, "{name} by file");
        let (read, way) = (file.bytes_read(), if is_file { "files" } else { "gRPC" });
        let other = if is_file { read.grpc - before.grpc } else { read.file - before.file };
        assert_eq!(other, 0, "{name} is read by {way}");
    }
}
