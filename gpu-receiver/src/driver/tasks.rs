//! The driver's tasks: sessions, and CPU work that would hold up an async thread.

use headwater_core::sampler::{Restored, SamplerError};
use headwater_cuda::CudaError;
use headwater_transport::LeaseId;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};

use super::Driver;
use crate::error::ReceiverError;
use crate::ledger::Serial;
use crate::sample_order::Plan;

/// What came of a task.
pub(crate) enum Outcome {
    /// A session is not kept any more.
    Left,
    /// The samples of a batch.
    Drawn(Serial, Result<Plan, SamplerError>),
    /// Whether a part's bytes are those of its checksum; an error where the GPU that has them fails.
    Verified(LeaseId, Result<bool, CudaError>),
    /// The order of samples has other weights, and who waits for that.
    Reweighed(Result<(), SamplerError>, oneshot::Sender<Result<(), SamplerError>>),
    /// The order of samples is that of a state, and who waits for that.
    Restored(Result<Restored, ReceiverError>, oneshot::Sender<Result<Restored, ReceiverError>>),
}

/// Work of some time, without waiting.
pub(crate) type CpuWork = Box<dyn FnOnce() -> Outcome + Send>;

/// Does the work on a thread that may block.
pub(crate) fn on_a_thread(tasks: &mut JoinSet<Outcome>, work: CpuWork) {
    tasks.spawn_blocking(work);
}

impl Driver {
    pub(super) fn start(&mut self, work: impl FnOnce() -> Outcome + Send + 'static) {
        (self.start_cpu)(&mut self.tasks, Box::new(work));
    }

    /// A task has ended. One that panicked ends the stream: nobody would receive its result.
    pub(super) fn on_task(&mut self, ended: Result<Outcome, JoinError>) {
        let now = self.now();
        match ended {
            Ok(Outcome::Left) => {}
            Ok(Outcome::Drawn(serial, plan)) => self.on_drawn(serial, plan),
            Ok(Outcome::Verified(lease, Ok(equal))) => self.ledger.on_verified(lease, equal, now),
            Ok(Outcome::Verified(_, Err(error))) => self.ledger.give_up(error.into()),
            Ok(Outcome::Reweighed(result, reply)) => self.on_reweighed(result, reply),
            Ok(Outcome::Restored(result, reply)) => self.on_restored(result, reply),
            Err(error) if error.is_panic() => {
                let reason = format!("a task of its own panicked: {error}");
                self.ledger.give_up(ReceiverError::Closed { reason });
            }
            // A session with a worker that was taken off the list.
            Err(_) => {}
        }
    }
}
