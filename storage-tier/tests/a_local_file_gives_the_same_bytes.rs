//! On the same host a shard's file is read rather than asked for: same samples, no bytes over the wire.

use std::path::PathBuf;

use headwater_storage_client::{
    Dataset, FieldSelection, LocalFiles, StorageClient, StorageFailure,
};

use crate::support::{Node, client_config, config, sentence, shard};

fn photos() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/photos");
    (0..4).map(|i| folder.join(format!("photos-{i:06}.tar"))).collect()
}

async fn dataset(node: &Node, way: LocalFiles) -> (StorageClient, Dataset) {
    let client = StorageClient::connect(client_config(&[node], way)).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let dataset = client.dataset(manifest.into());
    (client, dataset)
}

#[tokio::test]
async fn photographs_are_equal_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(config(folder.path(), &photos()));
    let (file_client, by_file) = dataset(&node, LocalFiles::Auto).await;
    let (grpc_client, grpc) = dataset(&node, LocalFiles::Off).await;
    let manifest = file_client.manifest("d").await.unwrap();
    assert_eq!(manifest.shards().iter().map(|s| s.samples).collect::<Vec<_>>(), [80, 64, 71, 41]);
    assert_eq!(manifest.fields(), ["cls", "jpg", "json"]);
    let mut sum = 0;
    for (shard, entry) in manifest.shards().iter().enumerate() {
        let indices: Vec<u32> = (0..entry.samples).rev().collect();
        for fields in [FieldSelection::all(), FieldSelection::parse(&["jpg|png"]).unwrap()] {
            let here = by_file.read(shard as u32, &indices, &fields).await.unwrap();
            let there = grpc.read(shard as u32, &indices, &fields).await.unwrap();
            assert_eq!(here, there);
            assert!(here.iter().all(|s| s.field("jpg").unwrap().starts_with(b"\xff\xd8")));
            sum += here.iter().map(|s| s.bytes()).sum::<u64>();
        }
    }
    let (by_file, grpc) = (file_client.bytes_read(), grpc_client.bytes_read());
    assert_eq!((by_file.file, by_file.grpc), (sum, 0));
    assert_eq!((grpc.file, grpc.grpc), (0, sum));
}

#[tokio::test]
async fn a_file_that_is_open_can_be_read_without_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(config(folder.path(), &photos()));
    let (_client, dataset) = dataset(&node, LocalFiles::Auto).await;
    let all = FieldSelection::all();
    let before = dataset.read(2, &[5], &all).await.unwrap();
    node.kill();
    assert_eq!(dataset.read(2, &[5], &all).await.unwrap(), before);
    let error = dataset.read(1, &[5], &all).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

#[tokio::test]
async fn faults_are_the_same_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 3, 10)).unwrap();
    let node = Node::start(config(folder.path(), std::slice::from_ref(&path)));
    let (_client, dataset) = dataset(&node, LocalFiles::Auto).await;
    let all = FieldSelection::all();
    dataset.read(0, &[0], &all).await.unwrap();
    for (shard, index) in [(0, 3), (1, 0)] {
        let error = dataset.read(shard, &[index], &all).await.unwrap_err();
        assert_eq!(error.kind(), StorageFailure::OutOfRange);
    }
    // Neither the file nor the node has what the manifest says: no word on a sample, but on the shard.
    std::fs::write(&path, shard(0, 1, 10)).unwrap();
    for _ in 0..2 {
        let error = dataset.read(0, &[0], &all).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let said = sentence(&error);
        assert!(said.contains("a.tar` was changed"), "{said}");
    }
}

#[tokio::test]
async fn a_file_replaced_by_another_is_not_taken_for_the_shard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 3, 10)).unwrap();
    let node = Node::start(config(folder.path(), std::slice::from_ref(&path)));
    // The node opens the shard, then another file of the same size takes its name.
    let (_grpc_client, grpc) = dataset(&node, LocalFiles::Off).await;
    let all = FieldSelection::all();
    let before = grpc.read(0, &[0], &all).await.unwrap();
    let other = folder.path().join("b.tar");
    std::fs::write(&other, shard(1, 3, 9)).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let (client, dataset) = dataset(&node, LocalFiles::Auto).await;
    assert_eq!(dataset.read(0, &[0], &all).await.unwrap(), before);
    assert_eq!(client.bytes_read().file, 0);
}
