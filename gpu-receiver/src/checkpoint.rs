//! Checkpoint files: the state as JSON, written so that a crash at any moment leaves a whole one.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_core::sampler::{SamplerError, State, Written};
use headwater_core::serde_words;
use rustix::fs::OFlags;

const PREFIX: &str = "dl_state_";
const SUFFIX: &str = ".json";
/// Suffix of a checkpoint set aside when the stream went back before it; a sequence number follows.
const ABANDONED: &str = ".abandoned-";
/// Digits of the step in a file's name; larger steps have more.
const STEP_DIGITS: usize = 9;
/// Largest file that is read as a state.
const FILE_MAX_BYTES: u64 = 64 << 20;
/// Most times that the folder is listed because files went away before they were read.
const LOOKS_MAX: u32 = 100;
/// A file that is half written for longer has no writer any more.
const WRITING_MAX: Duration = Duration::from_secs(3600);
/// What files of earlier releases count as, and what is before the first file.
const FIRST: Written = Written { lineage: 1, sequence: 0 };

/// A folder of checkpoints `dl_state_000001000.json`, named after the trainer's step.
///
/// One process writes it: rank 0. The other ranks read it meanwhile.
///
/// Each file says when it was written ([`Written`]). A run that goes back in the stream begins a new
/// lineage with the first file that it writes from there, and sets aside the files that lie further. Files of
/// other streams, of a validation loader or on other terms, stay as they are: lineages are those of a stream.
#[derive(Debug)]
pub struct CheckpointFolder {
    dir: PathBuf,
    keep: usize,
    /// The last state that this run has read or written, and its lineage, which is one of the state's stream.
    own: Mutex<Option<(State, u64)>>,
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
    /// The newest checkpoint is not one of this stream.
    #[error(
        "cannot resume from {}: {source}; if another loader wrote it, give each loader its own \
         receiver.checkpoint_dir",
        path.display()
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// How it differs.
        source: Box<SamplerError>,
    },
    /// Another run resumed from an earlier step in this folder after this one had begun.
    #[error(
        "{} has checkpoints of lineage {found}, and this run has lineage {own}: another run \
         resumed from an earlier step in this folder; end one of the two runs, or give each its own \
         receiver.checkpoint_dir", dir.display()
    )]
    Superseded {
        /// The folder.
        dir: PathBuf,
        /// The lineage of its newest checkpoint.
        found: u64,
        /// The lineage of this run.
        own: u64,
    },
}

/// A checkpoint that can be read.
struct Kept {
    path: PathBuf,
    state: State,
}

/// Whole checkpoints, and what is wrong with the others.
type Found = (Vec<Kept>, Vec<CheckpointError>);

// === impl CheckpointFolder ===

