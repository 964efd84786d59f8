//! One queue pair with what it has in hand.
//!
//! Everything the device may read or write on behalf of the pair is owned here until its request
//! has completed or the pair is destroyed: that is what makes posting sound.

use std::collections::VecDeque;
use std::io;
use std::ptr;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::adapter::Route;
use super::verbs::{
    Completions, MemoryRegion, Outcome, Piece, Posting, ProtectionDomain, QueuePair, Request,
    Writers,
};
use super::wire::{MESSAGE_MAX_BYTES, Path, QueuePairAddress};
use crate::link::terms::{LinkError, LinkKind};
use crate::memory::mapping::Mapping;
use crate::memory::part::PartBuffer;
use crate::memory::slot::SlotMemory;
use crate::metrics;

/// Buffers for messages and announcements of parts that the peer may send at once; what comes
/// while none is there waits in the peer's device.
pub(super) const RECEIVES: u32 = 128;
/// Buffers for messages on their way out.
const MESSAGES: u32 = 64;
/// Requests in the device's hands, at most.
pub(super) const SENDS_MAX: u32 = 512;
/// Requests after which one is reported, so that their room comes back.
const SIGNAL_EVERY: usize = 16;

/// Times that a pair is asked again to end.
const DESTROY_TRIES: u32 = 3;

/// Marks the number of a receive; other numbers count sends.
const RECEIVE: u64 = 1 << 47;
const COUNT_MASK: u64 = RECEIVE - 1;
const LANE_SHIFT: u32 = 48;

/// A queue pair, its buffers and its line.
#[derive(Debug)]
pub(super) struct Lane {
    // First: destroyed before anything that it may write or read goes.
    pair: QueuePair,
    buffers: MemoryRegion<Mapping>,
    number: u64,
    first_packet: u32,
    waiting: VecDeque<Work>,
    posted: VecDeque<Posted>,
    free_messages: Vec<u32>,
    /// Sends so far, and those of them that have ended.
    sent: u64,
    ended: u64,
    receiving: u32,
    depth: u64,
}

/// A part on its way, and who waits for it.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) part: PartBuffer,
    pub(super) writes: Vec<Write>,
    pub(super) done: oneshot::Sender<Result<(), LinkError>>,
}

/// One write of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) piece: Piece,
    pub(super) request: Request,
}

#[derive(Debug)]
enum Work {
    /// Bytes that go by way of a message buffer.
    Message(Vec<u8>),
    /// A write of registered memory that is no part: the probe.
    Probe { write: Write, memory: Arc<ProbeMemory> },
    /// The first `posted` of its writes are in the device's hands.
    Part { outgoing: Box<Outgoing>, posted: usize },
}

/// Ends when the send of this number does.
#[derive(Debug)]
struct Posted {
    last: u64,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    Message(u32),
    Probe(Arc<ProbeMemory>),
    Part(Box<Outgoing>),
}

/// Registered memory that a probe is read from, or written to.
pub(super) type ProbeMemory = MemoryRegion<Arc<SlotMemory>>;

/// What came of a completion.
#[derive(Debug)]
pub(super) enum Event {
    /// A message.
    Message(Vec<u8>),
    /// The peer's writes are in their place.
    Written(u32),
    /// A part is delivered (`Ok`), or was given up.
    Ended(Box<Outgoing>, Result<(), String>),
    /// The pair is of no more use.
    Broken(String),
}

// === impl Lane ===

impl Lane {
    /// A pair that can receive as soon as it is connected.
    pub(super) fn new(
        number: usize,
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<Completions>,
        route: &Route,
        writable: bool,
        depth: u32,
        first_packet: u32,
    ) -> io::Result<Self> {
        let bytes = (RECEIVES + MESSAGES) as usize * MESSAGE_MAX_BYTES;
        let buffers = MemoryRegion::new(domain, Mapping::anonymous(bytes as u64)?, Writers::Own)?;
        metrics::registered(LinkKind::Rdma, bytes as u64);
        let pair = QueuePair::new(domain, completions, depth, RECEIVES)?;
        pair.initialise(route.path.port, route.pkey_index, writable)?;
        let mut lane = Self {
            pair,
            buffers,
            number: number as u64,
            first_packet,
            waiting: VecDeque::new(),
            posted: VecDeque::new(),
            free_messages: (RECEIVES..RECEIVES + MESSAGES).collect(),
            sent: 0,
            ended: 0,
            receiving: 0,
            depth: depth.into(),
        };
        (0..RECEIVES).try_for_each(|buffer| lane.receive(buffer))?;
        Ok(lane)
    }

    /// Which lane a completion's number belongs to.
    pub(super) fn of(id: u64) -> usize {
        (id >> LANE_SHIFT) as usize
    }

