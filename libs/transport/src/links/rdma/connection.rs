//! The queue pairs of one session, as one thing: messages over the first, parts over all.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_core::Region;
use tokio::sync::Notify;

use super::adapter::{Adapter, Route};
use super::lane::{Event, Lane, Outgoing, RECEIVES, SENDS_MAX, Write};
use super::verbs::{Completion, Completions, MemoryRegion, Piece, Request, Writers};
use super::wire::{Endpoint, Gid, RemoteMemory};
use crate::link::key::random_bytes;
use crate::link::messages::{MESSAGES_WAITING_MAX, NOT_TAKEN, ToReceiver};
use crate::link::terms::LinkKind;
use crate::memory::place::LeaseId;
use crate::memory::slot::SlotMemory;
use crate::metrics;

/// Parts whose pair is remembered: far more than can be under way, or acknowledged and not in place.
const TAKEN_MAX: usize = 4096;

/// Pairs of one session and their completions.
#[derive(Debug)]
pub(super) struct Connection {
    adapter: Arc<Adapter>,
    /// As the port was when the pairs were made.
    route: Route,
    completions: Arc<Completions>,
    lanes: Mutex<Lanes>,
    /// Messages and parts that may wait for the peer; one more ends the connection.
    waiting_max: usize,
    faulted: Notify,
}

#[derive(Debug)]
struct Lanes {
    /// None after the connection was destroyed.
    all: Vec<Lane>,
    /// Gets the next part.
    turn: usize,
    /// Leases of the latest parts and the lanes that took them, of a connection with several.
    taken: VecDeque<(LeaseId, usize)>,
    fault: Option<String>,
    /// Says how much waits.
    gauge: metrics::Share,
}

// === impl Lanes ===

impl Lanes {
    fn tell(&mut self) {
        self.gauge.note(self.all.iter().map(Lane::waiting).sum());
    }
}

// === impl Connection ===

impl Connection {
    /// `pairs` queue pairs, not connected yet, that leave by the address which is best towards another
    /// one. `writable`: the peer may write to registered memory. It is a worker then, which hears of its
    /// own leases only; a receiver could ask without end.
    pub(super) fn new(
        adapter: &Arc<Adapter>,
        pairs: u32,
        writable: bool,
        towards: Option<&Gid>,
    ) -> io::Result<Self> {
        let limits = adapter.limits;
        let route = adapter.route(towards).map_err(io::Error::other)?;
        let depth = SENDS_MAX.min(limits.queue_entries);
        let entries = (pairs * (depth + RECEIVES)).min(limits.completions);
        let completions = Arc::new(Completions::new(adapter.domain.device(), entries)?);
        let lane = |number| {
            let [a, b, c] = random_bytes()?;
            let first_packet = u32::from_le_bytes([a, b, c, 0]);
            Lane::new(number, &adapter.domain, &completions, &route, writable, depth, first_packet)
        };
        let all = (0..pairs as usize).map(lane).collect::<io::Result<_>>()?;
        let gauge = metrics::messages_waiting(LinkKind::Rdma);
        let lanes = Mutex::new(Lanes { all, turn: 0, taken: VecDeque::new(), fault: None, gauge });
        let waiting_max = if writable { usize::MAX } else { MESSAGES_WAITING_MAX };
        let (adapter, faulted) = (Arc::clone(adapter), Notify::new());
        Ok(Self { adapter, route, completions, lanes, waiting_max, faulted })
    }

    /// Whether the port takes pairs all the way to sending: one is connected to itself. EFA's
    /// devices have ports and addresses, and no pairs of this kind.
    pub(super) fn try_out(adapter: &Arc<Adapter>) -> Result<(), String> {
        let tried = Self::new(adapter, 1, true, None)
            .and_then(|connection| connection.connect(&connection.endpoint()));
        tried.map_err(|error| {
            format!("{} takes no reliable queue pair: {error}", adapter.describe())
        })
    }

