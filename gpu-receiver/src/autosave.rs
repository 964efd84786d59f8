//! Checkpoints by themselves: written as steps go by, taken up at the start.

use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::AmaxState;
use headwater_core::sampler::Sampler;

use crate::checkpoint::{CheckpointError, CheckpointFolder};
use crate::config::{ReceiverConfig, Resume};
use crate::error::ReceiverError;
use crate::position::Position;

/// Says when a checkpoint falls due: every so many steps, on rank 0 only.
pub(crate) struct AutoSave {
    folder: CheckpointFolder,
    every_steps: u64,
    /// Job-wide step of the last checkpoint.
    last: AtomicU64,
}

// === impl AutoSave ===

impl AutoSave {
    pub(crate) fn new(config: &ReceiverConfig, folder: CheckpointFolder) -> Option<Self> {
        let wanted = config.rank == 0 && !config.checkpoint_dir.as_os_str().is_empty();
        wanted.then(|| Self {
            folder,
            every_steps: config.checkpoint_every_steps.into(),
            last: AtomicU64::new(0),
        })
    }

    /// Whether a checkpoint of this step is to be written; once for each.
    pub(crate) fn is_due(&self, job_step: u64) -> bool {
        job_step.is_multiple_of(self.every_steps)
            && self.last.swap(job_step, Ordering::Relaxed) != job_step
    }

    pub(crate) fn folder(&self) -> &CheckpointFolder {
        &self.folder
    }
}

/// Takes up the newest checkpoint of the folder, if that is wanted and there is one; gives the place to begin and
/// what delayed scales follow from there.
pub(crate) fn resumed(
    mut sampler: Sampler,
    config: &ReceiverConfig,
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
            if config.rank == 0 {
                folder.set_broken_aside()?;
            }
            None
        }
        newest => newest?,
    };
    let Some((path, state)) = newest else {
        tracing::info!(dir = %config.checkpoint_dir.display(), "no checkpoint: from the start");
        return Ok((sampler, start, None));
    };
    let restored = sampler.restore(&state, &config.resume_allow)?;
    for difference in &restored.allowed {
        tracing::warn!(%difference, "resumed although");
    }
    let (epoch, step) = (restored.epoch, restored.step);
    tracing::info!(path = %path.display(), epoch, step, "resumed");
    Ok((sampler, Position { epoch, step }, state.fp8))
}