    pub(super) fn address(&self) -> QueuePairAddress {
        QueuePairAddress { number: self.pair.number(), first_packet: self.first_packet }
    }

    pub(super) fn connect(
        &self,
        own: &Path,
        peer: &Path,
        pair: QueuePairAddress,
    ) -> io::Result<()> {
        self.pair.connect(own, self.first_packet, peer, pair)
    }

    /// Stops the pair; what it holds comes back as ended.
    pub(super) fn fail(&self) -> io::Result<()> {
        self.pair.fail()
    }

    /// Destroys the pair, and lets go of what it had in hand. `false`: it cannot be destroyed, so its
    /// memory is kept for good and waiters get an error.
    pub(super) fn end(mut self) -> bool {
        let mut tries = 0;
        let error = loop {
            match self.pair.destroy() {
                Ok(()) => return true,
                Err(error) if tries == DESTROY_TRIES => break error,
                Err(_) => tries += 1,
            }
        };
        tracing::error!(
            %error,
            "a queue pair cannot be destroyed: memory that its device may reach is not used again"
        );
        let posted = std::mem::take(&mut self.posted).into_iter().map(|posted| posted.kept);
        for kept in posted {
            if let Kept::Part(outgoing) = kept {
                let Outgoing { part, done, .. } = *outgoing;
                std::mem::forget(part);
                done.send(Err(LinkKind::Rdma.closed("its queue pair cannot be destroyed"))).ok();
            } else {
                std::mem::forget(kept);
            }
        }
        for work in std::mem::take(&mut self.waiting) {
            if let Work::Part { outgoing, posted: 1.. } = work {
                let Outgoing { part, done, .. } = *outgoing;
                std::mem::forget(part);
                done.send(Err(LinkKind::Rdma.closed("its queue pair cannot be destroyed"))).ok();
            }
        }
        std::mem::forget(self);
        false
    }

    pub(super) fn put_message(&mut self, bytes: Vec<u8>) {
        debug_assert!(bytes.len() <= MESSAGE_MAX_BYTES);
        self.waiting.push_back(Work::Message(bytes));
    }

    /// A write of `memory`, which is kept until it has ended.
    pub(super) fn put_probe(&mut self, write: Write, memory: Arc<ProbeMemory>) {
        self.waiting.push_back(Work::Probe { write, memory });
    }

    pub(super) fn put_part(&mut self, outgoing: Outgoing) {
        self.waiting.push_back(Work::Part { outgoing: Box::new(outgoing), posted: 0 });
    }

    /// Bytes or messages that are not at the peer yet: what else goes here waits for them.
    pub(super) fn in_hand(&self) -> usize {
        self.waiting.len() + self.posted.len()
    }

    /// Messages and parts that the device has no room for yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Requests that the device may still act upon.
    pub(super) fn outstanding(&self) -> u64 {
        self.sent - self.ended + u64::from(self.receiving)
    }

    /// Hands the device what it has room for.
    pub(super) fn pump(&mut self) -> io::Result<()> {
        while self.sent - self.ended < self.depth {
            match self.waiting.front() {
                Some(Work::Message(_)) if self.free_messages.is_empty() => break,
                Some(Work::Message(_)) => self.post_message()?,
                Some(Work::Probe { .. }) => self.post_probe()?,
                Some(Work::Part { .. }) => self.post_writes()?,
                None => break,
            }
        }
        Ok(())
    }

    /// Takes note of a completion, and of what it ends.
    pub(super) fn complete(&mut self, id: u64, outcome: Outcome, events: &mut Vec<Event>) {
        if id & RECEIVE != 0 {
            return self.received((id & COUNT_MASK) as u32, outcome, events);
        }
        let outcome = match outcome {
            Outcome::Failed { reason } => Err(reason),
            _ => Ok(()),
        };
        if let Err(reason) = &outcome {
            events.push(Event::Broken(reason.clone()));
        }
        self.ended = self.ended.max(id & COUNT_MASK);
        while let Some(first) = self.posted.pop_front_if(|first| first.last <= self.ended) {
            match first.kept {
                Kept::Message(buffer) => self.free_messages.push(buffer),
                Kept::Probe(memory) => drop(memory),
                Kept::Part(outgoing) => events.push(Event::Ended(outgoing, outcome.clone())),
            }
        }
    }

    fn received(&mut self, buffer: u32, outcome: Outcome, events: &mut Vec<Event>) {
        self.receiving -= 1;
        match outcome {
            Outcome::Received { bytes } => events.push(Event::Message(self.read(buffer, bytes))),
            Outcome::Written { immediate } => events.push(Event::Written(immediate)),
            Outcome::Failed { reason } => return events.push(Event::Broken(reason)),
            Outcome::Sent => {}
        }
        if let Err(error) = self.receive(buffer) {
            events.push(Event::Broken(format!("no buffer can be posted: {error}")));
        }
    }