    pub(super) fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// What the peer has to know.
    pub(super) fn endpoint(&self) -> Endpoint {
        let pairs = self.lock().all.iter().map(Lane::address).collect();
        Endpoint { path: self.route.path, pairs }
    }

    /// Maximum bytes of one write.
    pub(super) fn message_max_bytes(&self) -> u32 {
        self.route.message_max_bytes
    }

    /// Connects each pair to the peer's of the same place.
    pub(super) fn connect(&self, peer: &Endpoint) -> io::Result<()> {
        let lanes = self.lock();
        if lanes.all.len() != peer.pairs.len() {
            return Err(io::Error::other("the two ends have different numbers of queue pairs"));
        }
        let mut pairs = lanes.all.iter().zip(&peer.pairs);
        pairs.try_for_each(|(lane, pair)| lane.connect(&self.route.path, &peer.path, *pair))
    }

    /// Sends a message after those before it. Where the connection is broken it is swallowed.
    pub(super) fn send(&self, message: Vec<u8>) {
        self.put(|lanes| {
            let lane = lanes.all.first_mut()?;
            lane.put_message(message);
            Some(lane)
        });
    }

    /// Says that nothing of a lease is under way any more: over the pair that its part was sent over, as
    /// what is in its place there is known by a completion of the same pair only. That a write was
    /// acknowledged does not say so.
    pub(super) fn send_quiet(&self, lease: LeaseId) {
        self.put(|lanes| {
            let taken = lanes.taken.iter().rev().find(|(other, _)| *other == lease);
            let lane = lanes.all.get_mut(taken.map_or(0, |(_, lane)| *lane))?;
            lane.put_message(ToReceiver::Quiet { lease }.encode());
            Some(lane)
        });
    }

    /// Writes the probe over every pair, each with its number, to places that follow one another in
    /// `target`. `pattern` has one length for all pairs.
    ///
    /// # Errors
    /// No memory can be registered to write it from.
    pub(super) fn probe(
        &self,
        target: RemoteMemory,
        pattern: impl Fn(usize) -> Vec<u8>,
    ) -> io::Result<()> {
        let patterns: Vec<Vec<u8>> = (0..self.lock().all.len()).map(pattern).collect();
        let bytes = patterns.concat();
        let memory = SlotMemory::private(bytes.len() as u64, false).map_err(io::Error::other)?;
        memory.copy_from(Region { offset_bytes: 0, len_bytes: memory.len_bytes() }, &bytes);
        let domain = &self.adapter.domain;
        let memory = Arc::new(MemoryRegion::new(domain, Arc::new(memory), Writers::Own)?);
        metrics::registered(LinkKind::Rdma, bytes.len() as u64);
        let mut offset = 0;
        for (i, pattern) in patterns.iter().enumerate() {
            let piece = Piece {
                address: memory.memory().as_ptr() as u64 + offset,
                len_bytes: pattern.len() as u32,
                local_key: memory.local_key(),
            };
            let address = target.address + offset;
            let (remote_key, immediate) = (target.key, Some(i as u32));
            let request = Request::Write { address, remote_key, immediate };
            offset += pattern.len() as u64;
            let memory = Arc::clone(&memory);
            self.put(|lanes| {
                let lane = lanes.all.get_mut(i)?;
                lane.put_probe(Write { piece, request }, memory);
                Some(lane)
            });
        }
        Ok(())
    }

    /// Sends a part; its end is an [`Event::Ended`].
    pub(super) fn deliver(&self, outgoing: Outgoing) {
        self.put(|lanes| {
            // The least loaded, beginning with the one whose turn it is.
            let count = lanes.all.len();
            let chosen = (0..count)
                .map(|i| (lanes.turn + i) % count)
                .min_by_key(|&i| lanes.all[i].in_hand())?;
            lanes.turn = (chosen + 1) % count;
            if count > 1 {
                if lanes.taken.len() == TAKEN_MAX {
                    lanes.taken.pop_front();
                }
                lanes.taken.push_back((outgoing.part.lease(), chosen));
            }
            let lane = &mut lanes.all[chosen];
            lane.put_part(outgoing);
            Some(lane)
        });
    }

