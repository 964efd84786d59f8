//! A trial's end: asks the service of its host for batches, and says when it is through with them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use headwater_core::part::PartKey;
use headwater_proto::augment::Provenance;
use headwater_transport::packets::PacketSocket;
use headwater_transport::{SlotId, SlotMemory};
use tokio::sync::mpsc;

use super::batch::{ConnectionGuard, Delivery, HELD_MAX, HostBatch, HostEvent};
use super::frames::{self, Inbox};
use super::messages::{Answer, Ask};
use crate::events::Event;
use crate::position::Position;

/// What a trial says.
#[derive(Debug)]
pub(crate) enum HostWord {
    Ask(HostAsk),
    /// It makes its batches by itself until it asks again.
    Leave,
}

/// A batch that is asked for.
#[derive(Debug)]
pub(crate) struct HostAsk {
    /// Number of the question.
    pub(crate) ask: u64,
    /// Grows when the trial goes elsewhere.
    pub(crate) generation: u64,
    pub(crate) at: Position,
    /// The key of all its samples.
    pub(crate) key: PartKey,
}

/// Talks to the service until it is gone or nobody listens any more.
pub(crate) async fn follow(
    connection: OwnedFd,
    tie: Arc<ConnectionGuard>,
    words: mpsc::Receiver<HostWord>,
    events: mpsc::Sender<Event>,
) {
    let followed = match PacketSocket::from_fd(connection) {
        Ok(socket) => Talk::new(tie).talk(&socket, words, &events).await,
        Err(error) => Err(error),
    };
    let reason = match followed {
        Ok(()) => "it has ended".to_owned(),
        Err(error) => error.to_string(),
    };
    let _ = events.send(Event::Host(HostEvent::Lost(reason))).await;
}

impl Drop for Talk {
    fn drop(&mut self) {
        // Batches that are held still keep the connection, and the others need not wait for who takes no more.
        if std::process::id() == self.tie.made_in {
            frames::send_at_once(&self.tie.socket, &Ask::Leave);
        }
    }
}

/// What the trial's end remembers of the conversation.
struct Talk {
    tie: Arc<ConnectionGuard>,
    slots: BTreeMap<u32, Slot>,
    /// For deliveries, which say through it that they are over.
    releases: mpsc::Sender<u64>,
    released: mpsc::Receiver<u64>,
}

/// A slot of the service.
struct Slot {
    file: OwnedFd,
    len_bytes: u64,
    /// A trial may write to its batches, so each answer that it holds has a mapping to itself.
    mappings: Vec<Arc<SlotMemory>>,
}

// === impl Slot ===

impl Slot {
    /// A mapping that no answer has.
    fn mapping(&mut self) -> io::Result<Arc<SlotMemory>> {
        self.mappings.retain(|mapping| !mapping.is_spoilt());
        // Whoever has another reference is about to let go of it, or has an answer.
        if let Some(free) = self.mappings.iter().find(|mapping| Arc::strong_count(mapping) == 1) {
            return Ok(Arc::clone(free));
        }
        let mapping = Arc::new(SlotMemory::of_another(&self.file, self.len_bytes)?);
        self.mappings.push(Arc::clone(&mapping));
        Ok(mapping)
    }
}

// === impl Talk ===

impl Talk {
    fn new(tie: Arc<ConnectionGuard>) -> Self {
        let (releases, released) = mpsc::channel(HELD_MAX);
        Self { tie, slots: BTreeMap::new(), releases, released }
    }

    async fn talk(
        &mut self,
        socket: &PacketSocket,
        mut words: mpsc::Receiver<HostWord>,
        events: &mpsc::Sender<Event>,
    ) -> io::Result<()> {
        let mut inbox = Inbox::default();
        let mut asks = true;
        loop {
            tokio::select! {
                // In this order: what a trial has let go of is not counted when the next batch is given to it.
                biased;
                Some(ask) = self.released.recv() => {
                    frames::send(socket, &Ask::Release { ask }, None).await?;
                }
                word = words.recv(), if asks => {
                    asks = word.is_some();
                    let said = match word {
                        Some(HostWord::Ask(HostAsk { ask, generation, at, key })) => {
                            Ask::Want { ask, generation, epoch: at.epoch, step: at.step, key }
                        }
                        // The stream may have ended while its last batches are held: it asks for none.
                        Some(HostWord::Leave) | None => Ask::Leave,
                    };
                    frames::send(socket, &said, None).await?;
                }
                heard = inbox.receive::<Answer>(socket) => {
                    let Some((answer, fd)) = heard? else { return Ok(()) };
                    let Some(event) = self.understand(answer, fd)? else { continue };
                    if events.send(Event::Host(event)).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn understand(&mut self, answer: Answer, fd: Option<OwnedFd>) -> io::Result<Option<HostEvent>> {
        let wrong = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidData, text));
        match answer {
            Answer::Slot { slot, len_bytes } => {
                let Some(file) = fd else { return wrong("a slot without its memory") };
                self.slots.insert(slot, Slot { file, len_bytes, mappings: Vec::new() });
                Ok(None)
            }
            Answer::Batch { ask, slot, samples, fp8_amaxes } => {
                let Some(known) = self.slots.get_mut(&slot) else {
                    return wrong("a batch in no slot");
                };
                let memory = known.mapping()?;
                let provenance = samples.into_iter().map(Provenance::from).collect();
                let fp8_amaxes = fp8_amaxes.into_iter().map(f32::from_bits).collect();
                let (releases, tie) = (self.releases.clone(), Arc::clone(&self.tie));
                let delivery = Delivery { ask, memory: Arc::clone(&memory), releases, tie };
                let slot = SlotId(slot);
                let batch = HostBatch { slot, memory, provenance, fp8_amaxes, delivery };
                Ok(Some(HostEvent::Batch(ask, batch)))
            }
            Answer::Alive => Ok(Some(HostEvent::Alive)),
            Answer::Gone { ask, reason } => Ok(Some(HostEvent::Gone(ask, reason))),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    /// The service would count a batch that is released already, and refuse the next one.
    #[tokio::test]
    async fn what_a_trial_lets_go_of_is_said_before_what_it_asks_for_next() {
        for round in 0..16 {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let (ours, theirs) = pair.expect("a pair");
            let mut talk = Talk::new(ConnectionGuard::new(&ours).expect("a descriptor"));
            let [trial, service] =
                [ours, theirs].map(|end| PacketSocket::from_fd(end).expect("a socket"));
            let (word, words) = mpsc::channel(1);
            let (events, _heard) = mpsc::channel(1);
            talk.releases.try_send(round).expect("room");
            word.try_send(HostWord::Leave).expect("room");
            let said = async {
                let mut inbox = Inbox::default();
                let mut next = async || {
                    inbox.receive::<Ask>(&service).await.expect("whole").expect("a word").0
                };
                [next().await, next().await]
            };
            tokio::select! {
                said = said => assert_eq!(said, [Ask::Release { ask: round }, Ask::Leave]),
                ended = talk.talk(&trial, words, &events) => panic!("it ended: {ended:?}"),
            }
        }
    }
}
