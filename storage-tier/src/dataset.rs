//! Datasets: their shards found and indexed, each with its manifest.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use headwater_core::{Digest, Digester, Manifest, ShardEntry};

use crate::config::index_fallback_dir;
use crate::filter::{Filtered, Filters};
use crate::find::find_places;
use crate::format::{Format, Formats, Formatted, Opened, Outline, unless_it_panics};
use crate::kept::{KeptIndices, KeptPositions};
use crate::source::{Place, Sources};
use crate::{DatasetConfig, StorageConfig, StorageError, metrics};

/// How often the log says how far the indexing is.
const PROGRESS: Duration = Duration::from_secs(10);

/// One dataset as it is served.
#[derive(Debug)]
pub(crate) struct Dataset {
    pub(crate) manifest: Manifest,
    /// In the order of the manifest.
    pub(crate) shards: Vec<ServedShard>,
}

/// Where a shard comes from.
#[derive(Clone, Debug)]
pub(crate) struct ServedShard {
    from: Arc<Origin>,
    /// Its number in its place.
    number: u32,
    /// What the place's objects were when they were indexed.
    version: Digest,
}

/// A place, and how its bytes are to be read.
#[derive(Debug)]
struct Origin {
    place: Place,
    format: Arc<dyn Format>,
}

// === impl ServedShard ===

impl ServedShard {
    /// What people call the place that it lies in.
    pub(crate) fn name(&self) -> String {
        self.from.place.name()
    }

    /// What tells it from every other shard, and from itself before its place's objects were changed:
    /// two places may hold equal layouts that were written at the same time.
    pub(crate) fn identity(&self) -> Digest {
        let mut digester = Digester::new("headwater served shard 1");
        digester.bytes(self.from.place.whole_name().as_bytes()).number(self.number.into());
        digester.bytes(&self.version.to_bytes()).finish()
    }

    /// Whether a copy on this host is worth having. Files of their own are read one here, one there: a copy of all that
    /// make a shard would be waited for at nearly every sample.
    pub(crate) fn is_distant(&self) -> bool {
        let format = &self.from.format;
        format.reads_in_place() && !format.is_of_files() && self.from.place.is_distant()
    }

    /// Whether its samples lie on this host as they are.
    pub(crate) fn lies_here(&self) -> bool {
        self.from.format.reads_in_place() && !self.from.place.is_distant()
    }

    /// Its number in its place.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// What the place's objects were when they were indexed.
    pub(crate) fn version(&self) -> Digest {
        self.version
    }

    /// The object or folder that it lies in.
    pub(crate) fn place(&self) -> &Place {
        &self.from.place
    }

    /// Opens it. Waits for its source.
    ///
    /// # Errors
    /// It is not what it was, or cannot be read now.
    pub(crate) fn open(&self) -> Result<Opened, StorageError> {
        self.from.format.open(&self.from.place, self.number, self.version)
    }

    /// As [`Self::open`], with each request over a connection of its own.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_anew(&self) -> Result<Opened, StorageError> {
        let Place { source, path } = &self.from.place;
        let source = source.anew().unwrap_or_else(|| source.clone());
        let place = Place { source, path: path.clone() };
        self.from.format.open(&place, self.number, self.version)
    }
}

