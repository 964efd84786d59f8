//! Where the files of a level lie, and whose they may be.
//!
//! `DIR/FOLDER-UID/`, which only this user enters (and its group, where that is asked for):
//!
//! - `entries/BOOT/ab/KEY`: entries that were written or checked since the machine was started;
//! - `filling/KEY.PID.N`: entries being written, locked by who writes them;
//! - `flights/KEY`: a lock on filling an entry, in the first level only;
//! - `tally`: bytes in use, and the lock on changing them.

use std::fs::{self, DirBuilder, DirEntry, File, Metadata, Permissions};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::{CacheConfig, CacheError, Key};

/// A number that the kernel draws when it starts.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Modes of the user's folder. Everything in it may be read by the group that this one lets in.
const MODE_OWN: u32 = 0o700;
const MODE_GROUP: u32 = 0o750;
/// Mode of files.
const MODE_FILE: u32 = 0o640;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The folders of one user in one level.
#[derive(Debug)]
pub(crate) struct Folders {
    top: PathBuf,
    /// One folder for each start of the machine.
    entries: PathBuf,
    /// The one of this start.
    current: PathBuf,
    filling: PathBuf,
    flights: PathBuf,
}

// === impl Folders ===

impl Folders {
    /// Makes what is missing.
    pub(crate) fn make(dir: &Path, config: &CacheConfig) -> Result<Self, CacheError> {
        let top = dir.join(format!("{}-{}", config.folder, own_uid()));
        let folders = Self {
            entries: top.join("entries"),
            current: top.join("entries").join(boot()),
            filling: top.join("filling"),
            flights: top.join("flights"),
            top,
        };
        let error = |source| CacheError::Folder { path: folders.top.clone(), source };
        make_folder(&folders.top, MODE_OWN).map_err(error)?;
        if let Some(fault) = folders.fault().map_err(error)? {
            return Err(CacheError::Foreign { path: folders.top.clone(), fault });
        }
        let mode = if config.group_read { MODE_GROUP } else { MODE_OWN };
        fs::set_permissions(&folders.top, Permissions::from_mode(mode)).map_err(error)?;
        folders.make_again().map_err(error)?;
        Ok(folders)
    }

    /// Makes what somebody has removed. The folder above stays as it is: a drive that is not
    /// mounted is not to be replaced by a folder of the system's.
    pub(crate) fn make_again(&self) -> io::Result<()> {
        make_folder(&self.top, MODE_OWN)?;
        if let Some(fault) = self.fault()? {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, fault));
        }
        for folder in [&self.entries, &self.current, &self.filling, &self.flights] {
            make_folder(folder, MODE_GROUP)?;
        }
        Ok(())
    }

    /// Why the user's folder may not be used, if it may not: somebody else made it.
    fn fault(&self) -> io::Result<Option<String>> {
        let metadata = fs::symlink_metadata(&self.top)?;
        if !metadata.is_dir() {
            return Ok(Some("is not a folder".to_owned()));
        }
        let uid = metadata.uid();
        Ok((uid != own_uid()).then(|| format!("belongs to user {uid}")))
    }

    /// The user's folder.
    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    pub(crate) fn filling(&self) -> &Path {
        &self.filling
    }

    pub(crate) fn flights(&self) -> &Path {
        &self.flights
    }

    pub(crate) fn tally(&self) -> PathBuf {
        self.top.join("tally")
    }

    /// Where an entry lies that was written or checked since the machine was started.
    pub(crate) fn entry(&self, key: &Key) -> PathBuf {
        self.current.join(key.fan()).join(key.to_string())
    }

    /// Where an entry may lie from before that.
    pub(crate) fn older_entries(&self, key: &Key) -> Vec<PathBuf> {
        // What cannot be listed is fetched again.
        let starts = subfolders(&self.entries).flatten().filter(|start| *start != self.current);
        starts.map(|start| start.join(key.fan()).join(key.to_string())).collect()
    }

    /// Gives a whole file the name of an entry.
    pub(crate) fn publish(&self, from: &Path, key: &Key) -> io::Result<PathBuf> {
        let to = self.entry(key);
        match fs::rename(from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folder(&self.current.join(key.fan()), MODE_GROUP)?;
                fs::rename(from, &to)?;
            }
            renamed => renamed?,
        }
        Ok(to)
    }

    /// All folders with entries, and errors in place of those that cannot be listed.
    pub(crate) fn fans(&self) -> impl Iterator<Item = io::Result<PathBuf>> {
        subfolders(&self.entries).flat_map(|start| match start {
            Ok(start) => subfolders(&start).collect(),
            Err(error) => vec![Err(error)],
        })
    }

    /// Whether there are folders of former starts. The sum in the tally may then be older than they are:
    /// nobody syncs it. The same may be so where the folders cannot be listed.
    pub(crate) fn has_former(&self) -> bool {
        subfolders(&self.entries).any(|start| !start.is_ok_and(|start| start == self.current))
    }

    /// Removes the folders of former starts that hold nothing.
    pub(crate) fn tidy(&self) {
        let starts = subfolders(&self.entries).flatten();
        for start in starts.filter(|start| *start != self.current) {
            for fan in subfolders(&start).flatten() {
                // One that is not empty stays.
                let _ = fs::remove_dir(fan);
            }
            let _ = fs::remove_dir(start);
        }
    }
}