    fn receive(&mut self, buffer: u32) -> io::Result<()> {
        let id = self.number << LANE_SHIFT | RECEIVE | u64::from(buffer);
        let piece = self.buffer(buffer, MESSAGE_MAX_BYTES);
        // SAFETY: the buffer lies in this lane's region, which outlives the pair; it is not in the
        // device's hands (new, or its receive has just completed), and is read after completion.
        unsafe { self.pair.post_receive(id, piece)? };
        self.receiving += 1;
        Ok(())
    }

    fn post_message(&mut self) -> io::Result<()> {
        let Some(Work::Message(bytes)) = self.waiting.pop_front() else { return Ok(()) };
        let Some(buffer) = self.free_messages.pop() else { return Ok(()) };
        let piece = self.buffer(buffer, bytes.len());
        // SAFETY: the buffer is a free one of this lane's region and has MESSAGE_MAX_BYTES bytes;
        // no longer message is made.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), piece.address as *mut u8, bytes.len());
        }
        let posting = Posting { id: self.id(1), request: Request::Message, piece, signalled: true };
        // SAFETY: the buffer lies in this lane's region, which outlives the pair, and is not free
        // again before this request has completed.
        let (_, posted) = unsafe { self.pair.post_sends(&[posting]) };
        posted?;
        self.sent += 1;
        self.posted.push_back(Posted { last: self.sent, kept: Kept::Message(buffer) });
        Ok(())
    }

    fn post_probe(&mut self) -> io::Result<()> {
        let Some(Work::Probe { write, memory }) = self.waiting.pop_front() else { return Ok(()) };
        let Write { piece, request } = write;
        let posting = Posting { id: self.id(1), request, piece, signalled: true };
        // SAFETY: the piece lies in `memory` by the word of whoever puts a probe; this lane owns that
        // until the write has completed or the pair is destroyed, and nobody writes it meanwhile.
        let (_, posted) = unsafe { self.pair.post_sends(&[posting]) };
        posted?;
        self.sent += 1;
        self.posted.push_back(Posted { last: self.sent, kept: Kept::Probe(memory) });
        Ok(())
    }

    /// As many of the first part's writes as there is room for, in one list: the device is called
    /// once for a part, not for each of its regions.
    fn post_writes(&mut self) -> io::Result<()> {
        let room = (self.depth - (self.sent - self.ended)) as usize;
        let Some(Work::Part { outgoing, posted }) = self.waiting.front() else { return Ok(()) };
        let left = &outgoing.writes[*posted..];
        let (count, whole) = (left.len().min(room), left.len() <= room);
        // The last of a list ends the part, or gives the room back that is missing.
        let signalled = |number| number == count || number % SIGNAL_EVERY == 0;
        let list: Vec<Posting> = (1..)
            .zip(&left[..count])
            .map(|(number, &Write { piece, request })| Posting {
                id: self.id(number),
                request,
                piece,
                signalled: signalled(number),
            })
            .collect();
        // SAFETY: the pieces lie in the registered buffer of `outgoing.part`, which this lane owns
        // until the part's last write has completed or the pair is destroyed (fields drop in
        // order), and which nobody can write meanwhile: writing takes `&mut PartBuffer`.
        let (taken, outcome) = unsafe { self.pair.post_sends(&list) };
        self.sent += taken as u64;
        outcome?;
        if !whole && let Some(Work::Part { posted, .. }) = self.waiting.front_mut() {
            *posted += taken;
        }
        if whole && let Some(Work::Part { outgoing, .. }) = self.waiting.pop_front() {
            self.posted.push_back(Posted { last: self.sent, kept: Kept::Part(outgoing) });
        }
        Ok(())
    }

    /// Number of the send that comes `ahead` sends after the last.
    fn id(&self, ahead: usize) -> u64 {
        self.number << LANE_SHIFT | (self.sent + ahead as u64) & COUNT_MASK
    }

    fn buffer(&self, buffer: u32, len: usize) -> Piece {
        let start = self.buffers.memory().base().as_ptr() as u64;
        let address = start + u64::from(buffer) * MESSAGE_MAX_BYTES as u64;
        Piece { address, len_bytes: len as u32, local_key: self.buffers.local_key() }
    }

    fn read(&self, buffer: u32, bytes: u32) -> Vec<u8> {
        let len = (bytes as usize).min(MESSAGE_MAX_BYTES);
        let mut message = vec![0; len];
        let start = self.buffer(buffer, len).address as *const u8;
        // SAFETY: the buffer has MESSAGE_MAX_BYTES bytes of this lane's mapping, its receive has
        // completed and is not posted again yet, so the device does not write it.
        unsafe { ptr::copy_nonoverlapping(start, message.as_mut_ptr(), len) };
        message
    }
}
