//! A shard's file, read by offset.
//!
//! Never mapped: somebody who truncates a mapped file ends every process that touches it. A copy
//! out of the kernel's cache costs next to nothing beside decoding (docs/benchmarks/storage.md), and
//! makes whatever becomes of the file an error here.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{Advice, OFlags, fadvise};

use crate::buffers;

/// Bytes that are fetched at a time, into memory that is thrown away: few enough for a core's cache.
const FETCH_BYTES: u64 = 256 << 10;

/// A file opened for reading.
#[derive(Debug)]
pub struct ShardFile {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
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

/// Why a shard's file cannot be opened or read now. None of it says anything about the bytes that
/// the shard's samples are made of: it may pass.
#[derive(Debug, thiserror::Error)]
pub enum ShardFileError {
    /// It cannot be opened.
    #[error("shard `{path}` cannot be opened: check that it exists and may be read")]
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
        "shard `{path}` was changed while it was in use: shards must not be written to; put the \
         former file back, or start the job anew with a storage node that has indexed the new one"
    )]
    Changed {
        /// Path of the shard.
        path: PathBuf,
    },
    /// Its bytes cannot be read from the disk.
    #[error("bytes {start} to {end} of shard `{path}` cannot be read")]
    Read {
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

    /// Whether a file has the size and the time of change of this one: the file itself, or a copy
    /// that was put in its place with both.
    #[must_use]
    pub fn is_unchanged(&self, other: &Self) -> bool {
        (self.bytes, self.modified_ns) == (other.bytes, other.modified_ns)
    }
}

// === impl ShardFile ===

impl ShardFile {
    /// Opens a file. Blocking.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, ShardFileError> {
        let open_error = |source| ShardFileError::Open { path: path.to_owned(), source };
        // A pipe of that name is refused below rather than waited for.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(open_error)?;
        let metadata = file.metadata().map_err(open_error)?;
        Self::check_kind(path, &metadata)?;
        Ok(Self { path: path.to_owned(), file, identity: FileIdentity::of(&metadata) })
    }

    /// Checks that a path leads to a regular file.
    ///
    /// # Errors
    /// It leads to a folder or anything else.
    pub fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), ShardFileError> {
        let path = path.to_owned();
        match metadata.file_type() {
            kind if kind.is_file() => Ok(()),
            kind if kind.is_dir() => Err(ShardFileError::Folder { path }),
            _ => Err(ShardFileError::NotAFile { path }),
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

    /// Bytes of the file. May wait for the disk: not for async threads.
    ///
    /// # Errors
    /// The file has become shorter, or the disk fails.
    pub fn read_at(&self, offset: u64, bytes: u64) -> Result<Bytes, ShardFileError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        buffers::filled(bytes, |to| self.read_exact_at(to, offset))
    }

    fn read_exact_at(&self, to: &mut [u8], offset: u64) -> Result<(), ShardFileError> {
        let end = offset.saturating_add(to.len() as u64);
        match self.file.read_exact_at(to, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(ShardFileError::Changed { path: self.path.clone() })
            }
            Err(source) => {
                Err(ShardFileError::Read { path: self.path.clone(), start: offset, end, source })
            }
        }
    }

    /// Asks the kernel to fetch ranges soon; does not wait. Advice: ranges beyond the end and
    /// refusals of the kernel are passed over.
    pub fn will_need(&self, ranges: impl IntoIterator<Item = Range<u64>>) {
        for range in ranges {
            if let Some(bytes) = range.end.checked_sub(range.start).and_then(NonZeroU64::new) {
                let _ = fadvise(&self.file, range.start, Some(bytes), Advice::WillNeed);
            }
        }
    }

    /// Reads ranges into the kernel's cache, so that reading them afterwards does not wait, for as
    /// long as they are `wanted`; whether that was to the end. Blocking: not for async threads.
    ///
    /// # Errors
    /// The file was changed since it was opened, or the disk fails.
    pub fn fetch(
        &self,
        ranges: &[Range<u64>],
        wanted: &dyn Fn() -> bool,
    ) -> Result<bool, ShardFileError> {
        let mut scratch = vec![0; FETCH_BYTES.min(self.identity.bytes) as usize];
        for range in ranges {
            for start in range.clone().step_by(FETCH_BYTES as usize) {
                if !wanted() {
                    return Ok(false);
                }
                let bytes = FETCH_BYTES.min(range.end - start) as usize;
                self.read_exact_at(&mut scratch[..bytes], start)?;
            }
        }
        self.check_unchanged()?;
        Ok(true)
    }

    /// Checks that the file is what it was when it was opened. What was read of it before this was
    /// asked is then what was indexed.
    ///
    /// # Errors
    /// It was written to, or the system does not tell.
    pub fn check_unchanged(&self) -> Result<(), ShardFileError> {
        let path = || self.path.clone();
        let metadata =
            self.file.metadata().map_err(|source| ShardFileError::Open { path: path(), source })?;
        if FileIdentity::of(&metadata) != self.identity {
            return Err(ShardFileError::Changed { path: path() });
        }
        Ok(())
    }
}

// === impl ShardFileError ===

impl ShardFileError {
    /// Whether this process or machine is short of something for now, or the disk is, so that the
    /// same file may be tried again here.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        let (Self::Open { source, .. } | Self::Read { source, .. }) = self else { return false };
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
        !absent.contains(&source.kind())
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
    fn bytes_are_those_of_the_file_and_stay_within_it() {
        let content: Vec<u8> = (0..600_000u32).map(|i| (i * 31) as u8).collect();
        let held = file(&content);
        let shard = ShardFile::open(held.path()).unwrap();
        let whole: Vec<_> = iter::once(0..600_000).collect();
        shard.will_need(iter::once(0..u64::MAX));
        assert!(shard.fetch(&whole, &|| true).unwrap());
        assert!(!shard.fetch(&whole, &|| false).unwrap(), "not wanted, so not read to its end");
        assert_eq!(shard.read_at(5000, 10_000).unwrap(), content[5000..15_000]);
        assert!(shard.read_at(600_000, 0).unwrap().is_empty());
    }

    /// With a map the process would end here.
    #[test]
    fn a_file_that_shrinks_is_an_error_for_whoever_reads_it() {
        let held = file(&[1; 8192]);
        let shard = ShardFile::open(held.path()).unwrap();
        held.as_file().set_len(100).unwrap();
        let changed = |read: Result<(), _>| matches!(read, Err(ShardFileError::Changed { .. }));
        assert!(changed(shard.read_at(4096, 10).map(drop)));
        let whole: Vec<_> = iter::once(0..8192).collect();
        assert!(changed(shard.fetch(&whole, &|| true).map(drop)));
        assert!(changed(shard.check_unchanged()));
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let error = ShardFile::open(Path::new("/nowhere/a.tar")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/a.tar") && !error.is_shortage(), "{error}");
        let said = |path: &str| ShardFile::open(Path::new(path)).unwrap_err().to_string();
        assert_eq!(
            said("/tmp"),
            "shard `/tmp` is a folder: name the shards in it, as in `/tmp/*.tar`"
        );
        assert_eq!(
            said("/dev/null"),
            "shard `/dev/null` is not a regular file: name a tar archive"
        );
        assert_eq!(ShardFile::open(file(b"").path()).unwrap().identity().bytes, 0);
    }
}
