//! How fast samples are read: each way in turn, from files that are in the kernel's cache, every byte
//! looked at. Beside them the yardstick: a plain scan of the same files through a map.
//!
//! The node and its reader are in this process, so that its CPU time is that of both ends. A further way
//! is a [`Way`] and an arm of [`Bench::reader`].

mod map;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headwater_augment::decode::{DecodeLimits, Decoder};
use headwater_core::Manifest;
use headwater_storage::{Storage, StorageConfig, find_shards, listen};
use headwater_storage_client::{
    Dataset, FieldSelection, LocalFiles, StorageClient, StorageClientConfig,
};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::bench::cpu::cpu_time;
use crate::shutdown::Shutdown;

pub(crate) use report::Report;

/// Samples of one read, neighbours in their shard.
const PART_SAMPLES: u32 = 64;
/// Reads at the same time.
const READS_AT_ONCE: usize = 4;

/// A way to samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Whole files through a map, by one thread: what the machine can do.
    Map,
    /// Files of the same host, as a worker reads them.
    File,
    /// From a node, over gRPC.
    Grpc,
}

/// What one way did in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) samples_per_s: f64,
    pub(crate) bytes_per_s: f64,
    /// Bytes for each second of CPU time, node and reader together.
    pub(crate) bytes_per_cpu_s: f64,
}

/// A node, its readers, and the files.
pub(crate) struct Bench {
    runtime: Runtime,
    shutdown: Shutdown,
    file: StorageClient,
    grpc: StorageClient,
    manifests: Vec<Arc<Manifest>>,
    shards: Vec<PathBuf>,
    length: Duration,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    samples: u64,
    bytes: u64,
}

// === impl Way ===

impl Way {
    /// In the order in which a round takes them.
    pub(crate) const ALL: [Self; 3] = [Self::Map, Self::File, Self::Grpc];

    /// As tables and JSON have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::File => "file",
            Self::Grpc => "grpc",
        }
    }
}

// === impl Bench ===

impl Bench {
    /// Starts a node on a port of its own, and connects to it. A measurement takes `length`.
    pub(crate) fn start(
        runtime: Runtime,
        config: StorageConfig,
        shutdown: Shutdown,
        length: Duration,
    ) -> Result<Self> {
        // A worker's allocator is what its first decoder makes it.
        drop(Decoder::new(DecodeLimits::default())?);
        let patterns = config.datasets.iter().flat_map(|dataset| dataset.shards.clone());
        let shards = find_shards(&patterns.collect::<Vec<_>>())?;
        let names: Vec<String> = config.datasets.iter().map(|d| d.name.clone()).collect();
        let access = config.security.clone();
        let (address, storage) = runtime.block_on(async {
            let storage = Storage::open(config).await?;
            let listener = listen("127.0.0.1:0").await?;
            let address = listener.local_addr().context("a listener has an address")?;
            let served = storage.clone();
            tokio::spawn(async move { served.serve_on(listener, std::future::pending()).await });
            anyhow::Ok((address.to_string(), storage))
        })?;
        let connect = |local_files| {
            StorageClient::connect(StorageClientConfig {
                nodes: vec![address.clone()],
                local_files,
                local_roots: vec!["/".into()],
                access: access.clone(),
                ..Default::default()
            })
        };
        let file = runtime.block_on(connect(LocalFiles::Auto))?;
        let grpc = runtime.block_on(connect(LocalFiles::Off))?;
        let known = names.iter().map(|name| storage.manifests().find(|m| m.dataset() == name));
        let manifests = known.flatten().map(|manifest| Arc::new(manifest.clone())).collect();
        Ok(Self { runtime, shutdown, file, grpc, manifests, shards, length })
    }

    /// Samples of the datasets.
    pub(crate) fn samples(&self) -> u64 {
        self.manifests.iter().map(|manifest| manifest.samples()).sum()
    }

