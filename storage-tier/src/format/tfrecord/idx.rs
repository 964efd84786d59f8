//! The index that `tfrecord2idx` writes: a line `offset size` for each record.

use headwater_storage_client::Object;

use crate::StorageError;
use crate::source::Place;

/// Bytes of the longest line.
const LINE_BYTES_MAX: u64 = 42;
/// Bytes of a record without data.
const RECORD_BYTES_MIN: u64 = 16;

/// What an index says.
#[derive(Debug)]
pub(super) struct Idx {
    name: String,
    /// Where each record starts, and how many bytes it has.
    pub(super) records: Vec<(u64, u64)>,
}

/// The index beside a file: its name with `.idx` behind it, or in place of its ending.
pub(super) fn places(place: &Place) -> [Place; 2] {
    let name = place.file_name();
    let stem = name.rsplit_once('.').map_or(&*name, |(stem, _)| stem);
    [place.beside(&format!("{stem}.idx")), place.beside(&format!("{name}.idx"))]
}

/// The index of these records.
pub(super) fn text(records: &[(u64, u64)]) -> String {
    records.iter().map(|(offset, size)| format!("{offset} {size}\n")).collect()
}

// === impl Idx ===

impl Idx {
    /// Reads an index of a file of that size.
    ///
    /// # Errors
    /// An index that cannot be read, or has lines that are no records of this file.
    pub(super) fn read(idx: &dyn Object, file_bytes: u64) -> Result<Self, StorageError> {
        let mut read = Self { name: idx.name(), records: Vec::new() };
        if idx.bytes() / LINE_BYTES_MAX > file_bytes / RECORD_BYTES_MIN {
            return Err(read.fault(0, "the index has more lines than the file has records"));
        }
        let bytes = idx.read(0..idx.bytes())?;
        idx.check_unchanged()?;
        let text = std::str::from_utf8(&bytes).map_err(|_| read.fault(0, "it is no text"))?;
        let mut end = 0;
        for (at, line) in text.lines().enumerate() {
            let record = line.split_once(' ').and_then(|(offset, size)| {
                let record: (u64, u64) = (offset.parse().ok()?, size.trim().parse().ok()?);
                let last = record.0.checked_add(record.1)?;
                (record.0 == end && last <= file_bytes).then_some(record)
            });
            let record = record.ok_or_else(|| read.fault(at, "no record lies there"))?;
            end = record.0 + record.1;
            read.records.push(record);
        }
        Ok(read)
    }

    /// Holds the index against what was found in the file.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn check(&self, found: &[(u64, u64)]) -> Result<(), StorageError> {
        let differs = self.records.iter().zip(found).position(|(told, found)| told != found);
        if let Some(at) = differs {
            return Err(self.fault(at, "a record of another size lies there"));
        }
        if self.records.len() != found.len() {
            let last = self.records.len().min(found.len());
            return Err(self.fault(last, "the file does not have as many records"));
        }
        Ok(())
    }

    fn fault(&self, line: usize, fault: &str) -> StorageError {
        let place = format!("line {}", line + 1);
        StorageError::Idx { name: self.name.clone(), place, fault: fault.to_owned() }
    }
}
