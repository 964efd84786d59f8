//! The way to one worker: its present connection, and the part that is being read from it. A worker
//! whose connection broke comes back on another, under the same permits.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;

use super::stream;
use super::target::Target;
use super::wire::Hello;
use crate::link::messages::ToWorker;
use crate::link::receiver_permits::{ChannelToWorker, ReceiverPermits};
use crate::link::recent::Recent;
use crate::link::terms::{LinkKind, PeerId, SessionKey};
use crate::memory::place::LeaseId;
use crate::memory::slot::SlotMemory;
use crate::metrics;

/// Delivered leases that are remembered per peer, to tell a part that is sent again because its
/// acknowledgement was lost from one that nobody asked for. More than a worker has buffers.
const REMEMBERED_DELIVERIES: usize = 1024;

pub(super) type Permits = ReceiverPermits<TcpChannel>;

/// What the receiver has of one worker.
#[derive(Clone, Debug)]
pub(super) struct TcpChannel(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Number of the latest connection, given by the worker. A connection of another number has been
    /// replaced.
    generation: u64,
    /// `None` when it broke, or the worker was let go of.
    stream: Option<Arc<TcpStream>>,
    reading: Option<Arc<Target>>,
    delivered: Recent,
}

/// One connection of an admitted worker.
#[derive(Clone, Debug)]
pub(super) struct Connected {
    pub(super) peer: PeerId,
    channel: TcpChannel,
    generation: u64,
}

/// What to do with a part that is announced.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Read it to its place.
    Fill(Arc<Target>),
    /// It is in its place already: read it away and say that it arrived.
    Known,
    /// Read it away.
    Unwanted,
}

/// Judges a hello. A connection that the worker had is cut off.
///
/// # Errors
/// It is nobody's, or was made before: the answer to the other side.
pub(super) fn join(
    permits: &Permits,
    hello: &Hello,
    stream: &Arc<TcpStream>,
) -> Result<Connected, String> {
    let Hello { attempt, proof, .. } = *hello;
    let proves = |key: &SessionKey| SessionKey(key.proof(attempt)).matches(&proof);
    let mut joined = None;
    let peer = permits.join(proves, |channel| {
        let channel = match channel {
            Some(channel) => channel.turn_to(attempt, stream)?,
            None => TcpChannel::new(attempt, stream),
        };
        joined = Some(channel.clone());
        Ok(channel)
    })?;
    let channel = joined.ok_or("the receiver has no channel")?;
    Ok(Connected { peer, channel, generation: attempt })
}

// === impl Connected ===

impl Connected {
    /// A part is announced: `lens` are the lengths of its regions.
    pub(super) fn announce(&self, permits: &Permits, lease: LeaseId, lens: &[u64]) -> Verdict {
        let Some(state) = self.current() else { return Verdict::Unwanted };
        if state.delivered.contains(lease) {
            return Verdict::Known;
        }
        drop(state);
        let target = permits.expected(self.peer, lease, |_, place, memory| {
            if !place.regions.iter().map(|region| region.len_bytes).eq(lens.iter().copied()) {
                tracing::warn!(peer = self.peer.0, lease = lease.0, "a part has another size");
                return Err("other_place");
            }
            // Under the lock of the permits: a withdrawal finds what it has to close.
            let target =
                Arc::new(Target::new(lease, Arc::clone(memory), Arc::clone(&place.regions)));
            let mut state = self.current().ok_or("not_expected")?;
            state.reading = Some(Arc::clone(&target));
            Ok(target)
        });
        match target.unwrap_or(Err("not_expected")) {
            Ok(target) => Verdict::Fill(target),
            Err(reason) => {
                metrics::part_dropped(LinkKind::Tcp, reason);
                Verdict::Unwanted
            }
        }
    }

    /// All bytes of an announced part were read. Whether it counts as arrived.
    pub(super) fn filled(&self, permits: &Permits, lease: LeaseId) -> bool {
        permits.written(
            self.peer,
            |expected| expected == lease,
            |_, lease| {
                let Some(mut state) = self.current() else { return false };
                state.reading = None;
                state.delivered.insert(lease);
                true
            },
        )
    }

    /// The connection broke; a part in the middle is forgotten. Whether it was the worker's present
    /// one, so that it may come back.
    pub(super) fn lost(&self) -> bool {
        self.current().map(|mut state| state.disconnect()).is_some()
    }

    /// The worker said goodbye, or has not come back.
    pub(super) fn gone(&self, permits: &Permits, reason: &str) {
        permits.gone_if(self.peer, reason, |_| self.lost());
    }

    /// The channel, if this is its present connection.
    fn current(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.channel.lock()).filter(|state| state.generation == self.generation)
    }
}

// === impl TcpChannel ===

impl TcpChannel {
    fn new(attempt: u64, stream: &Arc<TcpStream>) -> Self {
        Self(Arc::new(Mutex::new(State {
            generation: attempt,
            stream: Some(Arc::clone(stream)),
            reading: None,
            delivered: Recent::new(REMEMBERED_DELIVERIES),
        })))
    }

    /// Goes on over another connection.
    fn turn_to(&self, attempt: u64, stream: &Arc<TcpStream>) -> Result<Self, String> {
        let mut state = self.lock();
        if attempt <= state.generation {
            // The worker never says the same twice: somebody has listened to it.
            return Err(format!("connection {attempt} of this session key was made before"));
        }
        state.disconnect();
        state.generation = attempt;
        state.stream = Some(Arc::clone(stream));
        metrics::reconnected(LinkKind::Tcp);
        tracing::info!(attempt, "a worker's tcp link is back");
        Ok(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelToWorker for TcpChannel {
    type Slot = Arc<SlotMemory>;

    const WRITTEN_HERE: bool = true;

    fn slot_bytes(slot: &Self::Slot) -> u64 {
        slot.len_bytes()
    }

    /// Workers hear nothing: what they send unasked is read away. A part that is being read stops
    /// between two reads.
    fn send(&self, message: ToWorker<&Self::Slot>) {
        match message {
            ToWorker::Withdraw { lease } => {
                let mut state = self.lock();
                if let Some(target) = state.reading.take_if(|target| target.lease == lease) {
                    target.close();
                }
            }
            ToWorker::Bye => {
                let mut state = self.lock();
                state.disconnect();
                state.generation = u64::MAX; // No connection's.
            }
            _ => {}
        }
    }
}

// === impl State ===

impl State {
    /// When this returns, nothing is read into a slot for this worker any more.
    fn disconnect(&mut self) {
        if let Some(target) = self.reading.take() {
            target.close();
        }
        if let Some(stream) = mem::take(&mut self.stream) {
            stream::cut(&stream);
        }
    }
}
