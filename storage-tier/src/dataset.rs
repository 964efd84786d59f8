//! Datasets: their shards found and indexed, each with its manifest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use headwater_core::{Manifest, ShardEntry};
use headwater_storage_client::{FileIdentity, ShardFile};

use crate::find::{find_shards, roots};
use crate::index::Indexer;
use crate::{StorageConfig, StorageError, metrics};

/// How often the log is told how far the indexing is.
const PROGRESS: Duration = Duration::from_secs(10);

/// One dataset as it is served.
#[derive(Debug)]
pub(crate) struct Dataset {
    pub(crate) manifest: Manifest,
    /// Absolute paths, in the order of the manifest.
    pub(crate) paths: Vec<PathBuf>,
    /// What the files were when they were indexed, in that order.
    pub(crate) identities: Vec<FileIdentity>,
}

/// What is known of a shard once it is indexed.
struct Indexed {
    entry: ShardEntry,
    fields: Vec<String>,
    identity: FileIdentity,
}

/// Finds and indexes all datasets on threads of its own, `readers` at a time. Blocking.
///
/// # Errors
/// The first shard, in order, that cannot be served; or shards that make no manifest.
pub(crate) fn index_datasets(
    config: &StorageConfig,
    indexer: &Indexer,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Dataset>, StorageError> {
    let started = Instant::now();
    let mut found = Vec::new();
    for dataset in &config.datasets {
        let paths = find_shards(&dataset.shards)?;
        roots::check(&paths, &config.roots)?;
        found.push((dataset.name.clone(), paths));
    }
    let paths: Vec<&PathBuf> = found.iter().flat_map(|(_, paths)| paths).collect();
    let mut indexed = index_shards(&paths, config.readers, indexer, tell)?.into_iter();
    let mut datasets = Vec::new();
    for (name, paths) in found {
        let (mut entries, mut fields, mut identities) = (Vec::new(), Vec::new(), Vec::new());
        for shard in indexed.by_ref().take(paths.len()) {
            entries.push(shard.entry);
            fields.push(shard.fields);
            identities.push(shard.identity);
        }
        let manifest = Manifest::new(name, fields.concat(), entries)?;
        tracing::info!(
            dataset = manifest.dataset(),
            shards = manifest.shards().len(),
            samples = manifest.samples(),
            digest = %manifest.digest(),
            "dataset is indexed"
        );
        datasets.push(Dataset { manifest, paths, identities });
    }
    tracing::info!(seconds = started.elapsed().as_secs_f64(), "all datasets are indexed");
    Ok(datasets)
}

fn index_shards(
    paths: &[&PathBuf],
    readers: usize,
    indexer: &Indexer,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Indexed>, StorageError> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Indexed>> = Vec::new();
    results.resize_with(paths.len(), || None);
    let mut first_error: Option<(usize, StorageError)> = None;
    thread::scope(|scope| {
        let (send, receive) = channel();
        for _ in 0..readers.min(paths.len()) {
            let send = send.clone();
            scope.spawn(|| work(paths, indexer, &next, send));
        }
        drop(send);
        let (mut done, mut told) = (0, Instant::now());
        loop {
            match receive.recv_timeout(PROGRESS) {
                Ok((at, Ok(shard))) => {
                    results[at] = Some(shard);
                    done += 1;
                    tell(done, paths.len());
                }
                Ok((at, Err(error))) => {
                    // No more are begun; those before this one still come in.
                    next.store(paths.len(), Ordering::Relaxed);
                    if first_error.as_ref().is_none_or(|(first, _)| at < *first) {
                        first_error = Some((at, error));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if told.elapsed() >= PROGRESS {
                tracing::info!(done, of = paths.len(), "shards are being indexed");
                told = Instant::now();
            }
        }
    });
    match first_error {
        Some((_, error)) => Err(error),
        None => results.into_iter().map(|shard| shard.ok_or(StorageError::Panic)).collect(),
    }
}

/// Takes one shard after the other until there is none left or nobody listens.
fn work(
    paths: &[&PathBuf],
    indexer: &Indexer,
    next: &AtomicUsize,
    send: Sender<(usize, Result<Indexed, StorageError>)>,
) {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(path) = paths.get(at) else {
            return;
        };
        if send.send((at, index_shard(path, indexer))).is_err() {
            return;
        }
    }
}

fn index_shard(path: &Path, indexer: &Indexer) -> Result<Indexed, StorageError> {
    let file = ShardFile::open(path)?;
    let (index, source) = indexer.index(&file)?;
    // What was scanned is this very file.
    file.check_unchanged()?;
    metrics::indexed(source);
    // A name that is not UTF-8 is shown as well as it can be; the path itself stays as it is.
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let identity = file.identity();
    let (samples, bytes, digest) = (index.samples(), identity.bytes, index.digest());
    let entry = ShardEntry { name, samples, bytes, digest };
    Ok(Indexed { entry, fields: index.field_names().to_vec(), identity })
}