impl CheckpointFolder {
    /// A folder in which the newest `keep` checkpoints (1 at least) are kept.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, keep: usize) -> Self {
        Self { dir: dir.into(), keep: keep.max(1), own: Mutex::new(None) }
    }

    /// Writes the state of a step, sets aside checkpoints that lie further in the stream, and removes
    /// all but the newest. Returns the file's path.
    ///
    /// Temporary name, fsync, rename, fsync of the folder: at any moment the folder holds the
    /// checkpoint whole or not at all.
    ///
    /// # Errors
    /// The file system refused, or another run has begun a later lineage; earlier checkpoints are
    /// untouched then.
    pub fn write(&self, step: u64, state: &State) -> Result<PathBuf, CheckpointError> {
        let mut own = self.own();
        fs::create_dir_all(&self.dir).map_err(at("make", &self.dir))?;
        let (whole, _) = self.read_all()?;
        let sequence = whole.iter().map(|kept| kept.written().sequence).max().unwrap_or(0);
        let (mine, others): (Vec<_>, Vec<_>) =
            whole.into_iter().partition(|kept| kept.state.is_of_stream_of(state));
        let newest = mine.last().map_or(FIRST, Kept::written);
        let known = own.as_ref().filter(|(last, _)| last.is_of_stream_of(state));
        if let Some(own) = known.map(|(_, own)| *own).filter(|own| *own < newest.lineage) {
            let (dir, found) = (self.dir.clone(), newest.lineage);
            return Err(CheckpointError::Superseded { dir, found, own });
        }
        let (later, mut earlier): (Vec<_>, Vec<_>) =
            mine.into_iter().partition(|kept| place(&kept.state) > place(state));
        let written = Written {
            lineage: newest.lineage.saturating_add(u64::from(!later.is_empty())),
            sequence: sequence.saturating_add(1),
        };
        let path = self.dir.join(file_name(step));
        let same_name = later.iter().chain(&others).find(|kept| kept.path == path);
        self.put(&path, &State { written: Some(written), ..state.clone() }, same_name)?;
        *own = Some((state.clone(), written.lineage));
        // Not before: a crash in between would leave nothing of the new lineage to resume.
        for kept in later.iter().filter(|kept| kept.path != path) {
            if let Err(error) = kept.set_aside() {
                tracing::warn!(%error, "abandoned checkpoint keeps its name");
            }
        }
        earlier.retain(|kept| kept.path != path);
        self.remove_old(&earlier, state, &path);
        Ok(path)
    }

    fn own(&self) -> MutexGuard<'_, Option<(State, u64)>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file under its name. `replaced`, an abandoned file of that name, is set aside.
    fn put(
        &self,
        path: &Path,
        state: &State,
        replaced: Option<&Kept>,
    ) -> Result<(), CheckpointError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Another process may write the same name at the same time, on this host or another.
        let unique = RandomState::new().hash_one(std::process::id());
        let temporary = self.dir.join(format!(".{name}.{unique:016x}.tmp"));
        let json = serde_json::to_vec_pretty(state).expect("a state is plain data");
        let written = File::create_new(&temporary).and_then(|mut file| {
            file.write_all(&json)?;
            file.write_all(b"\n")?;
            file.sync_all()
        });
        let named = written
            .map_err(at("write", &temporary))
            .and_then(|()| replaced.map_or(Ok(()), Kept::link_aside))
            .and_then(|()| fs::rename(&temporary, path).map_err(at("name", path)));
        if let Err(error) = named {
            // Of a disk that is full each attempt would keep a bit more.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(at("sync", &self.dir))
    }

    /// The newest whole checkpoint: of the stream that was written last, and its latest lineage, the last one. Of files of
    /// earlier releases, which do not say when they were written, the one furthest in the stream:
    /// trainers may count steps from 0 in each epoch or after a resume. Torn and foreign files are
    /// passed over with a warning that names them. `None` where there are no checkpoints.
    ///
    /// # Errors
    /// The folder or one of its checkpoints is there and the system does not read it, or no checkpoint is whole.
    pub fn newest(&self) -> Result<Option<(PathBuf, State)>, CheckpointError> {
        let (mut whole, mut broken) = self.read_all()?;
        for error in &broken {
            tracing::warn!(%error, "checkpoint passed over");
        }
        if let Some(newest) = take_newest(&mut whole) {
            *self.own() = Some((newest.state.clone(), newest.written().lineage));
            return Ok(Some((newest.path, State { written: None, ..newest.state })));
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

    /// Whether a checkpoint lies further than a state: of its stream, or of the one that this run has resumed from.
    ///
    /// # Errors
    /// The folder is there and cannot be listed.
    pub fn is_ahead_of(&self, state: &State) -> Result<bool, CheckpointError> {
        let (whole, _) = self.read_all()?;
        let own = self.own();
        let streams: Vec<_> = own.iter().map(|(last, _)| last).chain([state]).collect();
        let ahead = |kept: &Kept| {
            place(&kept.state) > place(state)
                && streams.iter().any(|of| kept.state.is_of_stream_of(of))
        };
        Ok(whole.iter().any(ahead))
    }

    /// Takes checkpoints that cannot be read out of the way: each keeps its name, with `.broken` after
    /// it.
    ///
    /// # Errors
    /// The folder cannot be listed, or a file not be named anew.
    pub fn set_broken_aside(&self) -> Result<(), CheckpointError> {
        for (_, path) in self.list(step_of)? {
            if matches!(read(&path), Err(CheckpointError::Foreign { .. })) {
                fs::rename(&path, with_suffix(&path, ".broken")).map_err(at("name", &path))?;
            }
        }
        Ok(())
    }

    /// Whole checkpoints, the newest last, and what is wrong with the others. Of two at one place
    /// that do not say when they were written, the one with the larger step in its name comes later.
    fn read_all(&self) -> Result<Found, CheckpointError> {
        let mut looks = 0;
        loop {
            looks += 1;
            let (mut whole, mut broken, mut unread) = (Vec::new(), Vec::new(), None);
            for (_, path) in self.list(step_of)? {
                match read(&path) {
                    Ok(state) => whole.push(Kept { path, state }),
                    Err(error @ CheckpointError::Foreign { .. }) => broken.push(error),
                    Err(error) => unread = Some(error),
                }
            }
            match unread {
                // Rank 0 removed or renamed a file, and has written a newer one before.
                Some(error) if error.is_gone() && looks < LOOKS_MAX => {}
                // It may be the newest: whoever passed it over would resume elsewhere than other ranks.
                Some(error) => return Err(error),
                None => {
                    whole.sort_by_key(|kept| (kept.written(), place(&kept.state)));
                    return Ok((whole, broken));
                }
            }
        }
    }

    /// Files by the number that `number` finds in their names, the smallest first.
    fn list(
        &self,
        number: impl Fn(&str) -> Option<u64>,
    ) -> Result<Vec<(u64, PathBuf)>, CheckpointError> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(at("list", &self.dir))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(at("list", &self.dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(number) = number(name) {
                found.push((number, path));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes all but the newest of a stream, of those set aside all but as many, and what writers that were killed
    /// left half written. `earlier`, the oldest first, lacks the file that was just `written`.
    fn remove_old(&self, earlier: &[Kept], of: &State, written: &Path) {
        let surplus = earlier.len().saturating_sub(self.keep - 1);
        let old = earlier[..surplus].iter().map(|kept| kept.path.clone());
        let mut aside = self.list(sequence_of_abandoned).unwrap_or_default();
        aside.retain(|(_, path)| read(path).is_ok_and(|state| state.is_of_stream_of(of)));
        let surplus = aside.len().saturating_sub(self.keep);
        let aside = aside.into_iter().take(surplus).map(|(_, path)| path);
        let half = self.list(|name| is_temporary(name).then_some(0)).unwrap_or_default();
        let half = half.into_iter().map(|(_, path)| path).filter(|path| is_left(path, written));
        for path in old.chain(aside).chain(half) {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "old checkpoint stays");
            }
        }
    }
}

// === impl Kept ===

impl Kept {
    fn written(&self) -> Written {
        self.state.written.unwrap_or(FIRST)
    }

    /// Renames a file that the stream has gone back behind, so that no run resumes from it.
    fn set_aside(&self) -> Result<(), CheckpointError> {
        let aside = self.aside();
        fs::rename(&self.path, &aside).map_err(at("name", &aside))?;
        self.say_aside(&aside);
        Ok(())
    }

    /// The same for a file that is replaced next: a rank that reads meanwhile finds one of the two.
    fn link_aside(&self) -> Result<(), CheckpointError> {
        let aside = self.aside();
        // Others may have left a link of that name, which is not followed.
        let _ = fs::remove_file(&aside);
        // The bytes are on the disk since the file was written. Not all file systems have links.
        let linked = fs::hard_link(&self.path, &aside).or_else(|_| self.copy_to(&aside));
        linked.map_err(|error| {
            let _ = fs::remove_file(&aside);
            at("write", &aside)(error)
        })?;
        self.say_aside(&aside);
        Ok(())
    }

    fn copy_to(&self, aside: &Path) -> io::Result<()> {
        let mut copy = File::create_new(aside)?;
        io::copy(&mut File::open(&self.path)?, &mut copy)?;
        copy.sync_all()
    }

    fn aside(&self) -> PathBuf {
        with_suffix(&self.path, &format!("{ABANDONED}{}", self.written().sequence))
    }

    fn say_aside(&self, aside: &Path) {
        tracing::warn!(
            path = %self.path.display(),
            aside = %aside.display(),
            "checkpoint set aside: the run went back to an earlier place in the stream, or another stream writes this \
             name; loaders that run beside one another need a receiver.checkpoint_dir each"
        );
    }
}

// === impl CheckpointError ===

impl CheckpointError {
    /// Whether the file was there a moment ago; on NFS a removed one is stale.
    fn is_gone(&self) -> bool {
        use io::ErrorKind::{NotFound, StaleNetworkFileHandle};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), NotFound | StaleNetworkFileHandle))
    }
}