/// Finds and indexes all datasets on threads of its own, `readers` at a time. Blocking.
///
/// # Errors
/// The first shard, in order, that cannot be served; or shards that make no manifest.
pub(crate) fn index_datasets(
    config: &StorageConfig,
    sources: &Sources,
    kept: &Arc<KeptIndices>,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Dataset>, StorageError> {
    let started = Instant::now();
    check_named(config)?;
    let mut found: Vec<(String, usize, Option<Filtering>)> = Vec::new();
    let mut origins = Vec::new();
    for dataset in &config.datasets {
        let mut formats = Formats::new(config, dataset, kept.clone());
        let places = find_places(&dataset.shards, sources)?;
        let places = formats.of_all(places)?;
        let mut filtering = Filters::of(&dataset.name, &config.filters)?.map(Filtering::new);
        let count = places.len();
        let of_place = |Formatted { place, mut format, .. }| {
            if let Some(filtering) = &mut filtering {
                format = filtering.filtered(format, kept.positions());
            }
            Arc::new(Origin { place, format })
        };
        origins.extend(places.into_iter().map(of_place));
        found.push((dataset.name.clone(), count, filtering));
    }
    let mut outlines = outline_all(&origins, config.reads.readers, tell)?.into_iter().zip(origins);
    let mut datasets = Vec::new();
    for (name, places, filtering) in found {
        let (mut entries, mut fields, mut shards) = (Vec::new(), Vec::new(), Vec::new());
        let (mut of_files, mut classes) = (true, Vec::new());
        for (outlines, from) in outlines.by_ref().take(places) {
            of_files &= from.format.is_of_files();
            // A folder is known by now; of files, which may be many and far, the first says it for all.
            if classes.is_empty() || of_files {
                classes.push(from.format.classes(&from.place)?);
            }
            for (number, outline) in outlines.into_iter().enumerate() {
                let Outline { name, samples, bytes, digest, version, .. } = outline;
                let number = number as u32;
                shards.push(ServedShard { from: from.clone(), number, version });
                entries.push(ShardEntry { name, samples, bytes, digest });
                fields.push(outline.fields);
            }
        }
        if let Some(filtering) = filtering {
            filtering.tell(&name, entries.iter().map(|entry| u64::from(entry.samples)).sum())?;
        }
        name_apart(&mut entries, &shards);
        let manifest = Manifest::new(name, fields.concat(), entries)?;
        let manifest = if of_files { manifest.of_files() } else { manifest };
        let manifest = manifest.with_classes(shared(classes));
        tracing::info!(
            dataset = manifest.dataset(),
            shards = manifest.shards().len(),
            samples = manifest.samples(),
            digest = %manifest.digest(),
            "dataset is indexed"
        );
        datasets.push(Dataset { manifest, shards });
    }
    tracing::info!(seconds = started.elapsed().as_secs_f64(), "all datasets are indexed");
    Ok(datasets)
}

/// The filters of a dataset, and all that is filtered by them.
struct Filtering {
    filters: Arc<Filters>,
    places: Vec<Arc<Filtered>>,
}

// === impl Filtering ===

impl Filtering {
    fn new(filters: Filters) -> Self {
        Self { filters: Arc::new(filters), places: Vec::new() }
    }

    fn filtered(&mut self, format: Arc<dyn Format>, kept: Arc<KeptPositions>) -> Arc<dyn Format> {
        let filtered = Arc::new(Filtered::new(format, self.filters.clone(), kept));
        self.places.push(filtered.clone());
        filtered
    }

    /// Says and counts what each filter has left out, and how many samples `stay`.
    ///
    /// # Errors
    /// No sample stays.
    fn tell(&self, dataset: &str, stay: u64) -> Result<(), StorageError> {
        let mut sums = vec![0; self.filters.len()];
        for place in &self.places {
            sums.iter_mut().zip(place.left_out()).for_each(|(sum, more)| *sum += more);
        }
        for (filter, left_out) in self.filters.words().zip(&sums) {
            tracing::info!(dataset, filter, left_out, "samples do not meet a filter");
            metrics::left_out(dataset, &filter, *left_out);
        }
        if stay == 0 && sums.iter().any(|&sum| sum > 0) {
            let of = self.filters.words().zip(&sums).map(|(words, sum)| format!("{words}: {sum}"));
            let left_out = of.collect::<Vec<_>>().join(", ");
            return Err(StorageError::AllLeftOut { dataset: dataset.to_owned(), left_out });
        }
        Ok(())
    }
}

/// Checks that each dataset that a filter names is served.
///
/// # Errors
/// The first that is not.
fn check_named(config: &StorageConfig) -> Result<(), StorageError> {
    let is_there = |name: &str| config.datasets.iter().any(|dataset| dataset.name == name);
    let mut named = config.filters.iter().map(|filter| &filter.dataset);
    match named.find(|name| !name.is_empty() && !is_there(name)) {
        Some(name) => Err(StorageError::Config {
            key: "filter.dataset",
            value: name.clone(),
            remedy: "no dataset of that name is served: write the name of a [[dataset]], or leave it out for all",
        }),
        None => Ok(()),
    }
}

/// The names of classes that all places of a dataset have. None where they differ, or are texts of their own for each sample.
fn shared(mut classes: Vec<Vec<String>>) -> Vec<String> {
    const BYTES_MAX: usize = 1 << 20;
    classes.dedup();
    let one = (classes.len() == 1).then(|| classes.pop()).flatten();
    let is_short = |names: &Vec<String>| names.iter().map(String::len).sum::<usize>() <= BYTES_MAX;
    one.filter(is_short).unwrap_or_default()
}

/// Names shards by their path below the folder that all of them lie in, where the last part is not unique, as of
/// `part0/00000.tar` and `part1/00000.tar`. Names that are unique stay, and so do the digests that they are part of.
fn name_apart(entries: &mut [ShardEntry], shards: &[ServedShard]) {
    let mut names = HashSet::new();
    if entries.iter().all(|entry| names.insert(entry.name.as_str())) {
        return;
    }
    let folder =
        |shard: &ServedShard| shard.place().path.parent().map(Path::to_owned).unwrap_or_default();
    let is_below = |above: &Path| shards.iter().all(|shard| folder(shard).starts_with(above));
    let first = shards.first().map(folder).unwrap_or_default();
    let common = first.ancestors().find(|above| is_below(above)).unwrap_or(Path::new(""));
    for (entry, shard) in entries.iter_mut().zip(shards) {
        let folder = folder(shard);
        let below = folder.strip_prefix(common).unwrap_or(&folder);
        if !below.as_os_str().is_empty() {
            entry.name = format!("{}/{}", below.display(), entry.name);
        }
    }
}

/// What a dataset begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstPlace {
    /// Files and folders that its patterns name.
    pub places: usize,
    /// The first of them.
    pub name: String,
    /// How many samples that one has.
    pub samples: u64,
}

