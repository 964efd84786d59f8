//! The worker's end.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::task::AbortHandle;

use super::choices::ShmConnect;
use super::slot::Slot;
use super::wire::{MAGIC, VERSION};
use crate::link::contract::{SendsWhole, WorkerLink};
use crate::link::messages::{MESSAGES_WAITING_MAX, ToReceiver, ToWorker};
use crate::link::terms::{LinkError, LinkKind, LinkOffer, SessionKey};
use crate::link::worker_permits::{ChannelToReceiver, Rendered, Rendering, WorkerPermits};
use crate::links::local::channel::Channel;
use crate::links::local::greeting::{greet, let_in};
use crate::memory::part::PartBuffer;
use crate::memory::place::{self, LeaseId, PartPlace, PlaceError};
use crate::metrics::{self, Direction};
use crate::packets::Packet;

/// Maps slots as the receiver announces them.
type Permits = WorkerPermits<Arc<Slot>>;
/// What a part keeps.
type Kept = Rendering<Arc<Slot>, Arc<Channel>>;

/// A connected worker.
#[derive(Debug)]
pub(super) struct ShmWorker {
    permits: Arc<Permits>,
    // Held by the session's task and by buffers. The last of them to go closes the socket, although
    // this link may be held on to: that end is the proof that nothing of this process writes any more.
    channel: Weak<Channel>,
    task: AbortHandle,
}

/// What the task holds. Fields drop in order: slots go before the socket closes.
struct Session {
    permits: Arc<Permits>,
    channel: Arc<Channel>,
}

// === impl ShmWorker ===

impl ShmWorker {
    pub(super) async fn connect(
        offer: &LinkOffer,
        key: &SessionKey,
        config: &ShmConnect,
    ) -> Result<Self, LinkError> {
        let kind = LinkKind::Shm;
        let greet = async {
            let hello = (MAGIC, VERSION);
            let (socket, answer) =
                greet(kind, &offer.address, hello, key, &config.allow_uids).await?;
            let_in(kind, ToWorker::<u64>::decode(&answer.bytes), &answer.bytes)?;
            Ok::<_, LinkError>(Channel::new(kind, socket, MESSAGES_WAITING_MAX))
        };
        let late = |_| kind.setup("the receiver did not answer in time");
        let channel =
            tokio::time::timeout(config.handshake_timeout, greet).await.map_err(late)??;
        let permits = Arc::new(Permits::new(LinkKind::Shm, Rendered::InSlot));
        let channel = Arc::new(channel);
        let (session_permits, weak) = (Arc::clone(&permits), Arc::downgrade(&channel));
        let session = Session { permits: session_permits, channel };
        let task = tokio::spawn(session.run());
        Ok(Self { permits, channel: weak, task: task.abort_handle() })
    }
}

#[async_trait]
impl WorkerLink for ShmWorker {
    fn kind(&self) -> LinkKind {
        LinkKind::Shm
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let slot = self.permits.permitted_slot(&place).await?;
        place::check(&place, slot.len_bytes)?;
        let mapping = slot.mapping().await;
        let Some(channel) = self.channel.upgrade() else {
            return Err(LinkKind::Shm.closed("the session has ended"));
        };
        let rendering: Kept = self.permits.render(&place, channel)?;
        Ok(PartBuffer::in_slot(place, mapping, rendering)?)
    }

    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError> {
        let rendering: &Kept =
            part.keeper().ok_or_else(|| PlaceError::new("the buffer is of another link"))?;
        self.permits.spend(part.place())?;
        // The receiver reads the slot after the packet that says so.
        fence(Ordering::Release);
        let channel = rendering.channel();
        if !channel.post(ToReceiver::Written { lease: part.lease() }.encode(), None) {
            channel.flushed().await;
            self.permits.check_connected()?;
        }
        metrics::part(LinkKind::Shm, Direction::Out, part.len_bytes());
        Ok(())
    }

    fn sends_whole(&self) -> Option<&dyn SendsWhole> {
        None // The part must be in the slot.
    }

    fn withdraw(&self, lease: LeaseId) {
        self.permits.withdraw(lease);
    }

    async fn closed(&self) -> LinkError {
        self.permits.closed().await
    }
}

impl Drop for ShmWorker {
    fn drop(&mut self) {
        // Slots go before the task's end of the socket.
        self.permits.close("the worker left");
        self.task.abort();
    }
}

// === impl Session ===

impl Session {
    /// Hears the receiver to the end of its stream.
    async fn run(self) {
        let reason = loop {
            match self.channel.receive().await {
                Ok(Some(packet)) => {
                    if let Err(reason) = self.hear(packet) {
                        break reason;
                    }
                }
                Ok(None) => break "the receiver has closed the link".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        // Not `end_sending`: the receiver takes the end of this stream as proof that no buffer of
        // this process is left, and some may be.
        self.channel.discard_queued();
        self.permits.close(&reason);
    }

    fn hear(&self, packet: Packet) -> Result<(), String> {
        let message =
            ToWorker::decode(&packet.bytes).ok_or("the receiver sent no known message")?;
        let message = message.try_map(|len_bytes| {
            let file = packet.fd.ok_or("a slot came without its file")?;
            Slot::new(file, len_bytes)
        })?;
        self.permits.on_message(message, &self.channel)
    }
}

// === impl ChannelToReceiver ===

impl ChannelToReceiver for Arc<Channel> {
    fn send(&self, message: ToReceiver) {
        self.post(message.encode(), None);
    }
}
