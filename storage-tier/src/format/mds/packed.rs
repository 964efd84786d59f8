//! Shards that were compressed with zstd.

use std::io::Read;
use std::sync::Arc;

use headwater_core::{Digest, Digester};
use headwater_storage_client::Object;

use super::column::Kind;
use super::hashes;
use super::index::{File, Shard};
use super::layout;
use crate::StorageError;
use crate::format::{Packed, SampleSink, check_packed};

/// How much larger than its file a shard may be, beside [`FREE_BYTES`].
const GROWTH_MAX: u64 = 1100;
const FREE_BYTES: u64 = 4 << 20;
/// Bytes of a number in ASCII, or of what a `.npy` file has beside its values, at most.
const TEXT_BYTES: u64 = 192;

/// A compressed shard.
#[derive(Debug)]
pub(super) struct Zstd {
    pub(super) object: Arc<dyn Object>,
    pub(super) shard: Shard,
    /// Columns that become fields; none: all.
    pub(super) columns: Arc<[String]>,
}

// === impl Zstd ===

impl Zstd {
    /// Follows from the hashes that index.json has; without one, from all bytes of the file.
    pub(super) fn digest(&self) -> Result<Digest, StorageError> {
        let mut digester = Digester::new("headwater mds zstd 1");
        digester.number(self.shard.samples.into()).bytes(self.shard.stem().as_bytes());
        for (name, encoding) in self.shard.column_names.iter().zip(&self.shard.column_encodings) {
            digester.bytes(name.as_bytes()).bytes(encoding.as_bytes());
        }
        for name in self.fields() {
            digester.bytes(name.as_bytes());
        }
        digester.number(self.shard.raw_data.bytes).number(self.shard.file().bytes);
        let hashes = &self.shard.raw_data.hashes;
        for (name, hash) in hashes {
            digester.bytes(name.as_bytes()).bytes(hash.as_bytes());
        }
        if hashes.is_empty() {
            digester.bytes(&self.object.read(0..self.object.bytes())?);
        }
        Ok(digester.finish())
    }

    /// Names of the fields, in the order of the columns.
    pub(super) fn fields(&self) -> Vec<String> {
        let names = self.shard.column_names.iter();
        let wanted = |name: &&String| self.columns.is_empty() || self.columns.contains(name);
        names.filter(wanted).cloned().collect()
    }

    /// No less than all fields have.
    pub(super) fn bytes(&self) -> u64 {
        let texts = self.shard.column_names.len() as u64 * TEXT_BYTES;
        self.shard.raw_data.bytes.saturating_add(u64::from(self.shard.samples) * texts)
    }

    /// What is wrong with what index.json says of the file.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let name = || self.object.name();
        let compression = self.shard.compression.as_deref().unwrap_or_default();
        if compression.split(':').next() != Some("zstd") {
            let reason =
                format!("it is compressed with `{compression}`: write it with zstd or without");
            return Err(StorageError::Unserved { name: name(), reason });
        }
        self.shard
            .columns(&self.columns)
            .map_err(|reason| StorageError::Unserved { name: name(), reason })?;
        if self.object.bytes() != self.shard.file().bytes {
            return Err(StorageError::broken(name(), "its size", "it is not that of index.json"));
        }
        check_packed(name(), self.shard.samples.into(), self.object.bytes())?;
        let largest = self.object.bytes().saturating_mul(GROWTH_MAX).saturating_add(FREE_BYTES);
        if self.shard.raw_data.bytes > largest {
            return Err(StorageError::broken(name(), "its size", "it would become too large"));
        }
        Ok(())
    }

    fn raw(&self) -> Result<Vec<u8>, StorageError> {
        let zipped = self.object.read(0..self.object.bytes())?;
        self.object.check_unchanged()?;
        self.hashed(self.shard.file(), &zipped)?;
        let broken = |fault: &str| StorageError::broken(self.object.name(), "zstd", fault);
        let decoder = zstd::stream::read::Decoder::with_buffer(&zipped[..]);
        let mut raw = Vec::new();
        let expected = self.shard.raw_data.bytes;
        decoder
            .and_then(|decoder| decoder.take(expected + 1).read_to_end(&mut raw))
            .map_err(|error| broken(&error.to_string()))?;
        if raw.len() as u64 != expected {
            return Err(broken("it does not unpack to the size that index.json says"));
        }
        self.hashed(&self.shard.raw_data, &raw)?;
        Ok(raw)
    }

    /// Holds bytes against the hashes of index.json.
    fn hashed(&self, file: &File, bytes: &[u8]) -> Result<(), StorageError> {
        match hashes::fault(file, bytes) {
            None => Ok(()),
            Some(fault) => {
                let place = format!("`{}`", file.basename);
                Err(StorageError::broken(self.object.name(), place, fault))
            }
        }
    }
}

impl Packed for Zstd {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        self.check()?;
        let name = self.object.name();
        let broken = |place: String, fault: &str| StorageError::broken(&name, place, fault);
        let unserved = |reason| StorageError::Unserved { name: name.clone(), reason };
        let columns = self.shard.columns(&self.columns).map_err(unserved)?;
        let raw = self.raw()?;
        let table = layout::table_bytes(self.shard.samples) as usize;
        let table = raw.get(..table);
        let table =
            table.ok_or_else(|| broken("its table".to_owned(), "it is longer than the shard"))?;
        let samples = layout::samples(table, self.shard.samples, raw.len() as u64)
            .map_err(|fault| broken("its table".to_owned(), &fault))?;
        let head_bytes = layout::head_bytes(&columns);
        for (number, sample) in samples.iter().enumerate() {
            let place = || format!("sample {number}");
            let head =
                &raw[sample.start as usize..sample.end.min(sample.start + head_bytes) as usize];
            let values = layout::values(&columns, head, sample)
                .ok_or_else(|| broken(place(), "its values do not have its size"))?;
            sink.sample(&format!("{}/{number}", self.shard.stem()))?;
            for (column, range) in columns.iter().zip(values) {
                if column.kind == Kind::LeftOut {
                    continue;
                }
                let field = column.field(&raw[range.start as usize..range.end as usize]);
                let field =
                    field.ok_or_else(|| broken(place(), "a value is none of its encoding"))?;
                sink.field(&column.name, &field)?;
            }
        }
        Ok(())
    }
}
