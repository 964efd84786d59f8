//! Checkpoints that the trainer asks for, and those that fall due by themselves.

use super::Receiver;
use crate::autosave::AutoSave;
use crate::error::ReceiverError;
use crate::position::Position;

impl Receiver {
    /// Writes a checkpoint of the place now, numbered by `step`, the trainer's own count. Does
    /// nothing on other ranks than 0, which would write the same.
    ///
    /// # Errors
    /// `receiver.checkpoint_dir` is not set, or cannot be written to.
    pub fn checkpoint(&self, step: u64) -> Result<(), ReceiverError> {
        let config = self.config();
        if config.checkpoints.checkpoint_dir.as_os_str().is_empty() {
            let (value, rule) = ("\"\"".into(), "name a folder for checkpoints");
            return Err(ReceiverError::Config { key: "checkpoint_dir", value, rule });
        }
        self.autosave.as_ref().map_or(Ok(()), |autosave| self.checkpoint_to(autosave, step))
    }

    /// The trainer has gone to the place of a state. If checkpoints lie further in the stream, writes
    /// one of this place, which sets them aside: a resume before the next checkpoint would return to
    /// the stream that the trainer has left. Errors are handled as for checkpoints that fall due.
    pub(super) fn save_if_gone_back(&self) {
        let Some(autosave) = &self.autosave else { return };
        autosave.forget_place();
        let saved = self.state().and_then(|state| {
            if !autosave.folder().is_ahead_of(&state)? {
                return Ok(());
            }
            self.checkpoint_to(autosave, self.job_step(state.epoch, state.step))
        });
        if let Err(error) = saved {
            crate::metrics::checkpoint_failed();
            tracing::error!(%error, "no checkpoint of the place that the run went back to");
        }
    }

    /// The trainer asks for the next batch, so it is through with those before. A checkpoint that
    /// cannot be written is an error in the log and in the metrics, and training goes on.
    pub(super) fn save_if_due(&self) {
        let Some(autosave) = &self.autosave else { return };
        let here = self.position();
        if !autosave.is_due(&self.order, here) {
            return;
        }
        let Position { epoch, step } = here;
        let job_step = self.job_step(epoch, step);
        if let Err(error) = self.checkpoint_to(autosave, job_step) {
            crate::metrics::checkpoint_failed();
            tracing::error!(%error, "no checkpoint of step {job_step}");
        }
    }

    fn checkpoint_to(&self, autosave: &AutoSave, step: u64) -> Result<(), ReceiverError> {
        let path = autosave.write(step, &self.state()?)?;
        tracing::info!(path = %path.display(), "checkpoint written");
        Ok(())
    }
}
