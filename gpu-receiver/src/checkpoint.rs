//! Checkpoint files: the state as JSON, written so that a crash at any moment leaves a whole one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use headwater_core::sampler::State;

const PREFIX: &str = "dl_state_";
const SUFFIX: &str = ".json";
/// Digits of the step in a file's name; larger steps have more.
const STEP_DIGITS: usize = 9;
/// Largest file that is read as a state.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// A folder of checkpoints `dl_state_000001000.json`, named after the trainer's step.
///
/// One process writes it: rank 0.
#[derive(Clone, Debug)]
pub struct CheckpointFolder {
    dir: PathBuf,
    keep: usize,
}

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {doing} {}: {source}; check receiver.checkpoint_dir", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a state.
    #[error("{} is not a checkpoint: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There are checkpoints, and none can be read.
    #[error(
        "none of the {count} checkpoints in {} can be read, the newest because {newest}; restore one, or \
         set receiver.resume to \"fresh\" to begin at the start", dir.display()
    )]
    NoneWhole {
        /// The folder.
        dir: PathBuf,
        /// How many there are.
        count: usize,
        /// What is wrong with the newest.
        newest: Box<CheckpointError>,
    },
}

/// Whole checkpoints, and what is wrong with the others.
type Found = (Vec<(PathBuf, State)>, Vec<CheckpointError>);

// === impl CheckpointFolder ===

impl CheckpointFolder {
    /// A folder of which the newest `keep` checkpoints (1 at least) are kept.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, keep: usize) -> Self {
        Self { dir: dir.into(), keep: keep.max(1) }
    }

    /// Writes the state of a step, then removes all but the newest. Returns the file's path.
    ///
    /// Temporary name, fsync, rename, fsync of the folder: at any moment the folder holds the
    /// checkpoint whole or not at all.
    ///
    /// # Errors
    /// The file system refused; earlier checkpoints are untouched then.
    pub fn write(&self, step: u64, state: &State) -> Result<PathBuf, CheckpointError> {
        fs::create_dir_all(&self.dir).map_err(at("make", &self.dir))?;
        let path = self.dir.join(file_name(step));
        let temporary = self.dir.join(format!(".{}.tmp", file_name(step)));
        let json = serde_json::to_vec_pretty(state).expect("a state is plain data");
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(&json)?;
            file.write_all(b"\n")?;
            file.sync_all()
        });
        let named = written
            .map_err(at("write", &temporary))
            .and_then(|()| fs::rename(&temporary, &path).map_err(at("name", &path)));
        if let Err(error) = named {
            // Of a disk that is full each attempt would keep a bit more.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(at("sync", &self.dir))?;
        self.remove_old(&path);
        Ok(path)
    }

    /// The newest whole checkpoint, which is the one furthest in the stream: trainers may count steps
    /// from 0 in each epoch or after a resume. Torn and foreign files are passed over with a warning
    /// that names them. `None` where there are no checkpoints.
    ///
    /// # Errors
    /// The folder is there and cannot be listed, or none of its checkpoints can be read.
    pub fn newest(&self) -> Result<Option<(PathBuf, State)>, CheckpointError> {
        let (mut whole, mut broken) = self.read_all()?;
        for error in &broken {
            tracing::warn!(%error, "checkpoint passed over");
        }
        if let Some(newest) = whole.pop() {
            return Ok(Some(newest));
        }
        // To begin at the start would lose, without a word to the trainer, what it resumes.
        let count = broken.len();
        match broken.pop() {
            None => Ok(None),
            Some(newest) => {
                let (dir, newest) = (self.dir.clone(), Box::new(newest));
                Err(CheckpointError::NoneWhole { dir, count, newest })
            }
        }
    }

    /// Takes checkpoints that cannot be read out of the way: each keeps its name, with `.broken` after
    /// it.
    ///
    /// # Errors
    /// The folder cannot be listed, or a file not be named anew.
    pub fn set_broken_aside(&self) -> Result<(), CheckpointError> {
        for (_, path) in self.list()? {
            if read(&path).is_err() {
                let mut aside = path.clone().into_os_string();
                aside.push(".broken");
                fs::rename(&path, &aside).map_err(at("name", &path))?;
            }
        }
        Ok(())
    }

    /// Whole checkpoints, the one furthest in the stream last, and what is wrong with the others. Of
    /// two at one place the one with the larger step in its name comes later.
    fn read_all(&self) -> Result<Found, CheckpointError> {
        let (mut whole, mut broken) = (Vec::new(), Vec::new());
        for (_, path) in self.list()? {
            match read(&path) {
                Ok(state) => whole.push((path, state)),
                Err(error) => broken.push(error),
            }
        }
        whole.sort_by_key(|(_, state)| (state.epoch, state.step));
        Ok((whole, broken))
    }

    /// Steps in names, and files, the smallest step first.
    fn list(&self) -> Result<Vec<(u64, PathBuf)>, CheckpointError> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(at("list", &self.dir))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(at("list", &self.dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(step) = step_of(name) {
                found.push((step, path));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes all but the newest whole ones; what was just written stays also where others are
    /// further in the stream.
    fn remove_old(&self, written: &Path) {
        let Ok((whole, _)) = self.read_all() else { return };
        for (path, _) in whole.iter().rev().skip(self.keep).filter(|(path, _)| path != written) {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "old checkpoint stays");
            }
        }
    }
}

