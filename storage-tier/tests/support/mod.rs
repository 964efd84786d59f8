//! What several tests need: archives, and nodes that serve them.
#![allow(dead_code)]

pub(crate) mod counted;
pub(crate) mod gate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_storage::{DatasetConfig, Storage, StorageConfig, StorageError, listen};
use headwater_storage_client::{EncodedSample, FieldSelection, LocalFiles, StorageClientConfig};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use counted::Counts;

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
        datasets: vec![DatasetConfig { name: "d".to_owned(), shards, ..DatasetConfig::default() }],
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
    /// What it has counted.
    pub(crate) counts: Counts,
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<JoinHandle<Result<(), StorageError>>>,
}

impl Node {
    pub(crate) fn start(config: StorageConfig) -> Self {
        Self::start_on("127.0.0.1:0", config)
    }

    pub(crate) fn start_on(address: &str, config: StorageConfig) -> Self {
        let address = address.to_owned();
        let counts = Counts::new();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(move || counts.count_on_this_thread())
            .enable_all()
            .build()
            .unwrap();
        let (stop, told) = oneshot::channel::<()>();
        // A thread of its own: a runtime must not wait within another one.
        let (runtime, address, ended) = std::thread::spawn(move || {
            counts.count_on_this_thread();
            let listener = runtime.block_on(listen(&address)).unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let storage = runtime.block_on(Storage::open(config)).unwrap();
            let ended = runtime.spawn(async move {
                let told = async { told.await.unwrap_or_default() };
                storage.serve_on(listener, told).await
            });
            (runtime, address, ended)
        })
        .join()
        .unwrap();
        Self { address, counts, runtime: Some(runtime), stop: Some(stop), ended: Some(ended) }
    }

    /// Asks the node to stop, as SIGTERM does.
    pub(crate) fn ask_to_stop(&mut self) {
        self.stop.take().expect("asked once").send(()).expect("it serves");
    }

    /// Waits until the node has stopped.
    pub(crate) async fn ended(&mut self) {
        let ended = self.ended.take().expect("waited for once");
        timeout(Duration::from_secs(60), ended).await.expect("stops").unwrap().unwrap();
    }

    /// Ends the node at once, its connections with it.
    pub(crate) fn kill(&mut self) {
        // Whoever is not asked to stop goes on serving.
        if let Some(stop) = self.stop.take() {
            std::mem::forget(stop);
        }
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

/// All samples of dataset `d`, in order.
pub(crate) async fn all_samples(storage: &Storage) -> Result<Vec<EncodedSample>, StorageError> {
    let manifest = storage.manifests().next().expect("a dataset");
    let mut samples = Vec::new();
    for (at, shard) in manifest.shards().iter().enumerate() {
        let indices: Vec<u32> = (0..shard.samples).collect();
        let all = FieldSelection::all();
        samples.extend(storage.read("d", at as u32, &indices, &all).await?);
    }
    Ok(samples)
}

/// An error with its causes.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}
