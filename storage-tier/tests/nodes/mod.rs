//! Several storage nodes beside each other: slow ones are overtaken, those that end send their callers
//! elsewhere, new ones take their share, and each fetches ahead what is announced.

mod announces;
mod drains;
mod hedges;
mod joins;

use std::path::PathBuf;
use std::sync::Arc;

use headwater_storage::StorageConfig;
use headwater_storage_client::{
    Dataset, EncodedSample, FieldSelection, LocalFiles, StorageClient, StorageClientConfig,
};

use crate::support::{config, shard};

/// A folder of shards with four samples each, and a node's configuration that serves them.
fn shards(number: u32, bytes: usize) -> (tempfile::TempDir, StorageConfig) {
    let folder = tempfile::tempdir().unwrap();
    let path = |i: u32| folder.path().join(format!("{i}.tar"));
    let paths: Vec<PathBuf> = (0..number).map(path).collect();
    for (i, path) in paths.iter().enumerate() {
        std::fs::write(path, shard(i as u32 * 4, 4, bytes)).unwrap();
    }
    let config = config(folder.path(), &paths);
    (folder, config)
}

async fn dataset(addresses: &[&str], config: StorageClientConfig) -> Dataset {
    let nodes = addresses.iter().map(|&address| address.to_owned()).collect();
    let config = StorageClientConfig { nodes, local_files: LocalFiles::Off, ..config };
    let client = StorageClient::connect(config).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    client.dataset(Arc::new(manifest))
}

async fn read(dataset: &Dataset, shard: u32) -> Vec<EncodedSample> {
    dataset.read(shard, &[3, 1], &FieldSelection::all()).await.unwrap()
}