    /// Waits for something to happen. Cancel-safe: what is not returned is returned next time.
    pub(super) async fn events(&self) -> Vec<Event> {
        loop {
            let faulted = self.faulted.notified();
            // What completed between the first look and the arming has no event: hence the second.
            let looked = self.poll().and_then(|events| {
                if !events.is_empty() {
                    return Ok(events);
                }
                self.completions.arm()?;
                self.poll()
            });
            match looked {
                Ok(events) if events.is_empty() => {}
                Ok(events) => return events,
                Err(error) => return vec![Event::Broken(format!("completion queue: {error}"))],
            }
            if let Some(fault) = self.fault() {
                return vec![Event::Broken(fault)];
            }
            tokio::select! {
                woken = self.completions.event() => if let Err(error) = woken {
                    return vec![Event::Broken(format!("completion channel: {error}"))];
                },
                () = faulted => {}
            }
        }
    }

    /// Why nothing can be posted, where that is so; told once.
    pub(super) fn fault(&self) -> Option<String> {
        self.lock().fault.take()
    }

    /// Everything that was sent is at the peer.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().all.iter().all(|lane| lane.in_hand() == 0)
    }

    /// Stops all pairs: nothing of the peer's gets in from here on.
    pub(super) fn fail(&self) {
        for lane in &self.lock().all {
            if let Err(error) = lane.fail() {
                tracing::debug!(%error, "a queue pair cannot be stopped; it is destroyed");
            }
        }
    }

    /// Waits until the stopped pairs have given everything back, at most so long; hands what
    /// comes to `hear`.
    pub(super) async fn drain(&self, limit: Duration, mut hear: impl FnMut(Event)) {
        let drained = async {
            while self.lock().all.iter().any(|lane| lane.outstanding() > 0) {
                self.events().await.into_iter().for_each(&mut hear);
                tokio::task::yield_now().await; // A failing queue must not keep the limit away.
            }
        };
        if tokio::time::timeout(limit, drained).await.is_err() {
            tracing::debug!("queue pairs gave not everything back; they are destroyed with it");
        }
    }

    /// Destroys the pairs: no device touches any memory on their behalf when this returns `true`. Parts
    /// that were in their hands are dropped after that. `false`: a pair cannot be destroyed. What its
    /// device may reach of this side's is kept for good, and the peer may still be writing.
    pub(super) fn destroy(&self) -> bool {
        let mut lanes = self.lock();
        let all = std::mem::take(&mut lanes.all);
        lanes.tell();
        drop(lanes);
        let ends: Vec<bool> = all.into_iter().map(Lane::end).collect();
        ends.into_iter().all(|ended| ended)
    }

    fn put(&self, put: impl FnOnce(&mut Lanes) -> Option<&mut Lane>) {
        let mut lanes = self.lock();
        let Some(lane) = put(&mut lanes) else { return };
        let pumped = lane.pump().map_err(|error| format!("cannot post: {error}"));
        let full = || Err(NOT_TAKEN.to_owned());
        let outcome = if lane.waiting() > self.waiting_max { full() } else { pumped };
        lanes.tell();
        if let Err(fault) = outcome {
            lanes.fault.get_or_insert(fault);
            drop(lanes);
            self.faulted.notify_waiters();
        }
    }

    /// What has completed, and posts what has room now.
    pub(super) fn poll(&self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let taken = self.completions.poll()?;
            if taken.is_empty() {
                return Ok(events);
            }
            let mut lanes = self.lock();
            for Completion { id, outcome } in taken {
                if let Some(lane) = lanes.all.get_mut(Lane::of(id)) {
                    lane.complete(id, outcome, &mut events);
                }
            }
            for lane in &mut lanes.all {
                if let Err(error) = lane.pump() {
                    events.push(Event::Broken(format!("cannot post: {error}")));
                }
            }
            lanes.tell();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.destroy();
    }
}
