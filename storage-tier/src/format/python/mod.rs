//! Map-style datasets of PyTorch, in processes of their own.
//!
//! A dataset is a class: `len()` of it and its attribute `version` are asked when a node starts, and with them the
//! source of its module. Its samples are cut into shards by their numbers; a shard is made when it is first read, by
//! several processes, and kept in the node's cache as an unpacked one.

mod gather;
mod samples;

use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::{Digest, Digester};
use headwater_interpreter::{CallError, Dataset, Interpreter, Settings};

use super::{Damage, Format, Opened, Outline, arrays};
use crate::source::Place;
use crate::{DatasetConfig, StorageConfig, StorageError};
use samples::Samples;

/// Reads what a class gives.
#[derive(Debug)]
pub(crate) struct Python {
    settings: Settings,
    arguments: serde_json::Map<String, serde_json::Value>,
    shard_samples: u32,
    sample_bytes_max: u64,
    pool: Arc<Datasets>,
}

/// Processes with the dataset open, for those who read shards.
#[derive(Debug)]
pub(crate) struct Datasets {
    settings: Settings,
    arguments: serde_json::Map<String, serde_json::Value>,
    idle: Mutex<Vec<Dataset>>,
    /// Of one shard at a time.
    processes: usize,
}

// === impl Python ===

impl Python {
    pub(crate) fn new(config: &StorageConfig, dataset: &DatasetConfig) -> Self {
        let settings = config.interpreter();
        let arguments = dataset.arguments.clone().into_iter().collect();
        let pool = Arc::new(Datasets {
            settings: settings.clone(),
            arguments: serde_json::Map::clone(&arguments),
            idle: Mutex::default(),
            processes: config.python_processes(),
        });
        let (shard_samples, sample_bytes_max) = (dataset.shard_samples, dataset.sample_bytes_max);
        Self { settings, arguments, shard_samples, sample_bytes_max, pool }
    }

    /// All that the samples follow from, as far as it can be known: the class, its arguments, the source of its
    /// module, its length, its version.
    fn identity(&self, place: &Place, dataset: &Dataset) -> Result<Digest, StorageError> {
        let name = class(place);
        let module = name.split_once(':').map_or(&*name, |(module, _)| module);
        let source = Interpreter::new(self.settings.clone()).source(module);
        let source = source.map_err(|error| failed(place, &error))?;
        let arguments = serde_json::to_string(&self.arguments).unwrap_or_default();
        let mut digester = Digester::new("headwater python dataset 1");
        digester.bytes(name.as_bytes()).bytes(source.sha256.as_bytes());
        digester.bytes(arguments.as_bytes()).number(dataset.samples());
        Ok(digester.bytes(dataset.version().unwrap_or_default().as_bytes()).finish())
    }

    fn shards(&self, samples: u64) -> u64 {
        samples.div_ceil(self.shard_samples.into())
    }
}

impl Format for Python {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let dataset = self.pool.take(&class(place)).map_err(|error| failed(place, &error))?;
        let (samples, version) = (dataset.samples(), self.identity(place, &dataset)?);
        if dataset.version().is_none() {
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
        let (samples, found) = (dataset.samples(), self.identity(place, &dataset)?);
        self.pool.give_back(dataset);
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
}

impl Python {
    /// Names of the fields of the first sample that can be read; a dataset whose first ones all raise is refused
    /// with what they say.
    fn fields(&self, place: &Place, mut dataset: Dataset) -> Result<Vec<String>, StorageError> {
        const TRIED: u64 = 16;
        let mut last = None;
        for index in 0..dataset.samples().min(TRIED) {
            match dataset.read(index) {
                Ok(fields) => {
                    self.pool.give_back(dataset);
                    return Ok(fields.into_iter().map(|(name, _)| name).collect());
                }
                Err(error) => last = Some(failed(place, &error)),
            }
        }
        let nothing = || "none of its first samples can be read".to_owned();
        Err(last
            .unwrap_or_else(|| StorageError::Unserved { name: place.name(), reason: nothing() }))
    }
}

// === impl Datasets ===

impl Datasets {
    /// A process with the dataset open.
    fn take(&self, class: &str) -> Result<Dataset, CallError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(dataset) => Ok(dataset),
            None => Dataset::open(self.settings.clone(), class, self.arguments.clone()),
        }
    }

    fn give_back(&self, dataset: Dataset) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.processes {
            idle.push(dataset);
        }
    }
}

/// The class that a place names.
fn class(place: &Place) -> String {
    place.path.display().to_string()
}

fn failed(place: &Place, error: &CallError) -> StorageError {
    StorageError::Unserved { name: place.name(), reason: error.to_string() }
}
