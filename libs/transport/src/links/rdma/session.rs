//! The worker's side of one session: permissions, and the queue pairs that parts go over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::connection::Connection;
use super::lane::{Outgoing, Write};
use super::locked;
use super::verbs::{MemoryRegion, Piece, Request, Writers};
use super::wire::{RemoteMemory, low_half};
use crate::link::messages::{ToReceiver, ToWorker};
use crate::link::terms::{LinkError, LinkKind};
use crate::link::worker_permits::{ChannelToReceiver, Rendered, Rendering, WorkerPermits};
use crate::memory::mapping::Mapping;
use crate::memory::part::PartBuffer;
use crate::memory::place::{self, PartPlace, PlaceError};
use crate::memory::staging::{StagingBuffer, StagingPool};
use crate::metrics;

/// A buffer's memory as the worker's card knows it.
type Region = MemoryRegion<Arc<Mapping>>;

/// What a part keeps: its buffer goes back first.
#[derive(Debug)]
struct Kept {
    staging: StagingBuffer<Region>,
    _rendering: Rendering<RemoteMemory, Pairs>,
}

/// What the worker knows of its receiver.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) permits: Arc<WorkerPermits<RemoteMemory>>,
    staging: StagingPool<Region>,
    pairs: Pairs,
}

/// The queue pairs; `None` when the session has ended.
#[derive(Clone, Debug)]
struct Pairs(Arc<Mutex<Option<Arc<Connection>>>>);

// === impl Session ===

impl Session {
    pub(super) fn new(connection: Arc<Connection>, staging_buffers: usize) -> Self {
        let kind = LinkKind::Rdma;
        let permits = Arc::new(WorkerPermits::new(kind, Rendered::InStaging));
        let domain = Arc::clone(&connection.adapter().domain);
        let register = move |memory: Arc<Mapping>| {
            let len_bytes = memory.len() as u64;
            let region = Region::new(&domain, memory, Writers::Own).map_err(|error| {
                locked::registration_failure("a staging buffer", len_bytes, &error)
            })?;
            metrics::registered(kind, len_bytes);
            Ok(region)
        };
        let staging = StagingPool::new(staging_buffers, metrics::staging_in_use(kind), register);
        Self { permits, staging, pairs: Pairs(Arc::new(Mutex::new(Some(connection)))) }
    }

    /// Waits for slot and permission, then for a registered buffer.
    pub(super) async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot = self.permits.permitted_slot(&place).await?;
        place::check(&place, slot.len_bytes)?;
        let staging = self.permits.staging(&place, &self.staging).await?;
        let rendering = self.permits.render(&place, self.pairs.clone())?;
        let memory = Arc::clone(staging.mapping());
        Ok(PartBuffer::in_staging(place, memory, Kept { staging, _rendering: rendering })?)
    }

    /// Hands the part to the queue pairs; the receiver learns when it is there.
    pub(super) fn send(
        &self,
        part: PartBuffer,
    ) -> Result<oneshot::Receiver<Result<(), LinkError>>, LinkError> {
        let kept = part.keeper::<Kept>();
        let kept = kept.ok_or_else(|| PlaceError::new("the buffer is of another link"))?;
        let local_key = kept.staging.registration().local_key();
        let slot = self.permits.spend(part.place())?;
        // Gone only after the permits were closed, a moment ago.
        let connection = self.pairs.lock().clone();
        let connection = connection.ok_or(LinkError::Withdrawn { lease: part.lease() })?;
        let writes = writes(&part, local_key, slot, connection.message_max_bytes());
        let (done, outcome) = oneshot::channel();
        connection.deliver(Outgoing { part, writes, done });
        Ok(outcome)
    }

    /// A message of the receiver; `Err`: why the session ends.
    pub(super) fn hear(&self, bytes: &[u8]) -> Result<(), String> {
        let message = ToWorker::decode(bytes).ok_or("the receiver sent no known message")?;
        self.permits.on_message(message, &self.pairs)
    }

    /// The session has ended: nothing is begun or sent from here on.
    pub(super) fn close(&self, reason: &str) {
        self.permits.close(reason);
        let connection = self.pairs.lock().take();
        drop(connection);
    }
}

// === impl Pairs ===

impl Pairs {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelToReceiver for Pairs {
    fn send(&self, message: ToReceiver) {
        let connection = self.lock().clone();
        let Some(connection) = connection else { return };
        match message {
            ToReceiver::Quiet { lease } => connection.send_quiet(lease),
            message => connection.send(message.encode()),
        }
    }
}

/// One write for each region that has bytes, or several for one longer than the port takes at a
/// time; the last tells the receiver. Of a part without bytes there is only that one.
fn writes(
    part: &PartBuffer,
    local_key: u32,
    slot: RemoteMemory,
    message_max_bytes: u32,
) -> Vec<Write> {
    let mut writes = Vec::with_capacity(part.place().regions.len());
    for (region, bytes) in part.place().regions.iter().zip(part.regions()) {
        let mut offset = region.offset_bytes;
        for chunk in bytes.chunks(message_max_bytes as usize) {
            let piece =
                Piece { address: chunk.as_ptr() as u64, len_bytes: chunk.len() as u32, local_key };
            let address = slot.address + offset;
            let request = Request::Write { address, remote_key: slot.key, immediate: None };
            writes.push(Write { piece, request });
            offset += u64::from(piece.len_bytes);
        }
    }
    if writes.is_empty() {
        let piece = Piece { address: 0, len_bytes: 0, local_key };
        let request =
            Request::Write { address: slot.address, remote_key: slot.key, immediate: None };
        writes.push(Write { piece, request });
    }
    if let Some(Write { request: Request::Write { immediate: number, .. }, .. }) = writes.last_mut()
    {
        *number = Some(low_half(part.lease()));
    }
    writes
}
