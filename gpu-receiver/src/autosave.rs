//! Checkpoints by themselves: written as steps go by, taken up at the start.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headwater_core::AmaxState;
use headwater_core::sampler::{Sampler, State};

use crate::checkpoint::{CheckpointError, CheckpointFolder};
use crate::config::{CheckpointConfig, Resume};
use crate::error::ReceiverError;
use crate::position::Position;
use crate::sample_order::SampleOrder;

/// No batch has this number.
const NOWHERE: u64 = u64::MAX;

/// Says when a checkpoint falls due: every `every_steps` steps, on rank 0 only.
pub(crate) struct AutoSave {
    folder: CheckpointFolder,
    every_steps: u64,
    /// Number of the batch that was next at the last look.
    last: AtomicU64,
    /// Whether this run has a checkpoint. A return to the start needs none as long as there is no other.
    has_any: AtomicBool,
}

// === impl AutoSave ===

impl AutoSave {
    /// `start`: the batch that comes first. A run that has resumed there has a checkpoint of that place.
    pub(crate) fn new(
        config: &CheckpointConfig,
        rank: u32,
        folder: CheckpointFolder,
        start: u64,
    ) -> Option<Self> {
        let wanted = rank == 0 && !config.checkpoint_dir.as_os_str().is_empty();
        wanted.then(|| Self {
            folder,
            every_steps: config.checkpoint_every_steps.into(),
            last: AtomicU64::new(start),
            has_any: AtomicBool::new(start > 0),
        })
    }

    /// Whether to write a checkpoint of this place; once each time that the stream comes to it: when it has gone
    /// back, what was written there before is of another generation. Counts batches that are made: the job-wide step has
    /// gaps where short ones are left out, and a multiple may lie in one.
    pub(crate) fn is_due(&self, order: &SampleOrder, at: Position) -> bool {
        let number = order.batch_number(at.epoch, at.step);
        let has_moved = self.last.swap(number, Ordering::Relaxed) != number;
        let is_needed = number > 0 || self.has_any.load(Ordering::Relaxed);
        has_moved && number.is_multiple_of(self.every_steps) && is_needed
    }

    /// Writes a checkpoint, whoever has asked for it; where it is.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn write(&self, step: u64, state: &State) -> Result<PathBuf, CheckpointError> {
        let path = self.folder.write(step, state)?;
        self.has_any.store(true, Ordering::Relaxed);
        Ok(path)
    }

    /// A state was loaded, or weights were set: also at the same place other batches may follow.
    pub(crate) fn forget_place(&self) {
        self.last.store(NOWHERE, Ordering::Relaxed);
    }

    pub(crate) fn folder(&self) -> &CheckpointFolder {
        &self.folder
    }
}

