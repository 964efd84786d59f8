//! Shards whose samples do not lie in their objects as they are, unpacked: the bytes of all fields one
//! after the other, and an index of them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::shard_index::ShardIndexError;
use headwater_core::{ShardIndex, ShardIndexBuilder};
use headwater_storage_client::{IndexedShard, Object, ObjectError};

use crate::StorageError;
use crate::format::{Packed, SampleSink};

/// Writes what a format unpacks.
pub(crate) struct Writer<'a> {
    name: &'a str,
    to: &'a mut dyn Write,
    index: ShardIndexBuilder,
    end: u64,
}

/// A file that has no name any more: it is gone with the last who reads it.
#[derive(Debug)]
struct Unnamed {
    name: String,
    file: File,
    bytes: u64,
}

// === impl Writer ===

impl<'a> Writer<'a> {
    /// Unpacks a shard, called `name` in messages. The index of what was written.
    ///
    /// # Errors
    /// What the format says, and where there is no room to write.
    pub(crate) fn unpack(
        packed: &mut dyn Packed,
        name: &'a str,
        to: &'a mut dyn Write,
    ) -> Result<ShardIndex, StorageError> {
        let mut writer = Self { name, to, index: ShardIndexBuilder::default(), end: 0 };
        packed.unpack(&mut writer)?;
        writer.to.flush().map_err(|source| writer.no_room(source))?;
        Ok(writer.index.finish())
    }

    fn no_room(&self, source: io::Error) -> StorageError {
        StorageError::Unpack { name: self.name.to_owned(), source }
    }

    fn failed(&self, source: ShardIndexError) -> StorageError {
        StorageError::Samples { name: self.name.to_owned(), source }
    }
}

impl SampleSink for Writer<'_> {
    fn sample(&mut self, key: &str) -> Result<(), StorageError> {
        let added = self.index.sample(key);
        added.map_err(|error| self.failed(error))
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let added = self.index.field(name, self.end, bytes.len() as u64);
        added.map_err(|error| self.failed(error))?;
        self.to.write_all(bytes).map_err(|source| self.no_room(source))?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// Unpacks a shard into a file without a name, for as long as somebody reads it: where no cache has
/// room.
///
/// # Errors
/// As [`Writer::unpack`].
pub(crate) fn unnamed(packed: &mut dyn Packed, name: &str) -> Result<IndexedShard, StorageError> {
    let failed = |source| StorageError::Unpack { name: name.to_owned(), source };
    let file = tempfile::tempfile().map_err(failed)?;
    let index = Writer::unpack(packed, name, &mut BufWriter::new(&file))?;
    let bytes = file.metadata().map_err(failed)?.len();
    let object = Arc::new(Unnamed { name: name.to_owned(), file, bytes });
    IndexedShard::new(object, index)
        .ok_or_else(|| StorageError::ShardChanged { name: name.to_owned() })
}

impl Object for Unnamed {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn version(&self) -> String {
        String::new()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        let read = |range: &Range<u64>| {
            let failed = |source: io::Error| {
                let (name, source) = (self.name.clone(), Box::new(source));
                ObjectError::Read { name, source }
            };
            if range.end > self.bytes {
                return Err(ObjectError::Changed { name: self.name.clone() });
            }
            let mut to = vec![0; range.end.saturating_sub(range.start) as usize];
            self.file.read_exact_at(&mut to, range.start).map_err(failed)?;
            Ok(to.into())
        };
        ranges.iter().map(read).collect()
    }

    /// Nobody else can write to it.
    fn check_unchanged(&self) -> Result<(), ObjectError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use headwater_storage_client::FieldSelection;

    use super::*;

    #[derive(Debug)]
    struct Three;

    impl Packed for Three {
        fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
            for (key, value) in [("a", "first"), ("b", ""), ("c", "third")] {
                sink.sample(key)?;
                sink.field("txt", value.as_bytes())?;
                sink.field("cls", b"1")?;
            }
            Ok(())
        }
    }

    #[test]
    fn what_is_unpacked_is_read_by_number() {
        let shard = unnamed(&mut Three, "x.parquet#0").unwrap();
        assert_eq!(shard.index().samples(), 3);
        let read = shard.read(&[2, 1, 0], &FieldSelection::all()).unwrap();
        let values: Vec<_> = read.iter().map(|sample| &sample.field("txt").unwrap()[..]).collect();
        assert_eq!(values, [&b"third"[..], b"", b"first"]);
        assert_eq!(read[0].key, "c");
    }

    #[test]
    fn no_room_names_the_shard_and_the_remedy() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = Writer::unpack(&mut Three, "x.parquet#0", &mut Full).unwrap_err().sentence();
        assert!(error.contains("x.parquet#0") && error.contains("TMPDIR"), "{error}");
    }
}