/// Reads one checkpoint.
///
/// # Errors
/// The file cannot be read, or is not a state that this release reads.
pub fn read(path: &Path) -> Result<State, CheckpointError> {
    let foreign = |reason: String| CheckpointError::Foreign { path: path.to_owned(), reason };
    let size = fs::metadata(path).map_err(at("read", path))?.len();
    if size > FILE_MAX_BYTES {
        return Err(foreign(format!("it has {size} bytes")));
    }
    let bytes = fs::read(path).map_err(at("read", path))?;
    serde_json::from_slice(&bytes).map_err(|error| foreign(error.to_string()))
}

fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io { doing, path, source }
}

fn file_name(step: u64) -> String {
    format!("{PREFIX}{step:0STEP_DIGITS$}{SUFFIX}")
}

fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let plain = digits.len() >= STEP_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headwater_core::sampler::{Sampler, SamplerConfig};
    use headwater_core::{Digest, Manifest, ShardEntry};

    use super::*;

    fn state(step: u64) -> State {
        let shard = ShardEntry { name: "a.tar".into(), samples: 1000, bytes: 1, digest: Digest(1) };
        let manifest = Manifest::new("d".into(), vec![], vec![shard]).expect("a manifest");
        let config = SamplerConfig::new(1, 1, 0, 10);
        let mut sampler = Sampler::new(config, vec![Arc::new(manifest)]).expect("a sampler");
        sampler.state(0, step).expect("a state")
    }

    #[test]
    fn what_was_written_is_read_again_and_the_newest_three_stay() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = CheckpointFolder::new(dir.path().join("new"), 3);
        assert!(folder.newest().expect("no folder is no error").is_none());
        for step in [5, 10, 7, 20] {
            folder.write(step, &state(step)).expect("written");
        }
        let names: Vec<_> =
            folder.list().expect("listed").into_iter().map(|(step, _)| step).collect();
        assert_eq!(names, [7, 10, 20]);
        let (path, newest) = folder.newest().expect("read").expect("there is one");
        assert!(path.ends_with("dl_state_000000020.json"), "{}", path.display());
        assert_eq!(newest, state(20));
    }

    #[test]
    fn the_newest_is_the_one_furthest_in_the_stream_whatever_the_trainer_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = CheckpointFolder::new(dir.path(), 2);
        // The trainer's count begins again at 0 after a resume.
        for (step, place) in [(4, 5), (8, 9), (0, 10), (4, 14)] {
            folder.write(step, &state(place)).expect("written");
        }
        let (path, newest) = folder.newest().expect("read").expect("there is one");
        assert_eq!((newest.step, newest), (14, state(14)));
        assert!(path.ends_with("dl_state_000000004.json"), "{}", path.display());
        assert!(dir.path().join("dl_state_000000000.json").exists());
        assert!(!dir.path().join("dl_state_000000008.json").exists());
    }

    #[test]
    fn torn_and_foreign_files_are_passed_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = CheckpointFolder::new(dir.path(), 10);
        let whole = folder.write(1, &state(1)).expect("written");
        let bytes = fs::read(&whole).expect("read");
        fs::write(dir.path().join("dl_state_000000002.json"), &bytes[..bytes.len() / 2])
            .expect("a torn file");
        fs::write(dir.path().join("dl_state_000000003.json"), b"{\"loader\": \"other\"}")
            .expect("a foreign file");
        fs::write(dir.path().join("dl_state_x.json"), b"?").expect("another name");
        fs::write(dir.path().join(".dl_state_000000009.json.tmp"), b"?").expect("a leftover");
        let (path, _) = folder.newest().expect("read").expect("there is one");
        assert_eq!(path, whole);
        fs::remove_file(&whole).expect("the whole one is lost");
        let error =
            folder.newest().expect_err("to begin at the start is not to resume").to_string();
        assert!(error.contains("none of the 2 checkpoints"), "{error}");
        assert!(error.contains("dl_state_000000003.json is not a checkpoint"), "{error}");
        assert!(error.contains("set receiver.resume to \"fresh\""), "{error}");
        folder.set_broken_aside().expect("named anew");
        assert!(folder.newest().expect("nothing is broken any more").is_none());
        let aside = dir.path().join("dl_state_000000002.json.broken");
        let error = read(&aside).expect_err("torn");
        assert!(error.to_string().contains("dl_state_000000002.json.broken is not a checkpoint"));
    }

    #[test]
    fn an_attempt_that_fails_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = CheckpointFolder::new(dir.path(), 3);
        for step in 1..4 {
            // No file can take a folder's name.
            let taken = dir.path().join(format!("dl_state_00000000{step}.json"));
            fs::create_dir(&taken).expect("a folder");
            folder.write(step, &state(step)).expect_err("the name is taken");
            fs::remove_dir(&taken).expect("a folder");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0);
    }

    #[test]
    fn what_is_written_stays_beside_checkpoints_of_larger_steps() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = CheckpointFolder::new(dir.path(), 2);
        for step in [9000, 9500, 500] {
            folder.write(step, &state(1)).expect("written");
        }
        assert!(dir.path().join("dl_state_000000500.json").exists());
    }
}
