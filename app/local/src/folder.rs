//! The folder in which processes of one user find each other's services.
//!
//! `$XDG_RUNTIME_DIR/headwater/`, or `headwater-UID/` in the folder for temporary files:
//!
//! - `KEY.lock`: held while these services are started, and while they make sure that nobody comes any more;
//! - `KEY.sock`: where services listen;
//! - `NAME.token`: the token of services, locked by them while they run.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use headwater_core::Digest;
use headwater_own_files::{is_still_at, make_own_folder};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::LocalError;

/// Longest path of a socket, without the byte that ends it.
const SOCKET_PATH_MAX: usize = 107;
/// Where temporary files may lie when `TMPDIR` is too long for the path of a socket, or nothing can be written there.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Bytes of `/KEY.sock`.
const SOCKET_NAME: usize = 1 + 32 + 1 + SOCKET.len();
const SOCKET: &str = "sock";
const TOKEN: &str = "token";
const LOCK: &str = "lock";
const FILE_MODE: u32 = 0o600;
/// Between two tries to lock.
const PAUSE: Duration = Duration::from_millis(10);

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeFolder {
    path: PathBuf,
}

/// The lock of one name, until it is dropped; the file goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
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
        let temporary = |folder: PathBuf| folder.join(format!("headwater-{own}"));
        let named = std::env::var_os("TMPDIR").filter(|name| !name.is_empty()).map(PathBuf::from);
        let folders = named.into_iter().chain(TEMPORARY.map(PathBuf::from));
        Self::first_of(runtime.into_iter().chain(folders.map(temporary)))
    }

    /// The first that is available, and has room for the path of a socket.
    fn first_of(paths: impl Iterator<Item = PathBuf>) -> Result<Self, LocalError> {
        let mut failed = None;
        for path in paths.filter(|path| path.as_os_str().len() + SOCKET_NAME <= SOCKET_PATH_MAX) {
            match Self::at(path) {
                Err(error) => drop(failed.get_or_insert(error)),
                found => return found,
            }
        }
        Err(failed.expect("some paths are short"))
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

    /// Waits for the lock of a name, for a time: whoever has it may be suspended. `check` says whether it is
    /// still wanted.
    pub(crate) fn lock(
        &self,
        name: &str,
        limit: Duration,
        check: impl Fn() -> Result<(), LocalError>,
    ) -> Result<Lock, LocalError> {
        let begun = Instant::now();
        loop {
            if let Some(lock) = self.try_lock(name)? {
                return Ok(lock);
            }
            if begun.elapsed() >= limit {
                let waited_ms = begun.elapsed().as_millis() as u64;
                return Err(LocalError::Busy { path: self.lock_path(name), waited_ms });
            }
            check()?;
            thread::sleep(PAUSE);
        }
    }

    /// The lock of a name, if nobody has it now.
    fn try_lock(&self, name: &str) -> Result<Option<Lock>, LocalError> {
        let path = self.lock_path(name);
        let fault = |error: io::Error| LocalError::folder(&path, &error);
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(FILE_MODE);
        let file = options.open(&path).map_err(fault)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::INTR | Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(fault(error.into())),
        }
        // Whoever had it before may have removed the file. No `Lock` is made then: dropped, it
        // would remove the file that somebody else has locked under this name.
        match file.metadata().is_ok_and(|locked| is_still_at(&locked, &path)) {
            true => Ok(Some(Lock { path, file })),
            false => Ok(None),
        }
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{LOCK}"))
    }

    /// Removes the socket of services that end, unless others of its key have put theirs in its place.
    /// `made` is what it was when they made it.
    pub(crate) fn remove_socket(&self, socket: &Path, made: &Metadata) -> io::Result<()> {
        if !is_still_at(made, socket) {
            return Ok(());
        }
        match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes what services have left that were killed, but for those whose name somebody has locked.
    pub(crate) fn sweep(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if path.extension().is_none_or(|ending| ending != TOKEN) || !is_left(&path) {
                continue;
            }
            // Under the lock once more: others may have come meanwhile.
            if let Ok(Some(_lock)) = self.try_lock(&name)
                && is_left(&path)
            {
                for path in [path.with_extension(SOCKET), path.clone()] {
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
        // Whoever waits opens another one.
        let _ = fs::remove_file(&self.path);
        // Closing would do, but for a process that was forked meanwhile and has the descriptor too.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::token::Token;

    #[test]
    fn where_nothing_can_be_written_the_next_folder_is_taken() {
        let top = tempfile::tempdir().unwrap();
        let missing = top.path().join("missing/own");
        let next = top.path().join("next");
        let long = top.path().join("x".repeat(SOCKET_PATH_MAX));
        let paths = || [long.clone(), missing.clone(), next.clone()].into_iter();
        assert_eq!(RuntimeFolder::first_of(paths()).unwrap().path, next);
        let error = RuntimeFolder::first_of(paths().take(2)).unwrap_err().to_string();
        assert!(
            error.contains(&missing.display().to_string()) && error.contains("TMPDIR"),
            "{error}"
        );
    }

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
        folder.sweep();
        assert!(!folder.socket(dead).exists() && !folder.token(&dead.to_string()).exists());
        assert!(folder.socket(alive).exists() && running.path().exists());
    }

    #[test]
    fn a_starter_that_hangs_holds_up_its_own_services_only_and_those_for_a_time() {
        let top = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::at(top.path().join("own")).unwrap();
        let limit = Duration::from_millis(200);
        let hanging = folder.lock("one", limit, || Ok(())).unwrap();
        drop(folder.lock("other", Duration::ZERO, || Ok(())).unwrap());
        let begun = Instant::now();
        let error = folder.lock("one", limit, || Ok(())).unwrap_err();
        assert!(begun.elapsed() >= limit && begun.elapsed() < 50 * limit);
        assert!(error.to_string().contains("one.lock"), "{error}");
        let cancelled = folder.lock("one", limit, || Err(LocalError::Cancelled));
        assert!(matches!(cancelled, Err(LocalError::Cancelled)));
        drop(hanging);
        drop(folder.lock("one", Duration::ZERO, || Ok(())).unwrap());
        assert_eq!(fs::read_dir(top.path().join("own")).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn a_lock_that_is_let_go_is_had_by_one_of_those_who_want_it() {
        let top = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::at(top.path().join("own")).unwrap();
        let is_held = AtomicBool::new(false);
        let compete = || {
            for _ in 0..500 {
                let Some(lock) = folder.try_lock("one").unwrap() else { continue };
                assert!(!is_held.swap(true, Ordering::SeqCst), "two have it");
                thread::yield_now();
                is_held.store(false, Ordering::SeqCst);
                drop(lock);
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(compete))));
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
        folder.remove_socket(&socket, &made).unwrap();
        drop(earlier);
        assert!(socket.exists() && later.path().exists());
        let made = socket.symlink_metadata().unwrap();
        folder.remove_socket(&socket, &made).unwrap();
        drop(later);
        assert!(!socket.exists() && !folder.token(&name).exists());
    }
}
