//! How fast samples are read: each way in turn that a dataset has, every byte looked at, from files that
//! are in the kernel's cache. Beside them the yardstick: a plain scan of the same files through a map.
//!
//! Nodes and their readers are in this process, so that its CPU time is that of both ends. A further way
//! is a [`Way`] and an arm of [`Bench::reader`].

mod map;
mod nodes;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headwater_render::decode::{DecodeLimits, Decoder};
use headwater_storage::{StorageConfig, find_shards};
use headwater_storage_client::{BytesRead, Dataset, FieldSelection, StorageClient};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::bench::cpu::cpu_time;
use crate::shutdown::Shutdown;

use nodes::Nodes;
pub(crate) use report::{Report, Summary};

/// Samples of one read, neighbours in their shard.
const PART_SAMPLES: u32 = 64;
/// Reads at the same time.
const READS_AT_ONCE: usize = 4;

/// A way to samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Whole files through a map, by one thread: the machine's limit.
    Map,
    /// Files of the same host, as a worker reads them.
    File,
    /// From the host's cache, as a worker reads it.
    Cache,
    /// From a node, over gRPC; the node reads files or, of a distant dataset, asks its source each time.
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

/// Nodes, their readers, and the files.
pub(crate) struct Bench {
    runtime: Runtime,
    shutdown: Shutdown,
    nodes: Nodes,
    /// Of files of this host; none: nothing is mapped.
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
    /// In the order of a round.
    const ALL: [Self; 4] = [Self::Map, Self::File, Self::Cache, Self::Grpc];

    /// As tables and JSON have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::File => "file",
            Self::Cache => "cache",
            Self::Grpc => "grpc",
        }
    }

    /// Whether the samples between two counts were read this way.
    fn is_straight(self, before: BytesRead, after: BytesRead) -> bool {
        let other = match self {
            Self::Map => 0,
            Self::File | Self::Cache => after.grpc - before.grpc,
            Self::Grpc => after.file - before.file,
        };
        other == 0
    }
}

// === impl Bench ===

impl Bench {
    /// Starts nodes on ports of their own, and connects to them. A measurement takes `length`.
    pub(crate) fn start(
        runtime: Runtime,
        config: StorageConfig,
        shutdown: Shutdown,
        length: Duration,
    ) -> Result<Self> {
        // A worker's allocator is what its first decoder makes it.
        drop(Decoder::new(DecodeLimits::default())?);
        let patterns = config.datasets.iter().flat_map(|dataset| dataset.shards.clone());
        // Objects elsewhere, and folders, are no files to map.
        let shards = find_shards(&patterns.collect::<Vec<_>>()).unwrap_or_default();
        let nodes = runtime.block_on(Nodes::start(config))?;
        Ok(Self { runtime, shutdown, nodes, shards, length })
    }

    /// The ways that the datasets have: not all are files of this host.
    pub(crate) fn ways(&self) -> Result<Vec<Way>> {
        let mut ways = Vec::new();
        for way in Way::ALL {
            let has = match self.reader(way) {
                None => !self.shards.is_empty(),
                Some(client) => self.runtime.block_on(self.goes_straight(way, client))?,
            };
            ways.extend(has.then_some(way));
        }
        Ok(ways)
    }

    /// Whether a sample of every dataset comes the way that it should.
    async fn goes_straight(&self, way: Way, client: &StorageClient) -> Result<bool> {
        let before = client.bytes_read();
        for manifest in &self.nodes.manifests {
            let shard = manifest.shards().iter().position(|shard| shard.samples > 0);
            if let Some(shard) = shard {
                let dataset = client.dataset(manifest.clone());
                dataset.read(shard as u32, &[0], &FieldSelection::all()).await?;
            }
        }
        Ok(way.is_straight(before, client.bytes_read()))
    }

    /// Samples of the datasets.
    pub(crate) fn samples(&self) -> u64 {
        self.nodes.manifests.iter().map(|manifest| manifest.samples()).sum()
    }

    /// Bytes of their shards.
    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.manifests.iter().flat_map(|m| m.shards()).map(|shard| shard.bytes).sum()
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
                let is_straight = way.is_straight(before, client.bytes_read());
                ensure!(is_straight, "`{}` did not read by its own path: see the log", way.name());
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
            Way::File => Some(&self.nodes.file),
            Way::Cache => Some(&self.nodes.cache),
            Way::Grpc => Some(&self.nodes.grpc),
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
            self.nodes.manifests.iter().map(|m| client.dataset(m.clone())).collect();
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
                        sample.fields().for_each(|field| look_at(&field.data));
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