/// The user that this process acts as.
pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whose a file is that may not be trusted; `None` where it may.
pub(crate) fn foreign(metadata: &Metadata, owners: &[u32]) -> Option<String> {
    let uid = metadata.uid();
    if uid != own_uid() && uid != 0 && !owners.contains(&uid) {
        return Some(format!("belongs to user {uid}"));
    }
    let is_open = metadata.mode() & WRITABLE_BY_OTHERS != 0;
    is_open.then(|| "may be written to by other users".to_owned())
}

/// Whether an entry's path says that it was written or checked since the machine was started.
pub(crate) fn is_current(path: &Path) -> bool {
    let start = path.parent().and_then(Path::parent).and_then(Path::file_name);
    start.is_some_and(|start| start == boot())
}

/// A new file, or an old one, that the group may read.
pub(crate) fn allow_group(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(MODE_FILE))
}

/// Names this start of the machine. Where the kernel does not say, each process takes itself for
/// one, and checks all that others have written.
fn boot() -> &'static str {
    static BOOT: LazyLock<String> = LazyLock::new(|| {
        let id = fs::read_to_string(BOOT_ID).unwrap_or_default();
        let id = id.trim();
        let is_id = id.len() > 8 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        // Containers that share a folder have processes of one number.
        let random = || RandomState::new().hash_one(std::process::id());
        if is_id { id.to_owned() } else { format!("process-{:016x}", random()) }
    });
    &BOOT
}

fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // The process's umask may have removed the group's permissions.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
        failed => failed,
    }
}

fn subfolders(folder: &Path) -> impl Iterator<Item = io::Result<PathBuf>> + use<> {
    let of_folder = |entry: DirEntry| {
        let kind = entry.file_type().map(|kind| kind.is_dir());
        kind.map(|is_dir| is_dir.then(|| entry.path())).transpose()
    };
    listed(folder).filter_map(move |entry| entry.map_or_else(|error| Some(Err(error)), of_folder))
}

/// What lies in a folder. One that is not there holds nothing; one that cannot be listed gives an error, and may
/// hold anything.
pub(crate) fn listed(folder: &Path) -> impl Iterator<Item = io::Result<DirEntry>> + use<> {
    let (entries, error) = match fs::read_dir(folder) {
        Ok(entries) => (Some(entries), None),
        Err(error) => (None, Some(error).filter(|error| error.kind() != io::ErrorKind::NotFound)),
    };
    error.map(Err).into_iter().chain(entries.into_iter().flatten())
}
