//! What several tests need: archives, and nodes that serve them.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use headwater_storage::{DatasetConfig, Storage, StorageConfig, StorageError, listen};
use headwater_storage_client::{LocalFiles, StorageClientConfig};

/// A tar archive of the members given, in order, with its end marker.
pub(crate) fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, data) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A shard whose sample `i` has a `jpg` of `bytes + i` bytes and a `cls`.
pub(crate) fn shard(first: u32, samples: u32, bytes: usize) -> Vec<u8> {
    let members: Vec<(String, Vec<u8>)> = (first..first + samples)
        .flat_map(|i| {
            let jpg = (0..bytes + i as usize).map(|at| (at as u32 * 31 + i) as u8).collect();
            [(format!("{i:06}.jpg"), jpg), (format!("{i:06}.cls"), i.to_string().into_bytes())]
        })
        .collect();
    tar(&members.iter().map(|(n, d)| (n.as_str(), d.as_slice())).collect::<Vec<_>>())
}

/// A file of this crate's test data.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Storage over one dataset `d` of these shards; indices go to `folder`.
pub(crate) fn config(folder: &Path, shards: &[PathBuf]) -> StorageConfig {
    let shards = shards.iter().map(|path| path.display().to_string()).collect();
    StorageConfig {
        datasets: vec![DatasetConfig { name: "d".to_owned(), shards }],
        index_dir: Some(folder.join("index")),
        ..StorageConfig::default()
    }
}

/// Opens storage over one shard of these bytes.
pub(crate) async fn open_bytes(bytes: &[u8]) -> Result<Storage, StorageError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    std::fs::write(&path, bytes).unwrap();
    Storage::open(config(folder.path(), &[path])).await
}

/// A storage node with a runtime of its own, so that it can be killed like a process.
pub(crate) struct Node {
    pub(crate) address: String,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Node {
    pub(crate) fn start(config: StorageConfig) -> Self {
        Self::start_on("127.0.0.1:0", config)
    }

    pub(crate) fn start_on(address: &str, config: StorageConfig) -> Self {
        let address = address.to_owned();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        // A thread of its own: a runtime must not wait within another one.
        let (runtime, address) = std::thread::spawn(move || {
            let listener = runtime.block_on(listen(&address)).unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let storage = runtime.block_on(Storage::open(config)).unwrap();
            runtime.spawn(async move { storage.serve_on(listener, std::future::pending()).await });
            (runtime, address)
        })
        .join()
        .unwrap();
        Self { address, runtime: Some(runtime) }
    }

    /// Ends the node at once, its connections with it.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a client reaches these nodes.
pub(crate) fn client_config(nodes: &[&Node], local_files: LocalFiles) -> StorageClientConfig {
    StorageClientConfig {
        nodes: nodes.iter().map(|node| node.address.clone()).collect(),
        local_files,
        local_roots: vec!["/".into()],
        wait_limit_ms: 2_000,
        ..StorageClientConfig::default()
    }
}

/// An error with its causes.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}
