//! The nodes that samples are read from, and a client for each way.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use headwater_core::Manifest;
use headwater_storage::{CacheLevel, NodeCacheConfig, Storage, StorageConfig, listen};
use headwater_storage_client::{LocalFiles, StorageClient, StorageClientConfig};
use tempfile::TempDir;

/// Where the cache is made, if it is there: in memory.
const MEMORY: &str = "/dev/shm";
/// Room in the cache for a byte of a shard: its index is kept as well.
const ROOM: u64 = 2;
const ROOM_MIN: u64 = 64 << 20;

/// Two nodes in this process, one of them with its own cache, and their clients.
pub(super) struct Nodes {
    pub(super) file: StorageClient,
    pub(super) cache: StorageClient,
    pub(super) grpc: StorageClient,
    pub(super) manifests: Vec<Arc<Manifest>>,
    _cache: TempDir,
}

// === impl Nodes ===

impl Nodes {
    pub(super) async fn start(config: StorageConfig) -> Result<Self> {
        let storage = Storage::open(config.clone()).await?;
        let names: Vec<String> = config.datasets.iter().map(|d| d.name.clone()).collect();
        let known = names.iter().map(|name| storage.manifests().find(|m| m.dataset() == name));
        let manifests: Vec<_> = known.flatten().map(|m| Arc::new(m.clone())).collect();
        let bytes: u64 = manifests.iter().flat_map(|m| m.shards()).map(|shard| shard.bytes).sum();

        let memory = Path::new(MEMORY);
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("headwater-bench-").tempdir_in(parent)?;
        let level = CacheLevel { dir: folder.path().to_owned(), bytes: ROOM_MIN + ROOM * bytes };
        let cache = NodeCacheConfig { cache: vec![level], cache_all: true, ..config.cache };
        let cached = StorageConfig { cache, ..config };
        let with_cache = serve(Storage::open(cached.clone()).await?).await?;
        let without = serve(storage).await?;
        let connect = |address: &str, local_files| {
            StorageClient::connect(StorageClientConfig {
                nodes: vec![address.to_owned()],
                local_files,
                local_roots: vec!["/".into()],
                access: cached.security.clone(),
                ..Default::default()
            })
        };
        Ok(Self {
            file: connect(&without, LocalFiles::Auto).await?,
            cache: connect(&with_cache, LocalFiles::Auto).await?,
            grpc: connect(&without, LocalFiles::Off).await?,
            manifests,
            _cache: folder,
        })
    }
}

/// Serves on a port that the system chooses; its address.
async fn serve(storage: Storage) -> Result<String> {
    let listener = listen("127.0.0.1:0").await?;
    let address = listener.local_addr().context("a listener has an address")?;
    tokio::spawn(async move { storage.serve_on(listener, std::future::pending()).await });
    Ok(address.to_string())
}
