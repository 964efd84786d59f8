//! What every format has to hold, whatever it reads: see [`Format`]'s contract.
//!
//! The same files are read from a disk and out of memory, by two objects of the format, with faults of
//! the source at every call and with bytes cut off.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use headwater_storage_client::{Field, FieldSelection, Object, ObjectError};

use super::{Format, Opened};
use crate::source::{Listed, Place, Source, Stat, Version};
use crate::{StorageError, unpacked};

/// A sample as a test shows it: key, and fields in order.
pub(crate) type Shown = (String, Vec<(String, Bytes)>);

/// Files in memory. Counts down to a call that fails.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    files: BTreeMap<PathBuf, Bytes>,
    /// Calls until one fails; below 0 none does.
    until_fault: Arc<AtomicI64>,
}

#[derive(Debug)]
struct MemoryObject {
    path: PathBuf,
    bytes: Bytes,
    source: Memory,
}

// === impl Memory ===

impl Memory {
    /// All files below a folder of this host, or one file, under the same names.
    pub(crate) fn of(place: &Place) -> Self {
        let paths = match place.stat().unwrap() {
            Stat::Folder => place.list().unwrap().into_iter().map(|listed| listed.path).collect(),
            Stat::Object(_) => {
                let folder = place.path.parent().unwrap();
                let beside = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
                beside.filter(|path| path.is_file()).collect::<Vec<_>>()
            }
        };
        let files = paths.into_iter().map(|path| {
            let bytes = std::fs::read(&path).unwrap().into();
            (path, bytes)
        });
        Self::new(files.collect())
    }

    /// These files.
    pub(crate) fn new(files: BTreeMap<PathBuf, Bytes>) -> Self {
        Self { files, until_fault: Arc::new(AtomicI64::new(-1)) }
    }

    /// Calls so far, where none is to fail.
    #[cfg(any(feature = "format-mds", feature = "format-parquet", feature = "format-zarr"))]
    pub(crate) fn calls(&self) -> i64 {
        -1 - self.until_fault.load(Ordering::Relaxed)
    }

    fn call(&self, path: &Path) -> Result<(), ObjectError> {
        if self.until_fault.fetch_sub(1, Ordering::Relaxed) == 0 {
            let (name, source) = (self.name(path), "the network is away".into());
            return Err(ObjectError::Read { name, source });
        }
        Ok(())
    }

    fn version(bytes: &Bytes) -> Version {
        Version { bytes: bytes.len() as u64, tag: headwater_core::Digest::of(bytes).to_string() }
    }
}

impl Source for Memory {
    fn name(&self, path: &Path) -> String {
        format!("memory:{}", path.display())
    }

