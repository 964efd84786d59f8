//! Datasets: their shards found and indexed, each with its manifest.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use headwater_core::{Digest, Digester, Manifest, ShardEntry};
use headwater_storage_client::IndexedShard;

use crate::config::index_fallback_dir;
use crate::filter::{Filtering, Filters};
use crate::find::find_places;
use crate::format::{Format, Formats, Formatted, Opened, Outline, unless_it_panics};
use crate::in_order::in_order;
use crate::kept::{KeptIndices, Positions};
use crate::source::{Place, Sources};
use crate::{DatasetConfig, StorageConfig, StorageError, metrics};

/// Folders of a dataset that are asked for the names of its classes: each may be a request to a distant store.
const FOLDERS_MAX: usize = 64;

/// One dataset as it is served.
#[derive(Debug)]
pub(crate) struct Dataset {
    pub(crate) manifest: Manifest,
    /// In the order of the manifest.
    pub(crate) shards: Vec<ServedShard>,
}

/// Where a shard comes from, and which of its samples are served.
#[derive(Clone, Debug)]
pub(crate) struct ServedShard {
    from: Arc<Origin>,
    /// Its number in its place.
    number: u32,
    /// What it is with all of its samples, as it lies in its place, the cache and files beside it.
    pub(crate) whole: Whole,
    /// Those that its dataset's filters leave; all of them without filters.
    positions: Option<Arc<Positions>>,
}

