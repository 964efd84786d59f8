//! An entry that is open.

use std::fs::{File, FileTimes, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use rustix::io::Errno;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use crate::folders::{foreign, is_current};
use crate::header::{HEADER_BYTES, Header};
use crate::{Key, OpenError, Unavailable};

/// Bytes that are read at a time to be checked: few enough for a core's cache.
const CHECK_BYTES: usize = 256 << 10;

/// An entry that is open for reading. While it lives the entry is not evicted, by any process.
///
/// The bytes stay what they are: an entry is replaced by another file or not at all.
#[derive(Debug)]
pub struct Cached {
    path: PathBuf,
    /// With a shared lock, which ends with the last duplicate or mapping of the file.
    file: File,
    header: Header,
    meta: Vec<u8>,
}

// === impl Cached ===

impl Cached {
    /// Opens the entry of a key in a file that somebody else has named: a storage node of the same
    /// host, say. `owners` are users whose files are taken, beside this one's and root's.
    ///
    /// # Errors
    /// It is not there, damaged, somebody else's, or the system is short of something for now.
    pub fn open(path: &Path, key: &Key, owners: &[u32]) -> Result<Self, OpenError> {
        let is_current = is_current(path);
        let entry = Self::locked(path, key, owners)?;
        if !is_current || !entry.is_sealed()? {
            entry.check_payload()?;
        }
        entry.touch();
        Ok(entry)
    }

    /// Where it was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file. The payload does not begin at its start, but at [`Self::payload_offset`].
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the payload begins in the file, in bytes: at a page.
    #[must_use]
    pub fn payload_offset(&self) -> u64 {
        HEADER_BYTES as u64
    }

    /// Bytes of the payload.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.header.payload_bytes
    }

    /// What whoever filled it has said about the payload.
    #[must_use]
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// Opens, locks and checks all but the payload.
    pub(crate) fn locked(path: &Path, key: &Key, owners: &[u32]) -> Result<Self, OpenError> {
        let file = open(path)?;
        let metadata = file.metadata().map_err(|error| passing(path, error))?;
        if let Some(fault) = foreign(&metadata, owners) {
            return Err(OpenError::Untrusted { path: path.to_owned(), fault });
        }
        match file.try_lock_shared() {
            Ok(()) => {}
            // It is being evicted.
            Err(TryLockError::WouldBlock) => return Err(absent(path)),
            Err(TryLockError::Error(error)) => return Err(passing(path, error)),
        }
        let metadata = file.metadata().map_err(|error| passing(path, error))?;
        if metadata.nlink() == 0 {
            return Err(absent(path));
        }
        let damaged = |fault: String| OpenError::Damaged { path: path.to_owned(), fault };
        if !metadata.is_file() {
            return Err(damaged("it is not a file".to_owned()));
        }
        let (header, meta) = read_head(&file, metadata.len(), key)
            .map_err(|fault| fault.told(path))?
            .map_err(damaged)?;
        Ok(Self { path: path.to_owned(), file, header, meta })
    }

    /// What was written by this process just now.
    pub(crate) fn written(path: PathBuf, file: File, header: Header, meta: Vec<u8>) -> Self {
        Self { path, file, header, meta }
    }

    /// Renames the entry, as told by its folders.
    pub(crate) fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Whether the file was last changed by who wrote it.
    pub(crate) fn is_sealed(&self) -> Result<bool, OpenError> {
        let metadata = self.file.metadata().map_err(|error| passing(&self.path, error))?;
        let changed_at = u64::try_from(metadata.mtime());
        Ok((changed_at, metadata.mtime_nsec()) == (Ok(self.header.sealed_at), 0))
    }

    /// Checks the payload against its checksum, and vouches for it by the time of change.
    pub(crate) fn check_payload(&self) -> Result<(), OpenError> {
        let found = self.payload_checksum().map_err(|error| ReadFault(error).told(&self.path))?;
        if found != self.header.payload_checksum {
            let fault = "its payload does not have its checksum".to_owned();
            return Err(OpenError::Damaged { path: self.path.clone(), fault });
        }
        let sealed_at = SystemTime::UNIX_EPOCH + Duration::from_secs(self.header.sealed_at);
        // Another user's file keeps its time, and is checked each time it is opened.
        let _ = self.file.set_times(FileTimes::new().set_modified(sealed_at));
        Ok(())
    }

    /// Makes it the one used last. The file's time of access is not what the system makes of it,
    /// which it may leave as it is.
    pub fn touch(&self) {
        // Somebody else's file is not ours to keep.
        let _ = self.file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
    }

    fn payload_checksum(&self) -> io::Result<u128> {
        let mut checksum = Xxh3Default::new();
        let mut buffer = vec![0; CHECK_BYTES];
        let (mut at, end) = (self.payload_offset(), self.payload_offset() + self.payload_bytes());
        while at < end {
            let bytes = buffer.len().min((end - at) as usize);
            self.file.read_exact_at(&mut buffer[..bytes], at)?;
            checksum.update(&buffer[..bytes]);
            at += bytes as u64;
        }
        Ok(checksum.digest128())
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        // It was in use until now.
        self.touch();
    }
}

/// A read of an entry that failed.
pub(crate) struct ReadFault(pub(crate) io::Error);

// === impl ReadFault ===

impl ReadFault {
    /// What a drive cannot give back is damaged: nothing is lost, and it is fetched again. So is
    /// what has become shorter. Everything else may pass.
    pub(crate) fn told(self, path: &Path) -> OpenError {
        let is_lost = Errno::from_io_error(&self.0) == Some(Errno::IO)
            || self.0.kind() == io::ErrorKind::UnexpectedEof;
        if is_lost {
            return OpenError::Damaged { path: path.to_owned(), fault: self.0.to_string() };
        }
        passing(path, self.0)
    }
}

fn open(path: &Path) -> Result<File, OpenError> {
    // A pipe of that name is refused rather than waited for; a link leads who knows where.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) => absent(path),
        Some(Errno::LOOP) => {
            OpenError::Untrusted { path: path.to_owned(), fault: "is a link".to_owned() }
        }
        _ => passing(path, error),
    })
}

/// The header and the meta, or what is wrong with them.
pub(crate) fn read_head(
    file: &File,
    file_bytes: u64,
    key: &Key,
) -> Result<Result<(Header, Vec<u8>), String>, ReadFault> {
    let mut page = [0; HEADER_BYTES];
    file.read_exact_at(&mut page, 0).map_err(ReadFault)?;
    let header = match Header::decode(&page, key) {
        Ok(header) => header,
        Err(fault) => return Ok(Err(fault)),
    };
    if header.file_bytes() != Some(file_bytes) {
        return Ok(Err(format!("it has {file_bytes} bytes, not those of its header")));
    }
    let mut meta = vec![0; header.meta_bytes as usize];
    file.read_exact_at(&mut meta, file_bytes - header.meta_bytes).map_err(ReadFault)?;
    if xxh3_128(&meta) != header.meta_checksum {
        return Ok(Err("its meta does not have its checksum".to_owned()));
    }
    Ok(Ok((header, meta)))
}

fn absent(path: &Path) -> OpenError {
    OpenError::Absent { path: path.to_owned() }
}

fn passing(path: &Path, error: io::Error) -> OpenError {
    Unavailable::of(path, 0, error).into()
}