    fn stat(&self, path: &Path) -> Result<Stat, ObjectError> {
        self.call(path)?;
        if let Some(bytes) = self.files.get(path) {
            return Ok(Stat::Object(Self::version(bytes)));
        }
        let below = self.files.keys().any(|file| file.starts_with(path));
        below.then_some(Stat::Folder).ok_or(ObjectError::NotFound { name: self.name(path) })
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>, ObjectError> {
        self.call(folder)?;
        let below = self.files.iter().filter(|(path, _)| path.starts_with(folder));
        let listed =
            below.map(|(path, bytes)| Listed { path: path.clone(), version: Self::version(bytes) });
        Ok(listed.collect())
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Object>, ObjectError> {
        self.call(path)?;
        let bytes = self.files.get(path).cloned();
        let bytes = bytes.ok_or(ObjectError::NotFound { name: self.name(path) })?;
        Ok(Arc::new(MemoryObject { path: path.to_owned(), bytes, source: self.clone() }))
    }
}

impl Object for MemoryObject {
    fn name(&self) -> String {
        self.source.name(&self.path)
    }

    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn version(&self) -> String {
        Memory::version(&self.bytes).tag
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        self.source.call(&self.path)?;
        let read = |range: &Range<u64>| {
            assert!(range.start <= range.end, "a range that runs backwards: {range:?}");
            if range.end > self.bytes() {
                return Err(ObjectError::Changed { name: self.name() });
            }
            Ok(self.bytes.slice(range.start as usize..range.end as usize))
        };
        ranges.iter().map(read).collect()
    }

    fn check_unchanged(&self) -> Result<(), ObjectError> {
        self.source.call(&self.path)
    }
}

/// Every sample of a place, in order.
///
/// # Errors
/// What the format says.
pub(crate) fn samples(format: &dyn Format, place: &Place) -> Result<Vec<Shown>, StorageError> {
    let mut shown = Vec::new();
    for (number, outline) in format.outlines(place)?.into_iter().enumerate() {
        let shard = match format.open(place, number as u32, outline.version)? {
            Opened::InPlace(shard) => {
                assert!(format.reads_in_place());
                assert_eq!(shard.index().digest(), outline.digest);
                shard
            }
            Opened::Packed(mut packed) => unpacked::unnamed(&mut *packed, "packed")?,
        };
        assert_eq!(shard.index().samples(), outline.samples);
        assert!(shard.index().field_bytes() <= outline.bytes, "whoever reads takes no more");
        if let Some(damage) = format.verify(place, number as u32, outline.version)?.pop() {
            return Err(StorageError::broken(place.name(), "a checksum", damage.fault));
        }
        let indices: Vec<u32> = (0..outline.samples).collect();
        for sample in shard.read(&indices, &FieldSelection::all())? {
            let pair = |field: &Field| (field.name.clone(), field.data.clone());
            let fields: Vec<_> = sample.fields().map(pair).collect();
            for (name, _) in &fields {
                assert!(outline.fields.contains(name), "the outline lacks `{name}`");
            }
            shown.push((sample.key, fields));
        }
    }
    Ok(shown)
}

/// Checks a format on a place of this host that it can read; all its samples. `make` makes the format
/// anew, as another process would.
pub(crate) fn check(make: &dyn Fn() -> Arc<dyn Format>, place: &Place) -> Vec<Shown> {
    let found = samples(&*make(), place).unwrap_or_else(|error| panic!("{}", error.sentence()));
    assert!(!found.is_empty(), "a place without a sample checks nothing");
    let memory = Memory::of(place);
    let same_elsewhere = Place { source: Arc::new(memory.clone()), path: place.path.clone() };
    assert_eq!(samples(&*make(), &same_elsewhere).unwrap(), found, "another source");
    let identity = |place: &Place| {
        let outlines = make().outlines(place).unwrap().into_iter();
        outlines.map(|o| (o.name, o.samples, o.bytes, o.fields, o.digest)).collect::<Vec<_>>()
    };
    assert_eq!(identity(place), identity(&same_elsewhere), "the manifest follows from the bytes");

    let version = make().outlines(&same_elsewhere).unwrap()[0].version;
    let other = headwater_core::Digest(version.0 ^ 1);
    let changed = make().open(&same_elsewhere, 0, other);
    assert!(matches!(changed, Err(StorageError::ShardChanged { .. })), "another version");

    faults(make, &memory, &same_elsewhere, &found);
    cuts(make, &memory, &same_elsewhere, &found);
    found
}

/// A fault of the source is never taken for a fault of the bytes, nor for bytes.
fn faults(make: &dyn Fn() -> Arc<dyn Format>, memory: &Memory, place: &Place, found: &[Shown]) {
    for call in 0.. {
        memory.until_fault.store(call, Ordering::Relaxed);
        let read = samples(&*make(), place);
        if memory.until_fault.load(Ordering::Relaxed) >= 0 {
            assert_eq!(read.unwrap(), found);
            break;
        }
        match read {
            Err(StorageError::Object(_) | StorageError::IdxRead { .. } | StorageError::Read(_)) => {
            }
            other => panic!("a fault at call {call} became {other:?}"),
        }
    }
    memory.until_fault.store(-1, Ordering::Relaxed);
}

/// Bytes that are cut off give an error, or samples that are whole: those before the cut.
fn cuts(make: &dyn Fn() -> Arc<dyn Format>, memory: &Memory, place: &Place, found: &[Shown]) {
    for (path, bytes) in &memory.files {
        let steps = 64.min(bytes.len());
        for step in 0..steps {
            let mut cut = memory.clone();
            let at = bytes.len() * step / steps;
            cut.files.insert(path.clone(), bytes.slice(..at));
            let place = Place { source: Arc::new(cut), path: place.path.clone() };
            let Ok(read) = samples(&*make(), &place) else { continue };
            let known = |shown: &Shown| found.iter().any(|(key, _)| *key == shown.0);
            assert!(read.iter().all(known), "cut at {at}, `{}` has strangers", path.display());
        }
    }
}
