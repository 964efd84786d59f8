//! Lines as samples: CSV and TSV with a header row, JSON objects, plain text. Any of them in gzip.
//!
//! A value is a field with the column's name, as it is written: numbers keep their digits. A line of
//! text is the field `txt`. Values of JSON that are objects, lists or truth stay JSON; `null` is a
//! field that is missing.

mod input;
mod json;
mod records;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::shard_index::FIELD_NAMES_MAX;
use headwater_core::{Digest, Digester};
use headwater_storage_client::Object;

use super::arrays;
use super::{Damage, Format, Opened, Outline, Packed, SampleSink};
use crate::source::{Place, Version};
use crate::{DatasetConfig, StorageError};
use records::{Fields, Records};

/// How lines are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// Values between commas.
    Csv,
    /// Values between tabs.
    Tsv,
    /// A JSON object a line.
    Json,
    /// Text.
    Text,
}

/// Reads files of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    kind: LineKind,
    columns: Vec<String>,
    shard_samples: u32,
    /// Where the shards of a file begin, by its name and version: so that opening one does not read
    /// those before it.
    starts: Mutex<HashMap<(String, Digest), Starts>>,
}

/// Where the shards of a file begin.
type Starts = Arc<Vec<u64>>;

/// One shard that is being unpacked.
#[derive(Debug)]
struct LineShard {
    object: Arc<dyn Object>,
    records: Records,
    stem: String,
    /// Number of the first record.
    first: u64,
    samples: u64,
}

/// A shard while a file is gone through.
struct Counted {
    samples: u32,
    bytes: u64,
    digester: Digester,
}

// === impl Lines ===

impl Lines {
    pub(crate) fn new(kind: LineKind, dataset: &DatasetConfig) -> Self {
        let DatasetConfig { columns, shard_samples, .. } = dataset.clone();
        Self { kind, columns, shard_samples, starts: Mutex::default() }
    }

    fn starts_of(&self, place: &Place, version: Digest) -> Option<Starts> {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.get(&(place.name(), version)).cloned()
    }

    fn records(
        &self,
        object: &Arc<dyn Object>,
        from: Option<(u64, u64)>,
    ) -> Result<Records, StorageError> {
        Records::open(object, self.kind, &self.columns, from)
    }
}

impl Format for Lines {
    /// Reads the whole file: nothing in it says how many lines there are.
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let object = arrays::open(place, None)?;
        let version = Version::of(&*object).digest();
        let mut records = self.records(&object, None)?;
        let (mut shards, mut starts, mut names) = (Vec::new(), Vec::new(), Names::default());
        let mut counted = Counted::new();
        let mut start = records.position();
        while let Some(fields) = records.next()? {
            if counted.samples == 0 {
                starts.push(start);
            }
            counted.add(&fields);
            names.add(place, &fields)?;
            if counted.samples == self.shard_samples {
                shards.push(std::mem::replace(&mut counted, Counted::new()));
            }
            start = records.position();
        }
        if counted.samples > 0 || shards.is_empty() {
            shards.push(counted);
        }
        object.check_unchanged()?;
        let mut kept = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert((place.name(), version), Arc::new(starts));
        let count = shards.len();
        let outline = |(number, shard): (usize, Counted)| Outline {
            name: arrays::shard_name(place, number, count),
            samples: shard.samples,
            bytes: shard.bytes,
            fields: names.names.clone(),
            digest: shard.digester.finish(),
            by: "scan",
            version,
        };
        Ok(shards.into_iter().enumerate().map(outline).collect())
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let object = arrays::open(place, Some(version))?;
        let first = u64::from(shard) * u64::from(self.shard_samples);
        let starts = self.starts_of(place, version);
        let start = starts.and_then(|starts| starts.get(shard as usize).copied());
        // Within gzip there is no place to go on from.
        let head = object.read(0..object.bytes().min(2))?;
        let start = start.filter(|&start| start > 0 && !head.starts_with(&input::GZIP_MAGIC));
        let mut records = self.records(&object, start.map(|start| (start, first)))?;
        if start.is_none() {
            for _ in 0..first {
                if records.next()?.is_none() {
                    return Err(StorageError::ShardChanged { name: object.name() });
                }
            }
        }
        let (stem, samples) = (key_stem(place), self.shard_samples.into());
        Ok(Opened::Packed(Box::new(LineShard { object, records, stem, first, samples })))
    }

    /// That of gzip is checked when lines are unpacked.
    fn verify(&self, _: &Place, _: u32, _: Digest) -> Result<Vec<Damage>, StorageError> {
        Ok(Vec::new())
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

/// A file's name without its endings: `a` for `a.jsonl.gz`.
fn key_stem(place: &Place) -> String {
    let stem = arrays::key_stem(place);
    let inner = if place.file_name().ends_with(".gz") { stem.rsplit_once('.') } else { None };
    inner.map_or(stem.clone(), |(inner, _)| inner.to_owned())
}

// === impl Counted ===

impl Counted {
    fn new() -> Self {
        Self { samples: 0, bytes: 0, digester: Digester::new("headwater lines 1") }
    }

    fn add(&mut self, fields: &Fields) {
        self.samples += 1;
        self.digester.number(fields.len() as u64);
        for (name, value) in fields {
            self.digester.bytes(name.as_bytes()).bytes(value);
            self.bytes += value.len() as u64;
        }
    }
}

/// Names of fields in the order in which they first occur.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    known: std::collections::HashSet<String>,
}

// === impl Names ===

impl Names {
    fn add(&mut self, place: &Place, fields: &Fields) -> Result<(), StorageError> {
        for (name, _) in fields {
            if self.known.contains(name) {
                continue;
            }
            if self.names.len() == FIELD_NAMES_MAX {
                let reason = format!(
                    "its lines have more than {FIELD_NAMES_MAX} different names of values: choose \
                     some with `columns`"
                );
                return Err(StorageError::Unserved { name: place.name(), reason });
            }
            self.names.push(name.clone());
            self.known.insert(name.clone());
        }
        Ok(())
    }
}

// === impl LineShard ===

impl Packed for LineShard {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        for number in self.first..self.first + self.samples {
            let Some(fields) = self.records.next()? else { break };
            sink.sample(&arrays::key(&self.stem, number))?;
            for (name, value) in &fields {
                sink.field(name, value)?;
            }
        }
        self.records.check()?;
        Ok(self.object.check_unchanged()?)
    }
}

#[cfg(test)]
mod tests;