/// Finds all places of a dataset and looks at the first one. Blocking.
///
/// # Errors
/// Patterns that name nothing; a first place that cannot be served.
pub fn first_place(
    config: &StorageConfig,
    dataset: &DatasetConfig,
) -> Result<FirstPlace, StorageError> {
    let places = find_places(&dataset.shards, &Sources::new(config))?;
    let kept = Arc::new(KeptIndices::new(config.index_dir.clone(), index_fallback_dir()));
    let places = Formats::new(config, dataset, kept).of_all(places)?;
    let Some(Formatted { place, format, .. }) = places.first() else {
        return Err(StorageError::NoMatch { pattern: dataset.shards.join(", ") });
    };
    let outlines = outlines(&**format, place)?;
    let samples = outlines.iter().map(|outline| u64::from(outline.samples)).sum();
    Ok(FirstPlace { places: places.len(), name: place.name(), samples })
}

/// What a format says of a place. A file that was never fetched is not taken for one that is broken.
///
/// # Errors
/// As [`Format::outlines`].
pub(crate) fn outlines(format: &dyn Format, place: &Place) -> Result<Vec<Outline>, StorageError> {
    unless_it_panics(|| place.name(), || format.outlines(place)).map_err(|error| {
        if is_of_content(&error) && is_lfs_pointer(place) {
            let reason = "it is a pointer of Git LFS, not the file itself: run `git lfs pull`";
            return StorageError::Unserved { name: place.name(), reason: reason.to_owned() };
        }
        error
    })
}

/// Whether it is what a file holds that is at fault: it could be read.
fn is_of_content(error: &StorageError) -> bool {
    use StorageError::{Broken, BrokenTar, Unserved};
    matches!(error, Broken { .. } | BrokenTar { .. } | Unserved { .. })
}

/// Whether a file holds no more than where Git LFS keeps its bytes.
fn is_lfs_pointer(place: &Place) -> bool {
    const BEGINS: &[u8] = b"version https://git-lfs.github.com/spec/";
    let head =
        place.open().and_then(|object| object.read(0..(BEGINS.len() as u64).min(object.bytes())));
    head.is_ok_and(|head| *head == *BEGINS)
}

/// The outlines of all places, in their order.
fn outline_all(
    origins: &[Arc<Origin>],
    readers: usize,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Vec<Outline>>, StorageError> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Vec<Outline>>> = Vec::new();
    results.resize_with(origins.len(), || None);
    let mut first_error: Option<(usize, StorageError)> = None;
    thread::scope(|scope| {
        let (send, receive) = channel();
        for _ in 0..readers.min(origins.len()) {
            let send = send.clone();
            scope.spawn(|| work(origins, &next, send));
        }
        drop(send);
        let (mut done, mut told) = (0, Instant::now());
        loop {
            match receive.recv_timeout(PROGRESS) {
                Ok((at, Ok(shard))) => {
                    results[at] = Some(shard);
                    done += 1;
                    tell(done, origins.len());
                }
                Ok((at, Err(error))) => {
                    // No more are begun; those before this one still come in.
                    next.store(origins.len(), Ordering::Relaxed);
                    if first_error.as_ref().is_none_or(|(first, _)| at < *first) {
                        first_error = Some((at, error));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if told.elapsed() >= PROGRESS {
                tracing::info!(done, of = origins.len(), "shards are being indexed");
                told = Instant::now();
            }
        }
    });
    match first_error {
        Some((_, error)) => Err(error),
        None => results.into_iter().map(|shard| shard.ok_or(StorageError::Panic)).collect(),
    }
}

/// Takes one place after the other until there is none left or nobody listens.
fn work(
    origins: &[Arc<Origin>],
    next: &AtomicUsize,
    send: Sender<(usize, Result<Vec<Outline>, StorageError>)>,
) {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(origin) = origins.get(at) else {
            return;
        };
        let outlines = outlines(&*origin.format, &origin.place);
        outlines.iter().flatten().for_each(|outline| metrics::indexed(outline.by));
        if send.send((at, outlines)).is_err() {
            return;
        }
    }
}
