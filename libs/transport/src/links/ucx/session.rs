//! The worker's side of one session: permissions, and the channel to the path's thread.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::path::{Channel, Order, Outgoing};
use super::wire::RemoteMemory;
use crate::link::messages::{ToReceiver, ToWorker};
use crate::link::terms::{LinkError, LinkKind};
use crate::link::worker_permits::{Rendered, Rendering, WorkerPermits};
use crate::memory::part::PartBuffer;
use crate::memory::place::{self, PartPlace, PlaceError};
use crate::memory::staging::{StagingBuffer, StagingPool};
use crate::metrics;

/// What the worker knows of its receiver.
#[derive(Debug)]
pub(super) struct Session {
    /// Of a slot only its length in bytes: the path knows the rest.
    pub(super) permits: Arc<WorkerPermits<u64>>,
    staging: StagingPool<()>,
    channel: Channel,
}

/// What a part keeps: its buffer goes back first.
#[derive(Debug)]
struct Kept {
    _staging: StagingBuffer<()>,
    _rendering: Rendering<u64, Channel>,
}

// === impl Session ===

impl Session {
    pub(super) fn new(channel: Channel, staging_buffers: usize) -> Self {
        let kind = LinkKind::Ucx;
        let staging = StagingPool::plain(staging_buffers, metrics::staging_in_use(kind));
        let permits = Arc::new(WorkerPermits::new(kind, Rendered::InStaging));
        Self { permits, staging, channel }
    }

    /// Waits for slot and permission, then for a buffer.
    pub(super) async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot_bytes = self.permits.permitted_slot(&place).await?;
        place::check(&place, slot_bytes)?;
        let staging = self.permits.staging(&place, &self.staging).await?;
        let rendering = self.permits.render(&place, self.channel.clone())?;
        let memory = Arc::clone(staging.mapping());
        let kept = Kept { _staging: staging, _rendering: rendering };
        Ok(PartBuffer::in_staging(place, memory, kept)?)
    }

    /// Hands the part over; the receiver learns when it is there.
    pub(super) fn send(
        &self,
        part: PartBuffer,
    ) -> Result<oneshot::Receiver<Result<(), LinkError>>, LinkError> {
        if part.keeper::<Kept>().is_none() {
            return Err(PlaceError::new("the buffer is of another link").into());
        }
        self.permits.spend(part.place())?;
        let (done, outcome) = oneshot::channel();
        let receipt = ToReceiver::Written { lease: part.lease() }.encode();
        self.channel.order(Order::Deliver(Box::new(Outgoing { part, receipt, done })));
        Ok(outcome)
    }

    /// A message of the receiver; `Err`: why the session ends. The path has learnt of slots by then.
    pub(super) fn hear(&self, message: ToWorker<RemoteMemory>) -> Result<(), String> {
        self.permits.on_message(message.map(|memory| memory.len_bytes), &self.channel)
    }

    /// Says goodbye after all parts that were sent.
    pub(super) fn leave(&self) {
        self.channel.order(Order::Leave(ToReceiver::Bye.encode()));
    }
}