/// Reads one checkpoint.
///
/// # Errors
/// The file cannot be read, or is not a state that this release reads.
pub fn read(path: &Path) -> Result<State, CheckpointError> {
    let foreign = |reason: String| CheckpointError::Foreign { path: path.to_owned(), reason };
    // A pipe of that name would have whoever opens it wait for a writer.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(at("read", path))?;
    let found = file.metadata().map_err(at("read", path))?;
    if !found.is_file() {
        return Err(foreign("it is not a file".to_owned()));
    }
    if found.len() > FILE_MAX_BYTES {
        return Err(foreign(format!("it has {} bytes", found.len())));
    }
    let mut bytes = Vec::new();
    file.take(FILE_MAX_BYTES).read_to_end(&mut bytes).map_err(at("read", path))?;
    serde_json::from_slice(&bytes).map_err(|error| foreign(serde_words::problem(&error)))
}

fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io { doing, path, source }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Takes out the file that a run goes on from: the last one of the stream whose file was written last. `whole` is in
/// the order of [`Written`].
fn take_newest(whole: &mut Vec<Kept>) -> Option<Kept> {
    let last = whole.iter().max_by_key(|kept| (kept.written().sequence, place(&kept.state)))?;
    let newest = whole.iter().rposition(|kept| kept.state.is_of_stream_of(&last.state))?;
    Some(whole.remove(newest))
}

/// Where in the stream a state goes on.
fn place(state: &State) -> (u32, u64) {
    (state.epoch, state.step)
}

fn file_name(step: u64) -> String {
    format!("{PREFIX}{step:0STEP_DIGITS$}{SUFFIX}")
}

fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let plain = digits.len() >= STEP_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// A name that [`CheckpointFolder::put`] writes under.
fn is_temporary(name: &str) -> bool {
    let whole = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    let named = whole.and_then(|name| name.rsplit_once('.'));
    named.is_some_and(|(name, unique)| unique.len() == 16 && step_of(name).is_some())
}

/// Whether nobody writes a file any more: one that was written at once is far newer, by the same clock.
fn is_left(path: &Path, newer: &Path) -> bool {
    let time = |path| fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    let between = time(newer).zip(time(path)).and_then(|(new, old)| new.duration_since(old).ok());
    between.is_some_and(|between| between > WRITING_MAX)
}

fn sequence_of_abandoned(name: &str) -> Option<u64> {
    let (name, sequence) = name.rsplit_once(ABANDONED)?;
    step_of(name)?;
    sequence.parse().ok()
}

#[cfg(test)]
mod tests;
