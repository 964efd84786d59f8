//! A shard that a name, a link or `..` leads out of the roots is not served.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use headwater_storage::{SourceConfig, Storage, StorageConfig, StorageError};
use headwater_storage_client::{FieldSelection, LocalFiles, StorageClient};

use crate::support::{Node, client_config, config, shard};

async fn open(root: &std::path::Path, shards: &[PathBuf]) -> Result<Storage, StorageError> {
    let roots = vec![root.to_owned()];
    let sources = SourceConfig { roots, ..SourceConfig::default() };
    Storage::open(StorageConfig { sources, ..config(root, shards) }).await
}

#[tokio::test]
async fn dots_and_links_that_lead_out_are_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (root, secret) = (folder.path().join("root"), folder.path().join("secret.tar"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(&secret, shard(0, 2, 10)).unwrap();
    std::fs::write(root.join("own.tar"), shard(0, 2, 10)).unwrap();
    symlink(&secret, root.join("out.tar")).unwrap();
    symlink(root.join("own.tar"), root.join("within.tar")).unwrap();
    symlink(folder.path(), root.join("up")).unwrap();

    open(&root, &[root.join("own.tar")]).await.expect("within the root");
    open(&root, &[root.join("within.tar")]).await.expect("a link within the root");
    for outside in ["../secret.tar", "out.tar", "up/secret.tar", "up/*.tar"] {
        let error = open(&root, &[root.join(outside)]).await.unwrap_err().to_string();
        assert!(error.contains("secret.tar") && error.contains("storage.roots"), "{error}");
    }
    let sibling = folder.path().join("root-too");
    std::fs::create_dir(&sibling).unwrap();
    std::fs::write(sibling.join("a.tar"), shard(0, 2, 10)).unwrap();
    open(&root, &[sibling.join("a.tar")]).await.expect_err("a folder that begins alike");
}

/// A shard's name is looked at once, its file at each opening.
#[tokio::test]
async fn a_shard_that_becomes_a_link_after_the_start_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (root, secret) = (folder.path().join("root"), folder.path().join("secret.tar"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(&secret, shard(5, 2, 10)).unwrap();
    let own = root.join("own.tar");
    std::fs::write(&own, shard(0, 2, 10)).unwrap();
    let mut config = config(&root, std::slice::from_ref(&own));
    config.sources.roots = vec![root.clone()];
    let node = Node::start(config);
    let client = StorageClient::connect(client_config(&[&node], LocalFiles::Off)).await.unwrap();
    let manifest = client.manifest("d").await.unwrap();
    std::fs::remove_file(&own).unwrap();
    symlink(&secret, &own).unwrap();
    let dataset = client.dataset(manifest.into());
    let read = dataset.read(0, &[0], &FieldSelection::all()).await;
    assert!(read.is_err(), "the file that the link leads to is given out");
}
