//! The folder in which processes of one user find each other's services.
//!
//! `$XDG_RUNTIME_DIR/headwater/`, or `headwater-UID/` in the folder for temporary files:
//!
//! - `lock`: held while services are started, and while they make sure that nobody comes any more;
//! - `KEY.sock`: where services listen;
//! - `NAME.token`: the token of services, locked by them while they run.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use headwater_core::Digest;
use headwater_own_files::{is_still_at, make_own_folder};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::LocalError;

/// Longest path of a socket, without the byte that ends it.
const SOCKET_PATH_MAX: usize = 107;
/// Where temporary files lie when `TMPDIR` is too long for the path of a socket.
const SHORT: &str = "/tmp";
/// Bytes of `/KEY.sock`.
const SOCKET_NAME: usize = 1 + 32 + 1 + SOCKET.len();
const SOCKET: &str = "sock";
const TOKEN: &str = "token";
const LOCK: &str = "lock";
const FILE_MODE: u32 = 0o600;

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeFolder {
    path: PathBuf,
}

/// The folder's lock, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

// === impl RuntimeFolder ===

impl RuntimeFolder {
    /// Finds it, makes it where it is missing, and makes sure that it is this user's own.
    pub(crate) fn open() -> Result<Self, LocalError> {
        let own = rustix::process::geteuid().as_raw();
        let is_own = |path: &PathBuf| {
            let found = fs::metadata(path);
            path.is_absolute() && found.is_ok_and(|found| found.is_dir() && found.uid() == own)
        };
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_own);
        let runtime = runtime.map(|runtime| runtime.join("headwater"));
        let temporary = |folder: &Path| folder.join(format!("headwater-{own}"));
        let path = [runtime, Some(temporary(&std::env::temp_dir()))]
            .into_iter()
            .flatten()
            .find(|path| path.as_os_str().len() + SOCKET_NAME <= SOCKET_PATH_MAX)
            .unwrap_or_else(|| temporary(SHORT.as_ref()));
        Self::at(path)
    }

    /// The folder of a socket that somebody named.
    pub(crate) fn of(socket: &Path) -> Result<Self, LocalError> {
        Self::at(socket.parent().unwrap_or(Path::new(".")).to_owned())
    }

    fn at(path: PathBuf) -> Result<Self, LocalError> {
        let fault = |error: io::Error| LocalError::folder(&path, &error);
        make_own_folder(&path).map_err(fault)?;
        Ok(Self { path })
    }

    pub(crate) fn socket(&self, key: Digest) -> PathBuf {
        self.path.join(format!("{key}.{SOCKET}"))
    }

    pub(crate) fn token(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{TOKEN}"))
    }

    /// Waits for the lock; nobody holds it for longer than it takes to start a process.
    pub(crate) fn lock(&self) -> Result<Lock, LocalError> {
        let path = self.path.join(LOCK);
        let fault = |error: io::Error| LocalError::folder(&path, &error);
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(FILE_MODE);
        let file = options.open(&path).map_err(fault)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Lock { file }),
                Err(Errno::INTR) => {}
                Err(error) => return Err(fault(error.into())),
            }
        }
    }

    /// Removes the socket of services that end, unless others of its key have put theirs in its place.
    /// `made` is what it was when they made it. Only with the lock.
    pub(crate) fn remove_socket(&self, socket: &Path, made: &Metadata, _: &Lock) -> io::Result<()> {
        if is_still_at(made, socket) { fs::remove_file(socket) } else { Ok(()) }
    }

    /// Removes what services have left that were killed. Only with the lock.
    pub(crate) fn sweep(&self, _: &Lock) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == TOKEN) && is_left(&path) {
                for path in [path.with_extension(SOCKET), path] {
                    if fs::remove_file(&path).is_ok() {
                        tracing::debug!(path = %path.display(), "left behind, removed");
                    }
                }
            }
        }
    }
}

/// Whether a token's services are gone, which hold a lock on it.
fn is_left(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would do, but for a process that was forked meanwhile and has the descriptor too.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::token::Token;

    #[test]
    fn a_folder_that_others_may_enter_or_that_is_a_link_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("own");
        assert!(RuntimeFolder::at(path.clone()).is_ok());
        let link = top.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(RuntimeFolder::at(link), Err(LocalError::Folder { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = RuntimeFolder::at(path.clone()).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains("XDG_RUNTIME_DIR"), "{error}");
    }

    #[test]
    fn what_killed_services_left_is_removed_and_nothing_else() {
        let top = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::at(top.path().join("own")).unwrap();
        let (dead, alive) = (Digest(1), Digest(2));
        let running = Token::make(&folder, &alive.to_string()).unwrap();
        fs::write(folder.token(&dead.to_string()), "token").unwrap();
        for key in [dead, alive] {
            fs::write(folder.socket(key), "").unwrap();
        }
        let lock = folder.lock().unwrap();
        folder.sweep(&lock);
        assert!(!folder.socket(dead).exists() && !folder.token(&dead.to_string()).exists());
        assert!(folder.socket(alive).exists() && running.path().exists());
    }

    #[test]
    fn services_that_end_leave_the_socket_and_the_token_of_those_that_took_their_place() {
        let top = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::at(top.path().join("own")).unwrap();
        let (socket, name) = (folder.socket(Digest(1)), Digest(1).to_string());
        // Open, so that its number is not given to another.
        let _listens = fs::File::create(&socket).unwrap();
        let made = socket.symlink_metadata().unwrap();
        let earlier = Token::make(&folder, &name).unwrap();
        fs::remove_file(&socket).unwrap();
        fs::write(&socket, "").unwrap();
        let later = Token::make(&folder, &name).unwrap();
        let lock = folder.lock().unwrap();
        folder.remove_socket(&socket, &made, &lock).unwrap();
        drop(earlier);
        assert!(socket.exists() && later.path().exists());
        let made = socket.symlink_metadata().unwrap();
        folder.remove_socket(&socket, &made, &lock).unwrap();
        drop(later);
        assert!(!socket.exists() && !folder.token(&name).exists());
    }
}