/// Takes up the newest checkpoint of the folder, if that is wanted and there is one; gives the place to begin and
/// what delayed scales follow from there.
pub(crate) fn resumed(
    mut sampler: Sampler,
    config: &CheckpointConfig,
    rank: u32,
    folder: &CheckpointFolder,
) -> Result<(Sampler, Position, Option<AmaxState>), ReceiverError> {
    let start = Position { epoch: 0, step: 0 };
    if config.resume == Resume::No {
        return Ok((sampler, start, None));
    }
    let newest = match folder.newest() {
        Err(error @ CheckpointError::NoneWhole { .. }) if config.resume == Resume::Fresh => {
            tracing::warn!(%error, "begins at the start, as receiver.resume asks");
            // Otherwise every later start would warn of them again.
            if rank == 0 {
                folder.set_broken_aside()?;
            }
            return Ok((sampler, start, None));
        }
        newest => newest?,
    };
    let Some((path, state)) = newest else {
        // Of a first start and of a wrong folder: only who reads it can tell. The folder of a relative path
        // follows from where the process runs.
        let dir = std::path::absolute(&config.checkpoint_dir);
        let dir = dir.unwrap_or_else(|_| config.checkpoint_dir.clone());
        tracing::warn!(
            dir = %dir.display(),
            "receiver.resume is set and this folder holds no checkpoint: begins at the start"
        );
        return Ok((sampler, start, None));
    };
    let restored = sampler.restore(&state, &config.resume_allow).map_err(|source| {
        CheckpointError::Other { path: path.clone(), source: Box::new(source) }
    })?;
    for difference in &restored.allowed {
        tracing::warn!(%difference, "resumed although");
    }
    let (epoch, step) = (restored.epoch, restored.step);
    tracing::info!(path = %path.display(), epoch, step, "resumed");
    Ok((sampler, Position { epoch, step }, state.fp8))
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write as _};
    use std::sync::{Arc, Mutex};

    use headwater_core::sampler::{EpochEnd, Order, OrderList, Rows, SamplerConfig};
    use headwater_core::{Digest, Manifest, ShardEntry};
    use tracing::field::Field;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// Four full batches, and of each of four groups a sample that is too few for the ranks.
    fn sampler() -> Sampler {
        let shard = ShardEntry { name: "a.tar".into(), samples: 20, bytes: 1, digest: Digest(1) };
        let manifest = Manifest::new("d".into(), vec![], vec![shard]).expect("a manifest");
        let numbers = Rows::of_columns(20, (0..20).collect()).expect("a row");
        let groups = Rows::of_columns(20, (0..20).map(|n| n % 4).collect()).expect("a row");
        let list = OrderList::numbers(numbers, Some(groups)).expect("a list");
        let config = SamplerConfig {
            order: Order::List,
            epoch_end: EpochEnd::ShortLast,
            ..SamplerConfig::new(1, 2, 0, 2)
        };
        let sampler = Sampler::with_list(config, vec![Arc::new(manifest)], Arc::new(list));
        sampler.expect("an order")
    }

    fn order() -> SampleOrder {
        SampleOrder::new(sampler())
    }

    /// Keeps the warnings of the log.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<String>>);

    impl Subscriber for Warnings {
        fn enabled(&self, of: &Metadata<'_>) -> bool {
            *of.level() == Level::WARN
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut told = self.0.lock().expect("no panic");
            event.record(&mut |field: &Field, value: &dyn Debug| {
                write!(told, "{field}={value:?} ").expect("a string");
            });
        }
    }

    /// Python shows warnings unless told otherwise. A relative path is not enough to find the folder by.
    #[test]
    fn who_resumes_and_finds_no_checkpoint_is_warned_with_the_whole_path() {
        let config = CheckpointConfig {
            checkpoint_dir: "no/such/folder".into(),
            resume: Resume::Yes,
            ..CheckpointConfig::default()
        };
        let warnings = Warnings::default();
        let begin = || resumed(sampler(), &config, 0, &config.folder()).expect("a start").1;
        let start = tracing::subscriber::with_default(warnings.clone(), begin);
        assert_eq!(start, Position { epoch: 0, step: 0 });
        let folder = std::env::current_dir().expect("a folder").join("no/such/folder");
        let told = warnings.0.lock().expect("no panic");
        assert!(told.contains(&*folder.to_string_lossy()), "{told}");
        assert!(told.contains("begins at the start"), "{told}");
    }

    /// Other weights may have been set since, and batches of another state may follow.
    #[test]
    fn a_checkpoint_falls_due_again_where_the_stream_has_gone_back() {
        let (order, folder) = (order(), tempfile::tempdir().expect("a folder"));
        let config = CheckpointConfig {
            checkpoint_dir: folder.path().to_owned(),
            checkpoint_every_steps: 2,
            ..CheckpointConfig::default()
        };
        let autosave = AutoSave::new(&config, 0, config.folder(), 0).expect("it is wanted");
        let due = |steps: std::ops::Range<u64>| -> Vec<u64> {
            let is_due = |step: &u64| autosave.is_due(&order, Position { epoch: 0, step: *step });
            steps.filter(is_due).collect()
        };
        assert_eq!([due(0..2), due(0..2)].concat(), [0; 0], "nothing is behind the start");
        assert_eq!(due(0..4), [2]);
        assert_eq!(due(0..1), [0; 0], "it was not written");
        assert_eq!(due(1..3), [2]);
        // By the trainer, at a place where none falls due.
        let state = order.state(Position { epoch: 0, step: 3 }).expect("a state");
        autosave.write(3, &state).expect("it is written");
        assert_eq!(due(2..3), [0; 0], "it is asked again");
        autosave.forget_place();
        assert_eq!(due(2..3), [2]);
        assert_eq!(due(0..2), [0], "a resume would leave the start again");
    }

    #[test]
    fn a_checkpoint_falls_due_every_so_many_batches_where_short_ones_are_left_out() {
        let (order, every) = (order(), 3);
        let config = CheckpointConfig {
            checkpoint_dir: "state".into(),
            checkpoint_every_steps: every,
            ..CheckpointConfig::default()
        };
        let autosave = AutoSave::new(&config, 0, config.folder(), 0).expect("it is wanted");
        assert_eq!((order.steps_per_epoch(0), order.job_step(1, 0)), (4, 8));
        let (mut taken, mut due) = (0, Vec::new());
        for epoch in 0..6 {
            for step in 0..=4 {
                if autosave.is_due(&order, Position { epoch, step }) {
                    due.push(taken);
                }
                // The end of an epoch is a place without a batch.
                taken += u64::from(step < 4);
            }
        }
        assert_eq!(due, (1..=8).map(|times| times * u64::from(every)).collect::<Vec<_>>());
    }
}
