//! The records of a file that is not compressed.

use headwater_core::{ShardIndex, ShardIndexBuilder};
use headwater_storage_client::Object;

use super::crc;
use super::example::{Fault, Value, features};
use super::reach::{Reach, Window};
use crate::StorageError;
use crate::format::Damage;

/// Length and its checksum; the checksum of the data.
pub(super) const HEAD_BYTES: u64 = 12;
pub(super) const FOOT_BYTES: u64 = 4;

/// Bytes of records that are read together where all of them are.
const TOGETHER_BYTES: u64 = 8 << 20;

/// What was found in a file.
pub(super) struct Scan {
    pub(super) index: ShardIndex,
    /// Where each record starts, and how many bytes it has.
    pub(super) records: Vec<(u64, u64)>,
}

/// Scans a file for the features that `columns` names, all if it names none. The checksums of lengths are checked; those of data are not, since the bytes of
/// images are not read here.
///
/// # Errors
/// A file that cannot be read, is broken, or holds no Examples.
pub(super) fn scan(
    object: &dyn Object,
    stem: &str,
    columns: &[String],
    mut window: Window<'_>,
) -> Result<Scan, StorageError> {
    let name = object.name();
    let size = object.bytes();
    let mut index = ShardIndexBuilder::default();
    let mut records = Vec::new();
    let mut at = 0;
    while at < size {
        window.record(records.len())?;
        let place = || format!("byte {at}");
        let left = size - at;
        if left < HEAD_BYTES + FOOT_BYTES {
            return Err(StorageError::broken(&name, place(), "the last record was cut"));
        }
        let bytes = length(window.get(at..at + HEAD_BYTES)?)
            .map_err(|fault| StorageError::broken(&name, place(), fault))?;
        if bytes > left - HEAD_BYTES - FOOT_BYTES {
            return Err(StorageError::broken(&name, place(), "a record ends behind the file"));
        }
        let failed = |source| StorageError::Samples { name: name.clone(), source };
        index.sample(&format!("{stem}/{}", records.len())).map_err(failed)?;
        let data = at + HEAD_BYTES..at + HEAD_BYTES + bytes;
        let found = features(&mut window, data, columns).map_err(|fault| error(&name, fault))?;
        for feature in found {
            match feature.value {
                Value::Bytes(range) => {
                    index.field(&feature.name, range.start, range.end - range.start)
                }
                Value::Text(text) => index.inline(&feature.name, text.as_bytes()),
            }
            .map_err(failed)?;
        }
        records.push((at, HEAD_BYTES + bytes + FOOT_BYTES));
        at += HEAD_BYTES + bytes + FOOT_BYTES;
    }
    if records.is_empty() {
        return Err(StorageError::EmptyFile { name });
    }
    Ok(Scan { index: index.finish(), records })
}

/// The records whose data do not have their checksum.
///
/// # Errors
/// The file cannot be read.
pub(super) fn damage(
    object: &dyn Object,
    records: &[(u64, u64)],
) -> Result<Vec<Damage>, StorageError> {
    let mut damage = Vec::new();
    let mut number = 0;
    while number < records.len() {
        let start = records[number].0;
        let near = |(at, bytes): &&(u64, u64)| at + bytes - start <= TOGETHER_BYTES;
        let together = records[number..].iter().take_while(near).count().max(1);
        let records = &records[number..number + together];
        let (last, last_bytes) = records[together - 1];
        let bytes = object.read(start..last + last_bytes)?;
        for (at, (begin, size)) in (number..).zip(records) {
            let record = &bytes[(begin - start) as usize..(begin + size - start) as usize];
            let (data, foot) = record.split_at(record.len() - FOOT_BYTES as usize);
            if foot != crc::masked(&data[HEAD_BYTES as usize..]).to_le_bytes() {
                let fault = format!("the checksum of the record's data is wrong (byte {begin})");
                damage.push(Damage { sample: Some(at as u32), fault });
            }
        }
        number += together;
    }
    Ok(damage)
}

/// The length that a head has.
pub(super) fn length(head: &[u8]) -> Result<u64, &'static str> {
    let (length, checksum) = head.split_at_checked(8).ok_or("a head was cut")?;
    if checksum != crc::masked(length).to_le_bytes() {
        return Err("no record begins here: the checksum of its length is wrong");
    }
    let length = length.first_chunk::<8>().ok_or("a head was cut")?;
    Ok(u64::from_le_bytes(*length))
}

/// What a fault of a record means for its file.
pub(super) fn error(name: &str, fault: Fault) -> StorageError {
    match fault {
        Fault::Broken(at, fault) => StorageError::broken(name, format!("byte {at}"), fault),
        Fault::Unserved(reason) => StorageError::Unserved { name: name.to_owned(), reason },
        Fault::Object(error) => error.into(),
    }
}
