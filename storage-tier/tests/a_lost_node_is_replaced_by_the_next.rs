//! Several nodes serve the same dataset: each shard has its node, and another one when that fails.

use std::time::Duration;

use headwater_storage_client::{
    Dataset, EncodedSample, FieldSelection, LocalFiles, StorageClient, StorageClientConfig,
};

use crate::support::{Node, client_config, config, shard};

const SHARDS: u32 = 8;

struct Setup {
    nodes: [Node; 2],
    dataset: Dataset,
    #[allow(dead_code)]
    folder: tempfile::TempDir,
}

async fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..SHARDS).map(|i| folder.path().join(format!("{i}.tar"))).collect();
    for (i, path) in paths.iter().enumerate() {
        std::fs::write(path, shard(i as u32 * 10, 10, 2000)).unwrap();
    }
    let config = config(folder.path(), &paths);
    let nodes = [Node::start(config.clone()), Node::start(config)];
    let client_config = client_config(&[&nodes[0], &nodes[1]], LocalFiles::Off);
    let client = StorageClient::connect(client_config).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let dataset = client.dataset(manifest.into());
    Setup { nodes, dataset, folder }
}

async fn read_all(dataset: &Dataset) -> Vec<String> {
    let mut keys = Vec::new();
    for shard in 0..SHARDS {
        let samples = dataset.read(shard, &[3, 1], &FieldSelection::all()).await.unwrap();
        keys.extend(samples.into_iter().map(|sample| sample.key));
    }
    keys
}

#[tokio::test]
async fn reads_go_on_when_either_node_dies() {
    for lost in 0..2 {
        let mut setup = setup().await;
        let before = read_all(&setup.dataset).await;
        setup.nodes[lost].kill();
        assert_eq!(read_all(&setup.dataset).await, before);
    }
}

#[tokio::test]
async fn reads_end_with_the_nodes_names_when_both_are_gone() {
    let mut setup = setup().await;
    read_all(&setup.dataset).await;
    setup.nodes.iter_mut().for_each(Node::kill);
    let error = setup.dataset.read(0, &[0], &FieldSelection::all()).await.unwrap_err();
    assert!(error.is_retryable());
    let error = error.to_string();
    assert!(setup.nodes.iter().all(|node| error.contains(&node.address)), "{error}");
}

/// As where a name leads to other addresses once its pods have moved.
#[tokio::test]
async fn nodes_that_come_and_go_on_a_list_are_found_while_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 4, 10)).unwrap();
    let list = folder.path().join("nodes");
    let write = |node: &Node| {
        let new = list.with_extension("new");
        std::fs::write(&new, &node.address).unwrap();
        std::fs::rename(&new, &list).unwrap();
    };
    let config = config(folder.path(), &[path]);
    let mut node = Node::start(config.clone());
    write(&node);
    let client_config = StorageClientConfig {
        nodes: vec![format!("file:{}", list.display())],
        refresh_ms: 20,
        local_files: LocalFiles::Off,
        wait_limit_ms: 60_000,
        ..StorageClientConfig::default()
    };
    let client = StorageClient::connect(client_config).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    let dataset = client.dataset(manifest.into());
    let read = async || dataset.read(0, &[3, 1], &FieldSelection::all()).await.unwrap();
    let keys = |samples: Vec<EncodedSample>| samples.into_iter().map(|s| s.key).collect::<Vec<_>>();
    let before = keys(read().await);
    for _ in 0..3 {
        // Nobody is at the old address any more when the next read begins.
        node.kill();
        let next = Node::start(config.clone());
        let reading = async { keys(read().await) };
        let moving = async { write(&next) };
        let (again, ()) = tokio::join!(reading, moving);
        assert_eq!(again, before);
        node = next;
    }
}

#[tokio::test]
async fn a_client_connects_though_one_node_is_not_there_and_waits_for_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, shard(0, 2, 10)).unwrap();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let late = format!("127.0.0.1:{port}");
    let nodes = vec!["127.0.0.1:1".to_owned(), late.clone()];
    let client_config =
        StorageClientConfig { nodes, wait_limit_ms: 20_000, ..StorageClientConfig::default() };
    let connecting = tokio::spawn(StorageClient::connect(client_config));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!connecting.is_finished());
    let node = Node::start_on(&late, config(folder.path(), &[path]));
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(client.manifest("d").await.unwrap().samples(), 2);
    drop(node);
}
