//! Checkpoints by themselves: written as steps go by, taken up at the start.

use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::AmaxState;
use headwater_core::sampler::Sampler;

use crate::checkpoint::CheckpointFolder;
use crate::config::ReceiverConfig;
use crate::error::ReceiverError;
use crate::mailbox::Position;
use crate::receiver::Receiver;

/// Writes a checkpoint every so many steps; rank 0 only.
pub(crate) struct AutoSave {
    folder: CheckpointFolder,
    every_steps: u64,
    /// Job-wide step of the last checkpoint.
    last: AtomicU64,
}

// === impl AutoSave ===

impl AutoSave {
    pub(crate) fn new(config: &ReceiverConfig) -> Option<Self> {
        let wanted = config.rank == 0 && !config.checkpoint_dir.as_os_str().is_empty();
        wanted.then(|| Self {
            folder: folder(config),
            every_steps: config.checkpoint_every_steps.into(),
            last: AtomicU64::new(0),
        })
    }

    /// The trainer asks for the next batch, so it is through with those before. A checkpoint that
    /// cannot be written is an error in the log and in the metrics, and training goes on.
    pub(crate) fn step_is_over(&self, receiver: &Receiver) {
        let Position { epoch, step } = receiver.position();
        let job_step = receiver.job_step(epoch, step);
        if !job_step.is_multiple_of(self.every_steps)
            || self.last.swap(job_step, Ordering::Relaxed) == job_step
        {
            return;
        }
        if let Err(error) = receiver.checkpoint_to(&self.folder, job_step) {
            metrics::counter!("headwater_receiver_checkpoint_errors_total").increment(1);
            tracing::error!(%error, "no checkpoint of step {job_step}");
        }
    }
}

// === impl Receiver ===

impl Receiver {
    /// Writes a checkpoint of the place now, numbered by `step`, the trainer's own count. Does
    /// nothing on other ranks than 0, which would write the same.
    ///
    /// # Errors
    /// `receiver.checkpoint_dir` is not set, or cannot be written to.
    pub fn checkpoint(&self, step: u64) -> Result<(), ReceiverError> {
        let config = self.config();
        if config.checkpoint_dir.as_os_str().is_empty() {
            let (value, rule) = ("\"\"".into(), "name a folder for checkpoints");
            return Err(ReceiverError::Config { key: "checkpoint_dir", value, rule });
        }
        if config.rank == 0 { self.checkpoint_to(&folder(config), step) } else { Ok(()) }
    }

    fn checkpoint_to(&self, folder: &CheckpointFolder, step: u64) -> Result<(), ReceiverError> {
        let path = folder.write(step, &self.state()?)?;
        tracing::info!(path = %path.display(), "checkpoint written");
        Ok(())
    }
}

/// Takes up the newest checkpoint, if that is wanted and there is one; gives the place to begin and
/// what delayed scales follow from there.
pub(crate) fn resumed(
    mut sampler: Sampler,
    config: &ReceiverConfig,
) -> Result<(Sampler, Position, Option<AmaxState>), ReceiverError> {
    let start = Position { epoch: 0, step: 0 };
    if !config.resume {
        return Ok((sampler, start, None));
    }
    let Some((path, state)) = folder(config).newest()? else {
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

fn folder(config: &ReceiverConfig) -> CheckpointFolder {
    CheckpointFolder::new(&config.checkpoint_dir, config.checkpoint_keep as usize)
}
