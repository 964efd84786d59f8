//! Map-style datasets of PyTorch, in processes of their own.
//!
//! A dataset is a class: `len()` of it and its attribute `version` are asked when a node starts, and with them the
//! source of its module. Each process that is started later must find the same. Its samples are cut into shards by
//! their numbers; a shard is made when it is first read, by several processes, and kept in the node's cache as an
//! unpacked one.

mod gather;
mod samples;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_core::{Digest, Digester};
use headwater_interpreter::{CallError, Dataset, DatasetIdentity, Settings};

use super::{Damage, Format, Opened, Outline, arrays};
use crate::source::Place;
use crate::{DatasetConfig, PythonConfig, StorageError};
use samples::Samples;

/// Reads what a class gives.
#[derive(Debug)]
pub(crate) struct Python {
    shard_samples: u32,
    sample_bytes_max: u64,
    pool: Arc<Datasets>,
}

/// Processes with datasets open, for those who read shards.
#[derive(Debug)]
pub(crate) struct Datasets {
    settings: Settings,
    arguments: serde_json::Map<String, serde_json::Value>,
    classes: Mutex<BTreeMap<String, Class>>,
    /// Of one shard at a time.
    processes: usize,
}

/// What is known of one class.
#[derive(Debug, Default)]
struct Class {
    identity: Option<DatasetIdentity>,
    /// What it was and became, as a process said that was started later: it is served no more.
    changed: Option<(String, String)>,
    idle: Vec<Dataset>,
}

// === impl Python ===

impl Python {
    pub(crate) fn new(config: &PythonConfig, dataset: &DatasetConfig) -> Self {
        let pool = Arc::new(Datasets {
            settings: config.interpreter(),
            arguments: dataset.arguments.clone().into_iter().collect(),
            classes: Mutex::default(),
            processes: config.processes(),
        });
        let (shard_samples, sample_bytes_max) = (dataset.shard_samples, dataset.sample_bytes_max);
        Self { shard_samples, sample_bytes_max, pool }
    }

    /// All that the samples follow from, as far as it can be known: the class, its arguments, the source of its
    /// module, its length, its version.
    fn digest(&self, place: &Place, identity: &DatasetIdentity) -> Digest {
        let DatasetIdentity { samples, version, source } = identity;
        let arguments = serde_json::to_string(&self.pool.arguments).unwrap_or_default();
        let mut digester = Digester::new("headwater python dataset 1");
        digester.bytes(class(place).as_bytes()).bytes(source.as_bytes());
        digester.bytes(arguments.as_bytes()).number(*samples);
        digester.bytes(version.as_deref().unwrap_or_default().as_bytes()).finish()
    }

    fn shards(&self, samples: u64) -> u64 {
        samples.div_ceil(self.shard_samples.into())
    }
}

impl Format for Python {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let dataset = self.pool.take(&class(place)).map_err(|error| failed(place, &error))?;
        let samples = dataset.identity().samples;
        let version = self.digest(place, dataset.identity());
        if dataset.identity().version.is_none() {
            tracing::warn!(
                dataset = place.name(),
                "has no attribute `version`: what its data is does not count in the manifest's digest, only its \
                 source and length; give it one that changes with the data"
            );
        }
        // Memory follows from the number of shards, which is whatever len() says.
        arrays::shards(&place.name(), samples, self.shard_samples.into())?;
        let fields = match samples {
            0 => {
                let reason = "it has no samples: its len() is 0".to_owned();
                return Err(StorageError::Unserved { name: place.name(), reason });
            }
            _ => self.fields(place, dataset)?,
        };
        let outline = |number: u64| {
            let first = number * u64::from(self.shard_samples);
            let of_shard = (samples - first).min(self.shard_samples.into());
            Outline {
                name: format!("{}#{number}", class(place)),
                samples: of_shard as u32,
                bytes: of_shard * self.sample_bytes_max,
                fields: fields.clone(),
                digest: Digester::new("headwater python shard 1")
                    .bytes(&version.to_bytes())
                    .number(first)
                    .number(of_shard)
                    .finish(),
                by: "python",
                version,
            }
        };
        Ok((0..self.shards(samples)).map(outline).collect())
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let dataset = self.pool.take(&class(place)).map_err(|error| failed(place, &error))?;
        let samples = dataset.identity().samples;
        let found = self.digest(place, dataset.identity());
        self.pool.give_back(&class(place), dataset);
        if found != version || u64::from(shard) >= self.shards(samples) {
            return Err(StorageError::ShardChanged { name: place.name() });
        }
        let first = u64::from(shard) * u64::from(self.shard_samples);
        let range = first..(first + u64::from(self.shard_samples)).min(samples);
        Ok(Opened::Packed(Box::new(Samples {
            place: place.clone(),
            range,
            bytes_max: self.sample_bytes_max,
            pool: self.pool.clone(),
        })))
    }

    fn is_known_by_its_digest(&self, place: &Place) -> bool {
        let classes = self.pool.classes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = classes.get(&class(place)).and_then(|class| class.identity.as_ref());
        known.is_some_and(|identity| identity.version.is_some())
    }

    /// There are no checksums beside it.
    fn verify(
        &self,
        place: &Place,
        shard: u32,
        version: Digest,
    ) -> Result<Vec<Damage>, StorageError> {
        self.open(place, shard, version).map(|_| Vec::new())
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn is_of_files(&self) -> bool {
        false
    }
}

