//! Unfinished files: they are in a hidden folder until all of them are complete.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tempfile::TempDir;

/// Start of the hidden folder's name, which others may write to the folder of the shards too.
const START: &str = ".headwater-pack";

/// The hidden folder, and the lock on the folder of the shards.
pub(crate) struct Staging {
    out: PathBuf,
    /// Remaining files are hidden, and the next run removes them. Goes before the lock.
    folder: TempDir,
    /// Locked while it is open: a folder that stays, so that nobody can hold the lock of a former one.
    lock: File,
}

// === impl Staging ===

impl Staging {
    /// Makes the folders. What a run that was cut off has left is removed.
    pub(crate) fn begin(out: &Path) -> Result<Self> {
        let what = || format!("cannot make a folder in `{}`", out.display());
        fs::create_dir_all(out).with_context(what)?;
        let lock = File::open(out).with_context(what)?;
        // Some file systems have no locks; two runs at once are a slip, not the rule.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            bail!("another `headwater datasets pack` writes to `{}`: wait for it", out.display());
        }
        for entry in fs::read_dir(out).with_context(what)? {
            let entry = entry.with_context(what)?;
            let is_left = entry.file_name().to_string_lossy().starts_with(START);
            // A link is none of ours.
            if is_left && entry.file_type().with_context(what)?.is_dir() {
                let what = || format!("cannot remove `{}`", entry.path().display());
                fs::remove_dir_all(entry.path()).with_context(what)?;
            }
        }
        // Whatever the umask: nobody else puts files there.
        let own = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(START).permissions(own).tempdir_in(out);
        Ok(Self { out: out.to_owned(), folder: folder.with_context(what)?, lock })
    }

    /// Where a file of this name is written.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a whole file.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        use std::io::Write as _;
        let path = self.path(name);
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Gives files their final place, in this order.
    pub(crate) fn publish(&self, names: &[String]) -> Result<()> {
        for name in names {
            let to = self.out.join(name);
            fs::rename(self.path(name), &to)
                .with_context(|| format!("cannot write `{}`", to.display()))?;
        }
        self.lock.sync_all().context("folder of the shards")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_has_its_name_before_all_is_there() {
        let out = tempfile::tempdir().unwrap();
        let staging = Staging::begin(out.path()).unwrap();
        staging.write("a.tar", "whole").unwrap();
        assert!(names(out.path()).iter().all(|name| name.starts_with(START)));
        staging.publish(&["a.tar".to_owned()]).unwrap();
        drop(staging);
        assert_eq!(names(out.path()), ["a.tar"]);
    }

    #[test]
    fn what_was_cut_off_is_removed_and_what_runs_is_left_alone() {
        let out = tempfile::tempdir().unwrap();
        let left = out.path().join(START);
        fs::create_dir(&left).unwrap();
        fs::write(left.join("half.tar"), "half").unwrap();
        let staging = Staging::begin(out.path()).unwrap();
        assert!(!left.exists());
        assert!(Staging::begin(out.path()).is_err());
        drop(staging);
        assert!(Staging::begin(out.path()).is_ok());
    }

    /// Two begin and end again and again: one of them may have waited at the door for the other's end when a
    /// third one has begun.
    #[test]
    fn three_runs_leave_each_other_their_files() {
        const FILES: usize = 30;
        let out = tempfile::tempdir().unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        drop(Staging::begin(out.path()));
                    }
                });
            }
            let writes = scope.spawn(|| {
                for number in 0..FILES {
                    let staging = loop {
                        if let Ok(staging) = Staging::begin(out.path()) {
                            break staging;
                        }
                    };
                    let name = format!("{number}.tar");
                    staging.write(&name, "whole")?;
                    std::thread::yield_now();
                    staging.publish(&[name])?;
                }
                anyhow::Ok(())
            });
            let written = writes.join();
            is_done.store(true, Ordering::Relaxed);
            written.unwrap().expect("its files are there");
        });
        assert_eq!(names(out.path()).len(), FILES);
    }

    #[test]
    fn a_link_in_place_of_the_hidden_folder_leads_nowhere() {
        let (out, precious) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(precious.path().join("file"), "precious").unwrap();
        std::os::unix::fs::symlink(precious.path(), out.path().join(START)).unwrap();
        let staging = Staging::begin(out.path()).unwrap();
        staging.write("a.tar", "whole").unwrap();
        drop(staging);
        assert_eq!(names(precious.path()), ["file"]);
    }
}
