//! Reads all that a file or folder has, for the fuzz targets.

use std::path::Path;
use std::sync::Arc;

use headwater_proto::storage::FieldSelection;

use crate::format::{Formats, Opened, SampleSink};
use crate::kept::KeptIndices;
use crate::source::Place;
use crate::{DatasetConfig, FormatKind, StorageConfig, StorageError};

/// Samples that are read at once.
const TOGETHER: usize = 64;

/// For tokens.
const SEQUENCE_LENGTH: u32 = 8;

/// Counts what is unpacked, up to a number of bytes.
struct Count {
    samples: u64,
    room: u64,
}

/// Reads every sample of a file or folder of this host; gives how many there are. No more than
/// `bytes_max` bytes of a shard are unpacked.
///
/// # Errors
/// Bytes that cannot be read, or are not of the format.
#[doc(hidden)]
pub fn fuzz_entry(path: &Path, format: FormatKind, bytes_max: u64) -> Result<u64, StorageError> {
    let sequence_length = Some(SEQUENCE_LENGTH);
    let dataset = DatasetConfig { format, sequence_length, ..DatasetConfig::default() };
    let kept = Arc::new(KeptIndices::new(None, None));
    let place = Place::of_file(path);
    let format = Formats::new(&StorageConfig::default(), &dataset, kept).of(&place)?;
    let mut samples = 0;
    for (number, outline) in format.outlines(&place)?.into_iter().enumerate() {
        format.verify(&place, number as u32, outline.version)?;
        match format.open(&place, number as u32, outline.version)? {
            Opened::InPlace(shard) => {
                let numbers: Vec<u32> = (0..shard.index().samples()).collect();
                for numbers in numbers.chunks(TOGETHER) {
                    samples += shard.read(numbers, &FieldSelection::all())?.len() as u64;
                }
            }
            Opened::Packed(mut packed) => {
                let mut count = Count { samples: 0, room: bytes_max };
                packed.unpack(&mut count)?;
                samples += count.samples;
            }
        }
    }
    Ok(samples)
}

impl SampleSink for Count {
    fn sample(&mut self, key: &str) -> Result<(), StorageError> {
        self.samples += 1;
        self.field("key", key.as_bytes())
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let full = || StorageError::broken("what is read", name, "there is no more room");
        self.room = self.room.checked_sub(bytes.len() as u64).ok_or_else(full)?;
        Ok(())
    }
}
