//! The samples of one shard, read by several processes and handed on in order.

use std::ops::Range;
use std::sync::Arc;

use headwater_interpreter::{CallError, Dataset};

use super::gather::in_order;
use super::{Datasets, class, failed};
use crate::StorageError;
use crate::format::{Packed, SampleSink};
use crate::source::Place;

/// Times that a sample is asked for that could not be read, and is not said to be bad.
const TRIES: u32 = 3;

type Fields = Vec<(String, Vec<u8>)>;

/// One shard.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) place: Place,
    pub(super) range: Range<u64>,
    pub(super) bytes_max: u64,
    pub(super) pool: Arc<Datasets>,
}

// === impl Samples ===

impl Samples {
    /// The fields of a sample; none of one that the dataset says is bad.
    fn read(&self, dataset: &mut Dataset, index: u64) -> Result<Fields, StorageError> {
        match read(dataset, index) {
            Ok(fields) => self.checked(index, fields),
            Err(error) if error.is_verdict() => {
                tracing::warn!(%error, "a sample of a Python dataset has no fields: it is a bad one");
                Ok(Vec::new())
            }
            Err(error) => {
                self.pool.note(&class(&self.place), &error);
                Err(failed(&self.place, &error))
            }
        }
    }

    fn checked(&self, index: u64, fields: Fields) -> Result<Fields, StorageError> {
        let bytes: u64 = fields.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if bytes <= self.bytes_max {
            return Ok(fields);
        }
        let reason = format!(
            "sample {index} has {bytes} bytes, more than {}: raise dataset.sample_bytes_max, or give less",
            self.bytes_max
        );
        Err(StorageError::Unserved { name: self.place.name(), reason })
    }
}

/// Reads a sample, more than once if the error may pass.
pub(super) fn read(dataset: &mut Dataset, index: u64) -> Result<Fields, CallError> {
    let mut tries = 1;
    loop {
        match dataset.read(index) {
            Err(error) if error.may_pass() && tries < TRIES => {
                tracing::warn!(%error, tries, "a sample of a Python dataset is asked for again");
                tries += 1;
            }
            read => return read,
        }
    }
}

impl Packed for Samples {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let class = class(&self.place);
        let open = || self.pool.take(&class).map_err(|error| failed(&self.place, &error));
        let read = |dataset: &mut Dataset, index| self.read(dataset, index);
        let close = |dataset| self.pool.give_back(&class, dataset);
        let refused = |error: std::io::Error| StorageError::Dataset {
            name: self.place.name(),
            reason: format!("no thread for one of its processes: {error}"),
        };
        let (range, processes) = (self.range.clone(), self.pool.processes);
        in_order(range, processes, refused, open, read, close, |index, fields| {
            sink.sample(&format!("{index:09}"))?;
            fields.iter().try_for_each(|(name, bytes)| sink.field(name, bytes))
        })
    }
}
