//! Shards whose samples do not lie in their objects as they are, unpacked: the bytes of all fields one
//! after the other, and an index of them.

use std::fs::File;
use std::hash::Hash;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use headwater_core::shard_index::ShardIndexError;
use headwater_core::{ShardIndex, ShardIndexBuilder};
use headwater_storage_client::{IndexedShard, Object, ObjectError, OpenShards};

use crate::StorageError;
use crate::format::{Packed, SampleSink, unless_it_panics};

/// Writes what a format unpacks.
pub(crate) struct Writer<'a> {
    name: &'a str,
    to: &'a mut dyn Write,
    index: ShardIndexBuilder,
    end: u64,
}

/// Most bytes of unnamed files of this process: as many as the usual cache has.
static BUDGET: Budget = Budget { taken: AtomicU64::new(0), most: 32 << 30 };

/// Bytes that files of unpacked shards have, over all of them.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: AtomicU64,
    most: u64,
}

/// A file that has no name any more: it is gone with the last who reads it, and so are its bytes in the budget.
#[derive(Debug)]
struct Unnamed {
    name: String,
    file: File,
    bytes: u64,
    budget: &'static Budget,
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
        unless_it_panics(|| name.to_owned(), || packed.unpack(&mut writer))?;
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

/// Opens a shard; where there is no room for it, once more after those are closed that nobody reads now.
///
/// # Errors
/// As `open`.
pub(crate) fn closing_idle<K: Eq + Hash + Clone, V: Clone, E: Clone>(
    shards: &OpenShards<K, V, E>,
    open: impl Fn() -> Result<V, StorageError>,
) -> Result<V, StorageError> {
    match open() {
        Err(error) if error.is_no_room() => {
            tracing::warn!(error = %error.sentence(), "shards are closed to make room for another");
            shards.close_idle();
            open()
        }
        opened => opened,
    }
}

/// Unpacks a shard into a file without a name, for as long as somebody reads it: where no cache has
/// room.
///
/// # Errors
/// As [`Writer::unpack`].
pub(crate) fn unnamed(packed: &mut dyn Packed, name: &str) -> Result<IndexedShard, StorageError> {
    within(&BUDGET, packed, name)
}

fn within(
    budget: &'static Budget,
    packed: &mut dyn Packed,
    name: &str,
) -> Result<IndexedShard, StorageError> {
    let failed = |source| StorageError::Unpack { name: name.to_owned(), source };
    let file = tempfile::tempfile().map_err(failed)?;
    let mut object = Unnamed { name: name.to_owned(), file, bytes: 0, budget };
    let index = Writer::unpack(packed, name, &mut BufWriter::new(&mut object))?;
    IndexedShard::new(Arc::new(object), index)
        .ok_or_else(|| StorageError::ShardChanged { name: name.to_owned() })
}

// === impl Unnamed ===

impl Write for Unnamed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let more = bytes.len() as u64;
        // Before the file grows; what is counted too much goes with the file.
        self.bytes += more;
        if self.budget.taken.fetch_add(more, Ordering::Relaxed) + more > self.budget.most {
            let error = format!("unpacked shards have {} bytes already", self.budget.most);
            return Err(io::Error::new(io::ErrorKind::StorageFull, error));
        }
        self.file.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
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
    fn a_shard_beyond_the_budget_has_the_idle_ones_closed() {
        // Each takes 13 bytes.
        static SMALL: Budget = Budget { taken: AtomicU64::new(0), most: 30 };
        let shard = || within(&SMALL, &mut Three, "x.parquet#0");
        let open = Arc::new(OpenShards::new(10));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let get = |key: u32| {
            let attempt = || closing_idle(&open, shard);
            runtime.block_on(open.clone().get_or_open(key, async { attempt().map_err(Arc::new) }))
        };
        let read = get(0).unwrap();
        assert!(get(1).is_ok() && open.len() == 2);
        assert!(shard().unwrap_err().is_no_room());
        assert!(get(2).is_ok() && open.len() == 1, "the others are closed");
        assert_eq!(read.index().samples(), 3, "one that is read stays as long");
        assert_eq!(SMALL.taken.load(Ordering::Relaxed), 26);
        assert!(get(3).is_ok());
        let (first, second) = (get(4).unwrap(), read);
        let error = get(5).unwrap_err().sentence();
        assert!(
            error.contains("make room in `storage.cache`") && error.contains("30 bytes"),
            "{error}"
        );
        drop((first, second, open));
        assert_eq!(SMALL.taken.load(Ordering::Relaxed), 0);
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