impl Python {
    /// Names of the fields of the first sample that is not bad; a dataset whose first ones all are is refused with
    /// what they say.
    fn fields(&self, place: &Place, mut dataset: Dataset) -> Result<Vec<String>, StorageError> {
        const TRIED: u64 = 16;
        let mut last = None;
        for index in 0..dataset.identity().samples.min(TRIED) {
            match samples::read(&mut dataset, index) {
                Ok(fields) => {
                    self.pool.give_back(&class(place), dataset);
                    return Ok(fields.into_iter().map(|(name, _)| name).collect());
                }
                Err(error) if error.is_verdict() => last = Some(failed(place, &error)),
                Err(error) => {
                    self.pool.note(&class(place), &error);
                    return Err(failed(place, &error));
                }
            }
        }
        let nothing = || "none of its first samples can be read".to_owned();
        Err(last
            .unwrap_or_else(|| StorageError::Unserved { name: place.name(), reason: nothing() }))
    }
}

// === impl Datasets ===

impl Datasets {
    /// A process with the dataset open, which is the same as in all processes before it.
    fn take(&self, class: &str) -> Result<Dataset, CallError> {
        let known = {
            let mut classes = self.classes();
            let known = classes.entry(class.to_owned()).or_default();
            if let Some((had, has)) = known.changed.clone() {
                return Err(CallError::Changed { name: class.to_owned(), had, has });
            }
            if let Some(dataset) = known.idle.pop() {
                return Ok(dataset);
            }
            known.identity.clone()
        };
        let (settings, arguments) = (self.settings.clone(), self.arguments.clone());
        let mut opened = Dataset::open(settings, class, arguments, known.as_ref());
        let mut classes = self.classes();
        let known = classes.entry(class.to_owned()).or_default();
        if let Ok(dataset) = &opened {
            let first = known.identity.get_or_insert_with(|| dataset.identity().clone());
            // Another thread opened the first one meanwhile, and found other data.
            if *first != *dataset.identity() {
                let (had, has) = (first.to_string(), dataset.identity().to_string());
                opened = Err(CallError::Changed { name: class.to_owned(), had, has });
            }
        }
        if let Err(error) = &opened {
            known.note(error);
        }
        opened
    }

    fn give_back(&self, class: &str, dataset: Dataset) {
        let mut classes = self.classes();
        let known = classes.entry(class.to_owned()).or_default();
        if known.idle.len() < self.processes {
            known.idle.push(dataset);
        }
    }

    /// Takes note of an error of a class's dataset.
    fn note(&self, class: &str, error: &CallError) {
        self.classes().entry(class.to_owned()).or_default().note(error);
    }

    fn classes(&self) -> MutexGuard<'_, BTreeMap<String, Class>> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Class ===

impl Class {
    fn note(&mut self, error: &CallError) {
        if let CallError::Changed { had, has, .. } = error {
            self.changed = Some((had.clone(), has.clone()));
        }
    }
}

/// The class that a place names.
fn class(place: &Place) -> String {
    place.path.display().to_string()
}

fn failed(place: &Place, error: &CallError) -> StorageError {
    StorageError::Dataset { name: place.name(), reason: error.to_string() }
}
