//! A shard file mapped into memory. The one place of this crate with unsafe code.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{hint, io};

use bytes::Bytes;
use memmap2::{Advice, Mmap};

/// Pages are touched at this stride where the kernel cannot populate a range by itself.
const PAGE_BYTES: usize = 4096;

/// A file mapped read-only. Slices share the mapping and keep it alive.
#[derive(Debug)]
pub struct ShardMap {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    map: std::sync::Arc<Mmap>,
    /// The whole mapping; slices are cut from it.
    bytes: Bytes,
}

/// What makes a file the same file, unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// Why a shard cannot be mapped or read.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// It cannot be opened or mapped.
    #[error("shard `{path}` cannot be read: check that it exists and may be read")]
    Open {
        /// Path of the shard.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is a folder.
    #[error(
        "shard `{path}` is a folder: name the shards in it, as in `{}`", path.join("*.tar").display()
    )]
    Folder {
        /// Path of the folder.
        path: PathBuf,
    },
    /// It is a pipe, a device or the like.
    #[error("shard `{path}` is not a regular file: name a tar archive")]
    NotAFile {
        /// Path of the shard.
        path: PathBuf,
    },
    /// It is not the file that was opened any more.
    #[error(
        "shard `{path}` was changed while it was in use: shards must not be written to; \
         restart the storage node to index it anew"
    )]
    Changed {
        /// Path of the shard.
        path: PathBuf,
    },
    /// Its bytes cannot be had from the disk.
    #[error("bytes {start} to {end} of shard `{path}` cannot be read from the disk")]
    PageIn {
        /// Path of the shard.
        path: PathBuf,
        /// First byte.
        start: u64,
        /// First byte after.
        end: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What `Bytes` owns, so that slices keep the mapping.
struct Owner(std::sync::Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

// === impl FileIdentity ===

impl FileIdentity {
    /// From what the file system says of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: metadata
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.mtime_nsec()),
        }
    }
}

// === impl ShardMap ===

impl ShardMap {
    /// Opens and maps a file. Blocking.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, MapError> {
        let open_error = |source| MapError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(open_error)?;
        let metadata = file.metadata().map_err(open_error)?;
        Self::check_kind(path, &metadata)?;
        // SAFETY: the mapping is read-only and private to readers, and shards are never written to
        // once they are part of a dataset (docs: "shards are immutable"); `page_in` compares size
        // and time of change before each read, so that a shard that is written to all the same is
        // refused rather than read, except for a writer that comes between check and use.
        let map = unsafe { Mmap::map(&file) }.map_err(open_error)?;
        let map = std::sync::Arc::new(map);
        let bytes = Bytes::from_owner(Owner(map.clone()));
        let identity = FileIdentity::of(&metadata);
        Ok(Self { path: path.to_owned(), file, identity, map, bytes })
    }

    /// Checks that a path leads to a regular file.
    ///
    /// # Errors
    /// It leads to a folder or anything else.
    pub fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), MapError> {
        let path = path.to_owned();
        match metadata.file_type() {
            kind if kind.is_file() => Ok(()),
            kind if kind.is_dir() => Err(MapError::Folder { path }),
            _ => Err(MapError::NotAFile { path }),
        }
    }

    /// Path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which file it is.
    #[must_use]
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The whole file. Touching it may wait for the disk.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// A part of the file without a copy; `None` where it is not all within the file.
    #[must_use]
    pub fn slice(&self, offset: u64, bytes: u64) -> Option<Bytes> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.bytes.len() as u64)?;
        Some(self.bytes.slice(offset as usize..end as usize))
    }

    /// Asks the kernel to fetch ranges soon; does not wait. Advice: ranges beyond the end and
    /// refusals of the kernel are passed over.
    pub fn will_need(&self, ranges: impl IntoIterator<Item = Range<u64>>) {
        for range in ranges {
            let range = self.clamp(&range);
            if !range.is_empty() {
                let _ = self.map.advise_range(Advice::WillNeed, range.start, range.len());
            }
        }
    }

    /// Fetches ranges from the disk, so that reading them afterwards does not wait. Blocking: not
    /// for async threads.
    ///
    /// # Errors
    /// The file was changed since it was opened, or the disk fails.
    pub fn page_in(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<(), MapError> {
        self.check_unchanged()?;
        for range in ranges {
            let range = self.clamp(&range);
            if range.is_empty() {
                continue;
            }
            match self.map.advise_range(Advice::PopulateRead, range.start, range.len()) {
                Ok(()) => {}
                // Kernels before 5.14 do not know the advice.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.touch(&range),
                Err(source) => {
                    let (path, start, end) = (self.path.clone(), range.start, range.end);
                    return Err(MapError::PageIn {
                        path,
                        start: start as u64,
                        end: end as u64,
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), MapError> {
        let path = || self.path.clone();
        let metadata =
            self.file.metadata().map_err(|source| MapError::Open { path: path(), source })?;
        if FileIdentity::of(&metadata) != self.identity {
            return Err(MapError::Changed { path: path() });
        }
        Ok(())
    }

    fn touch(&self, range: &Range<usize>) {
        for at in range.clone().step_by(PAGE_BYTES).chain([range.end - 1]) {
            hint::black_box(self.bytes[at]);
        }
    }

    fn clamp(&self, range: &Range<u64>) -> Range<usize> {
        let len = self.bytes.len() as u64;
        range.start.min(len) as usize..range.end.min(len) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::iter;

    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn a_slice_outlives_its_map_and_stays_within_the_file() {
        let content: Vec<u8> = (0..20_000u32).map(|i| i as u8).collect();
        let file = file(&content);
        let map = ShardMap::open(file.path()).unwrap();
        map.will_need(iter::once(0..u64::MAX));
        map.page_in([5000..15_000, 19_999..30_000, 7..7]).unwrap();
        let slice = map.slice(5000, 10_000).unwrap();
        assert!(map.slice(19_999, 2).is_none() && map.slice(u64::MAX, 1).is_none());
        assert_eq!(map.slice(20_000, 0).unwrap().len(), 0);
        drop(map);
        assert_eq!(slice, content[5000..15_000]);
    }

    #[test]
    fn a_file_that_shrinks_is_refused_rather_than_read() {
        let file = file(&[1; 8192]);
        let map = ShardMap::open(file.path()).unwrap();
        file.as_file().set_len(100).unwrap();
        let error = map.page_in(iter::once(0..8192)).unwrap_err();
        assert!(matches!(error, MapError::Changed { .. }), "{error}");
    }

    #[test]
    fn what_cannot_be_mapped_is_named() {
        let error = ShardMap::open(Path::new("/nowhere/a.tar")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/a.tar"), "{error}");
        let said = |path: &str| ShardMap::open(Path::new(path)).unwrap_err().to_string();
        assert_eq!(
            said("/tmp"),
            "shard `/tmp` is a folder: name the shards in it, as in `/tmp/*.tar`"
        );
        assert_eq!(
            said("/dev/null"),
            "shard `/dev/null` is not a regular file: name a tar archive"
        );
        assert_eq!(ShardMap::open(file(b"").path()).unwrap().as_slice(), b"");
    }
}