    /// Bytes of their files.
    pub(crate) fn bytes(&self) -> u64 {
        self.manifests.iter().flat_map(|m| m.shards()).map(|shard| shard.bytes).sum()
    }

    /// One measurement.
    pub(crate) fn measure(&self, way: Way) -> Result<Figures> {
        self.shutdown.check()?;
        let own = std::process::id();
        let (began, cpu) = (Instant::now(), cpu_time(own)?);
        let read = match self.reader(way) {
            None => self.scan(began)?,
            Some(client) => {
                let before = client.bytes_read();
                let read = self.runtime.block_on(self.read(client, began))?;
                let after = client.bytes_read();
                let other = (after.file - before.file, after.grpc - before.grpc);
                let straight = if way == Way::File { other.1 == 0 } else { other.0 == 0 };
                ensure!(straight, "`{}` went another way: see the log", way.name());
                read
            }
        };
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), (cpu_time(own)? - cpu).as_secs_f64());
        Ok(Figures {
            samples_per_s: read.samples as f64 / seconds,
            bytes_per_s: read.bytes as f64 / seconds,
            bytes_per_cpu_s: read.bytes as f64 / cpu,
        })
    }

    fn reader(&self, way: Way) -> Option<&StorageClient> {
        match way {
            Way::Map => None,
            Way::File => Some(&self.file),
            Way::Grpc => Some(&self.grpc),
        }
    }

    /// Whole files, one after the other, each mapped anew.
    fn scan(&self, began: Instant) -> Result<Read> {
        let mut bytes = 0;
        let mut rounds = 0;
        while began.elapsed() < self.length {
            for shard in &self.shards {
                bytes += map::with_bytes_of(shard, |all| {
                    look_at(all);
                    all.len() as u64
                })?;
            }
            rounds += 1;
        }
        Ok(Read { samples: rounds * self.samples(), bytes })
    }

    async fn read(&self, client: &StorageClient, began: Instant) -> Result<Read> {
        let datasets: Vec<Dataset> =
            self.manifests.iter().map(|manifest| client.dataset(manifest.clone())).collect();
        let parts: Arc<Vec<_>> = Arc::new(parts(&datasets));
        let mut readers = JoinSet::new();
        for reader in 0..READS_AT_ONCE {
            let (parts, length) = (Arc::clone(&parts), self.length);
            readers.spawn(async move {
                let mut read = Read::default();
                for (dataset, shard, indices) in
                    parts.iter().cycle().skip(reader).step_by(READS_AT_ONCE)
                {
                    if began.elapsed() >= length {
                        break;
                    }
                    for sample in dataset.read(*shard, indices, &FieldSelection::all()).await? {
                        sample.fields().for_each(|(_, data)| look_at(data));
                        read.samples += 1;
                        read.bytes += sample.bytes();
                    }
                }
                anyhow::Ok(read)
            });
        }
        let mut all = Read::default();
        while let Some(read) = readers.join_next().await {
            let read = read.context("a reader panicked")??;
            all = Read { samples: all.samples + read.samples, bytes: all.bytes + read.bytes };
        }
        Ok(all)
    }
}

/// All samples, in runs of neighbours.
fn parts(datasets: &[Dataset]) -> Vec<(Dataset, u32, Vec<u32>)> {
    let mut parts = Vec::new();
    for dataset in datasets {
        for (shard, entry) in (0..).zip(dataset.manifest().shards()) {
            for first in (0..entry.samples).step_by(PART_SAMPLES as usize) {
                let end = (first + PART_SAMPLES).min(entry.samples);
                parts.push((dataset.clone(), shard, (first..end).collect()));
            }
        }
    }
    parts
}

/// Loads every byte; the same work for every way.
fn look_at(bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<8>();
    let all = words.iter().fold(0, |all, word| all ^ u64::from_ne_bytes(*word));
    std::hint::black_box((all, rest.iter().fold(0, |all, byte| all ^ byte)));
}