/// A shard with all samples of its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    pub(crate) samples: u32,
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
    /// What the place's objects were when they were indexed.
    pub(crate) version: Digest,
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
        digester.bytes(&self.whole.version.to_bytes()).finish()
    }

    /// Whether filters left some of its samples out.
    pub(crate) fn is_filtered(&self) -> bool {
        self.positions.is_some()
    }

    /// The samples of the whole shard that are served.
    pub(crate) fn served(&self, whole: IndexedShard) -> IndexedShard {
        match &self.positions {
            Some(positions) => whole.only(|sample| positions.stays(sample)),
            None => whole,
        }
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

    /// The object or folder that it lies in.
    pub(crate) fn place(&self) -> &Place {
        &self.from.place
    }

    /// Opens it with all of its samples. Waits for its source.
    ///
    /// # Errors
    /// It is not what it was, or cannot be read now.
    pub(crate) fn open(&self) -> Result<Opened, StorageError> {
        self.from.format.open(&self.from.place, self.number, self.whole.version)
    }

    /// As [`Self::open`], with each request over a connection of its own.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_anew(&self) -> Result<Opened, StorageError> {
        let Place { source, path } = &self.from.place;
        let source = source.anew().unwrap_or_else(|| source.clone());
        let place = Place { source, path: path.clone() };
        self.from.format.open(&place, self.number, self.whole.version)
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
    let mut found: Vec<(String, usize)> = Vec::new();
    let (mut origins, mut filtering) = (Vec::new(), Vec::new());
    for dataset in &config.datasets {
        let mut formats = Formats::new(config, dataset, kept.clone());
        let places = find_places(&dataset.shards, sources)?;
        let places = formats.of_all(places)?;
        let filters = Filters::of(&dataset.name, &config.filters)?;
        let filters = filters.map(|filters| Arc::new(Filtering::new(filters, kept.positions())));
        filtering.extend(std::iter::repeat_n(filters, places.len()));
        found.push((dataset.name.clone(), places.len()));
        origins.extend(
            places
                .into_iter()
                .map(|Formatted { place, format, .. }| Arc::new(Origin { place, format })),
        );
    }
    let outline = |at: usize| {
        let Origin { place, format } = &*origins[at];
        let outlines = outlines(&**format, place)?;
        outlines.iter().for_each(|outline| metrics::indexed(outline.by));
        Ok(outlines)
    };
    let readers = config.reads.readers;
    let said = "shards are being indexed";
    let outlined = in_order(origins.len(), readers, (said, tell), &outline)?;
    let decided = decide_all(&origins, &filtering, &outlined, readers)?;
    let mut places = origins.into_iter().zip(filtering).zip(outlined.into_iter().zip(decided));
    let mut datasets = Vec::new();
    for (name, count) in found {
        let (mut entries, mut fields, mut shards) = (Vec::new(), Vec::new(), Vec::new());
        let (mut of_files, mut in_order, mut classes, mut filters) = (true, true, Vec::new(), None);
        let mut folders = HashSet::new();
        for ((from, filtering), (outlines, decided)) in places.by_ref().take(count) {
            filters = filtering;
            of_files &= from.format.is_of_files();
            in_order &= from.format.is_in_order();
            // A folder is known by now; of files, which may be many and far, one says it for all in its folder.
            let folder = from.place.path.parent().map(Path::to_owned);
            if of_files || (folders.len() <= FOLDERS_MAX && folders.insert(folder)) {
                classes.push(from.format.classes(&from.place)?);
            }
            let mut decided = decided.into_iter().map(Arc::new);
            for (number, outline) in outlines.into_iter().enumerate() {
                let Outline { name, samples, bytes, digest, version, .. } = outline;
                let (number, positions) = (number as u32, decided.next());
                let whole = Whole { samples, bytes, digest, version };
                entries.push(match &positions {
                    None => ShardEntry { name, samples, bytes, digest },
                    Some(stay) => {
                        let (samples, bytes, digest) = (stay.count(), stay.bytes, stay.digest);
                        ShardEntry { name, samples, bytes, digest }
                    }
                });
                shards.push(ServedShard { from: from.clone(), number, whole, positions });
                fields.push(outline.fields);
            }
        }
        name_apart(&mut entries, &shards);
        let fields = fields.concat();
        if let Some(filters) = filters {
            let decided = shards.iter().filter_map(|shard| shard.positions.as_deref());
            filters.tell(&name, decided, &fields)?;
        }
        let manifest = Manifest::new(name, fields, entries)?;
        let manifest = if of_files { manifest.of_files() } else { manifest };
        let manifest = if in_order { manifest.in_order() } else { manifest };
        // Where not all folders were asked, nobody knows.
        let classes = if folders.len() > FOLDERS_MAX { Vec::new() } else { shared(classes) };
        let manifest = manifest.with_classes(classes);
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

/// Which samples stay of each place's shards; nothing of places without filters. What is not known from an earlier start is
/// decided now, shard by shard: one place may have most of them.
///
/// # Errors
/// The first shard, in order, that cannot be read.
fn decide_all(
    origins: &[Arc<Origin>],
    filtering: &[Option<Arc<Filtering>>],
    outlined: &[Vec<Outline>],
    readers: usize,
) -> Result<Vec<Vec<Positions>>, StorageError> {
    let filtered = filtering.iter().enumerate();
    let filtered: Vec<(usize, &Filtering)> =
        filtered.filter_map(|(at, filtering)| Some((at, filtering.as_deref()?))).collect();
    let known = |number: usize| {
        let (at, filtering) = filtered[number];
        let Origin { place, format } = &*origins[at];
        Ok(filtering.known(&**format, place, &outlined[at]))
    };
    let silent = &mut |_, _| ();
    let known = in_order(filtered.len(), readers, ("filters are being read", silent), &known)?;
    let unknown = filtered.iter().zip(&known).filter(|(_, known)| known.is_none());
    let shards_of = |(&(at, filtering), _): (&(usize, _), _)| {
        (0..outlined[at].len()).map(move |shard| (at, filtering, shard))
    };
    let shards: Vec<_> = unknown.flat_map(shards_of).collect();
    let decide = |number: usize| {
        let (at, filtering, shard) = shards[number];
        let Origin { place, format } = &*origins[at];
        filtering.decide(&**format, place, shard as u32, &outlined[at][shard])
    };
    let said = "filters are being applied to shards";
    let mut decided = in_order(shards.len(), readers, (said, silent), &decide)?.into_iter();
    let mut all = vec![Vec::new(); origins.len()];
    for ((at, filtering), known) in filtered.into_iter().zip(known) {
        all[at] = known.unwrap_or_else(|| {
            let found: Vec<_> = decided.by_ref().take(outlined[at].len()).collect();
            let Origin { place, format } = &*origins[at];
            filtering.keep(&**format, place, &outlined[at], &found);
            found
        });
    }
    Ok(all)
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
