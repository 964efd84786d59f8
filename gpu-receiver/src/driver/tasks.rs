//! The driver's tasks: sessions, and CPU work that would hold up an async thread.

use headwater_core::sampler::{Restored, SamplerError};
use headwater_cuda::CudaError;
use headwater_transport::LeaseId;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

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

/// Adds CPU work to the driver's tasks. Passed in, so that simulations can do it in their one thread.
pub(crate) type StartCpu = fn(&mut JoinSet<Outcome>, CpuWork);

/// Does the work on a thread that may block.
pub(crate) fn on_a_thread(tasks: &mut JoinSet<Outcome>, work: CpuWork) {
    tasks.spawn_blocking(work);
}
