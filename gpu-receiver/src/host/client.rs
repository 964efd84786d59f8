//! A trial's end: asks the service of its host for batches, and says when it is through with them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use headwater_core::part::PartKey;
use headwater_proto::augment::Provenance;
use headwater_transport::packets::PacketSocket;
use headwater_transport::{SlotId, SlotMemory};
use tokio::sync::mpsc;

use super::frames::{self, Inbox};
use super::words::{Answer, Ask};
use crate::events::Event;
use crate::position::Position;

/// A batch that is asked for.
#[derive(Debug)]
pub(crate) struct HostAsk {
    /// Number of the question.
    pub(crate) ask: u64,
    /// Grows when the trial goes elsewhere.
    pub(crate) course: u64,
    pub(crate) at: Position,
    /// The key of all its samples.
    pub(crate) key: PartKey,
}

/// A batch in the memory of the service.
#[derive(Debug)]
pub(crate) struct HostBatch {
    pub(crate) slot: SlotId,
    pub(crate) memory: Arc<SlotMemory>,
    pub(crate) provenance: Vec<Provenance>,
    pub(crate) fp8_amaxes: Vec<f32>,
}

/// What is heard of the service.
#[derive(Debug)]
pub(crate) enum HostEvent {
    Batch(u64, HostBatch),
    /// It is there, and has nothing to give yet.
    Alive,
    /// It has not what was asked for.
    Gone(u64, String),
    /// It is not there any more.
    Lost(String),
}

/// Keeps the connection as long as a batch of the service is in use: the service takes all slots back
/// when it ends.
#[derive(Debug)]
pub(crate) struct Tie {
    socket: OwnedFd,
    made_in: u32,
}

// === impl Tie ===

impl Tie {
    /// # Errors
    /// The system is short of descriptors.
    pub(crate) fn new(connection: impl AsFd) -> io::Result<Arc<Self>> {
        let socket = connection.as_fd().try_clone_to_owned()?;
        Ok(Arc::new(Self { socket, made_in: std::process::id() }))
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        // Closing would do, but for a process that was forked meanwhile and has the descriptor too.
        if std::process::id() == self.made_in {
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

/// Talks to the service until it is gone or nobody listens any more.
pub(crate) async fn follow(
    connection: OwnedFd,
    _tie: Arc<Tie>,
    asks: mpsc::Receiver<HostAsk>,
    releases: mpsc::Receiver<SlotId>,
    events: mpsc::Sender<Event>,
) {
    let followed = match PacketSocket::from_fd(connection) {
        Ok(socket) => talk(&socket, asks, releases, &events).await,
        Err(error) => Err(error),
    };
    let reason = match followed {
        Ok(()) => "it has ended".to_owned(),
        Err(error) => error.to_string(),
    };
    let _ = events.send(Event::Host(HostEvent::Lost(reason))).await;
}

async fn talk(
    socket: &PacketSocket,
    mut asks: mpsc::Receiver<HostAsk>,
    mut releases: mpsc::Receiver<SlotId>,
    events: &mpsc::Sender<Event>,
) -> io::Result<()> {
    let mut inbox = Inbox::default();
    let mut slots: BTreeMap<u32, Arc<SlotMemory>> = BTreeMap::new();
    loop {
        tokio::select! {
            Some(HostAsk { ask, course, at, key }) = asks.recv() => {
                let want = Ask::Want { ask, course, epoch: at.epoch, step: at.step, key };
                frames::send(socket, &want, None).await?;
            }
            Some(SlotId(slot)) = releases.recv() => {
                frames::send(socket, &Ask::Release { slot }, None).await?;
            }
            heard = inbox.receive::<Answer>(socket) => {
                let Some((answer, fd)) = heard? else { return Ok(()) };
                let Some(event) = understood(answer, fd, &mut slots)? else { continue };
                if events.send(Event::Host(event)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

fn understood(
    answer: Answer,
    fd: Option<OwnedFd>,
    slots: &mut BTreeMap<u32, Arc<SlotMemory>>,
) -> io::Result<Option<HostEvent>> {
    let wrong = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidData, text));
    match answer {
        Answer::Slot { slot, len_bytes } => {
            let Some(file) = fd else { return wrong("a slot without its memory") };
            slots.insert(slot, Arc::new(SlotMemory::of_another(file, len_bytes)?));
            Ok(None)
        }
        Answer::Batch { ask, slot, samples, fp8_amaxes } => {
            let Some(memory) = slots.get(&slot) else { return wrong("a batch in no slot") };
            let memory = Arc::clone(memory);
            let provenance = samples.into_iter().map(Provenance::from).collect();
            let fp8_amaxes = fp8_amaxes.into_iter().map(f32::from_bits).collect();
            let batch = HostBatch { slot: SlotId(slot), memory, provenance, fp8_amaxes };
            Ok(Some(HostEvent::Batch(ask, batch)))
        }
        Answer::Alive => Ok(Some(HostEvent::Alive)),
        Answer::Gone { ask, reason } => Ok(Some(HostEvent::Gone(ask, reason))),
    }
}
