//! Unfinished files: they are in a hidden folder until all of them are complete.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Name of the hidden folder.
const FOLDER: &str = ".headwater-pack";

/// The hidden folder, locked by this process.
pub(crate) struct Staging {
    out: PathBuf,
    folder: PathBuf,
    /// Locked while it is open.
    _lock: File,
}

// === impl Staging ===

impl Staging {
    /// Makes the folders. What a run that was cut off has left in the hidden one is removed.
    pub(crate) fn begin(out: &Path) -> Result<Self> {
        let folder = out.join(FOLDER);
        let what = || format!("cannot make folder `{}`", folder.display());
        fs::create_dir_all(&folder).with_context(what)?;
        let lock = File::open(&folder).with_context(what)?;
        // Some file systems have no locks; two runs at once are a slip, not the rule.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            bail!("another `headwater datasets pack` writes to `{}`: wait for it", out.display());
        }
        for left in fs::read_dir(&folder).with_context(what)? {
            fs::remove_file(left.with_context(what)?.path()).with_context(what)?;
        }
        Ok(Self { out: out.to_owned(), folder, _lock: lock })
    }

    /// Where a file of this name is written.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a whole file.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        use std::io::Write as _;
        let path = self.path(name);
        let write = || {
            let mut file = File::create(&path)?;
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
        File::open(&self.out)?.sync_all().context("folder of the shards")?;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Remaining files are hidden, and the next run removes them.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(names(out.path()), [FOLDER]);
        staging.publish(&["a.tar".to_owned()]).unwrap();
        drop(staging);
        assert_eq!(names(out.path()), ["a.tar"]);
    }

    #[test]
    fn what_was_cut_off_is_removed_and_what_runs_is_left_alone() {
        let out = tempfile::tempdir().unwrap();
        let left = out.path().join(FOLDER);
        fs::create_dir(&left).unwrap();
        fs::write(left.join("half.tar"), "half").unwrap();
        let staging = Staging::begin(out.path()).unwrap();
        assert!(names(&left).is_empty());
        assert!(Staging::begin(out.path()).is_err());
        drop(staging);
        assert!(Staging::begin(out.path()).is_ok());
    }
}
