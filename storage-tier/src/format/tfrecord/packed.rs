//! Files that were compressed with gzip as a whole.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use flate2::bufread::MultiGzDecoder;
use headwater_core::shard_index::FIELD_NAMES_MAX;
use headwater_core::{Digest, Digester};
use headwater_storage_client::Object;

use super::crc;
use super::example::{Value, features};
use super::reach::Whole;
use super::scan::{FOOT_BYTES, HEAD_BYTES, error, length};
use crate::StorageError;
use crate::format::{Packed, SampleSink, check_packed};

/// Bytes that are read at once.
const READ_BYTES: u64 = 4 << 20;
/// How much gzip can make of a byte.
const GROWTH_MAX: u64 = 1040;
/// Bytes of a record.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// A compressed file.
#[derive(Debug)]
pub(super) struct Gzip {
    pub(super) object: Arc<dyn Object>,
    /// The file's name without its ending.
    pub(super) stem: String,
    /// Features that are read; none: all.
    pub(super) columns: Arc<[String]>,
}

/// What is in a compressed file.
#[derive(Debug)]
pub(super) struct Summary {
    digester: Digester,
    pub(super) samples: u32,
    pub(super) bytes: u64,
    pub(super) fields: Vec<String>,
}

/// An object from its first byte on.
struct Stream {
    object: Arc<dyn Object>,
    at: u64,
    bytes: Bytes,
}

// === impl Gzip ===

impl Gzip {
    /// Unpacks all of it once to know what it has.
    pub(super) fn summary(&mut self) -> Result<Summary, StorageError> {
        let digester = Digester::new("headwater tfrecord gzip 1");
        let mut summary = Summary { digester, samples: 0, bytes: 0, fields: Vec::new() };
        self.unpack(&mut summary)?;
        if summary.samples == 0 {
            return Err(StorageError::EmptyFile { name: self.object.name() });
        }
        Ok(summary)
    }

    fn record(
        &self,
        input: &mut impl Read,
        data: &mut Vec<u8>,
        at: u64,
    ) -> Result<bool, StorageError> {
        let broken = |fault: &str| {
            let place = format!("byte {at} of what it unpacks to");
            StorageError::broken(self.object.name(), place, fault)
        };
        let failed =
            |error: io::Error| match error.downcast::<headwater_storage_client::ObjectError>() {
                Ok(error) => error.into(),
                Err(error) => broken(&format!("it cannot be unpacked: {error}")),
            };
        data.clear();
        input.by_ref().take(HEAD_BYTES).read_to_end(data).map_err(failed)?;
        if data.is_empty() {
            return Ok(false);
        }
        let bytes = length(data).map_err(broken)?;
        let limit = RECORD_BYTES_MAX.min(self.object.bytes().saturating_mul(GROWTH_MAX));
        if bytes > limit {
            return Err(broken("a record is longer than it can be"));
        }
        data.clear();
        input.by_ref().take(bytes + FOOT_BYTES).read_to_end(data).map_err(failed)?;
        if data.len() as u64 != bytes + FOOT_BYTES {
            return Err(broken("the last record was cut"));
        }
        let foot = data.split_off(bytes as usize);
        if foot != crc::masked(data).to_le_bytes() {
            return Err(broken("the checksum of a record's data is wrong"));
        }
        Ok(true)
    }
}

impl Packed for Gzip {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let stream = Stream { object: self.object.clone(), at: 0, bytes: Bytes::new() };
        let mut input = MultiGzDecoder::new(BufReader::new(stream));
        let (mut data, mut at) = (Vec::new(), 0);
        let mut number = 0_u64;
        while self.record(&mut input, &mut data, at)? {
            sink.sample(&format!("{}/{number}", self.stem))?;
            let found = features(&mut Whole(&data), 0..data.len() as u64, &self.columns);
            for feature in found.map_err(|fault| error(&self.object.name(), fault))? {
                let bytes = match &feature.value {
                    Value::Bytes(range) => &data[range.start as usize..range.end as usize],
                    Value::Text(text) => text.as_bytes(),
                };
                sink.field(&feature.name, bytes)?;
            }
            at += HEAD_BYTES + data.len() as u64 + FOOT_BYTES;
            number += 1;
            check_packed(self.object.name(), number, self.object.bytes())?;
        }
        Ok(self.object.check_unchanged()?)
    }
}

// === impl Summary ===

impl Summary {
    pub(super) fn digest(&self) -> Digest {
        self.digester.finish()
    }
}

impl SampleSink for Summary {
    fn sample(&mut self, key: &str) -> Result<(), StorageError> {
        self.samples += 1;
        self.digester.bytes(b"sample").bytes(key.as_bytes());
        Ok(())
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.digester.bytes(name.as_bytes()).bytes(bytes);
        self.bytes += bytes.len() as u64;
        // More are refused when the file is unpacked.
        if self.fields.len() <= FIELD_NAMES_MAX && !self.fields.iter().any(|field| field == name) {
            self.fields.push(name.to_owned());
        }
        Ok(())
    }
}

// === impl Stream ===

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.bytes.has_remaining() {
            let end = self.object.bytes().min(self.at + READ_BYTES);
            self.bytes = self.object.read(self.at..end).map_err(io::Error::other)?;
            self.at = end;
        }
        let bytes = into.len().min(self.bytes.len());
        self.bytes.copy_to_slice(&mut into[..bytes]);
        Ok(bytes)
    }
}
