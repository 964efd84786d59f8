//! One way to one peer and all that is on it: messages, parts, the peer's memory. Lives on one
//! thread, which [`Path::run`] is the loop of.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::port::{Endpoint, EventFd, Port, RemoteKey, Request};
use super::threads;
use super::wire::RemoteMemory;
use crate::link::messages::{MESSAGES_WAITING_MAX, NOT_TAKEN, ToReceiver};
use crate::link::terms::{LinkError, LinkKind};
use crate::link::worker_permits::ChannelToReceiver;
use crate::memory::part::PartBuffer;
use crate::memory::place::SlotId;
use crate::metrics;

/// Time for what is on its way to reach a peer that is being left; a dead one takes nothing.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// Time for what was broken off to come back.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// Longest sleep: a bell that was not heard costs no more than this.
const NAP: Duration = Duration::from_millis(500);

/// What a path's thread is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    Send(Vec<u8>),
    Deliver(Box<Outgoing>),
    /// Say this and end.
    Leave(Vec<u8>),
}

/// A part on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) part: PartBuffer,
    /// Told to the peer once the last byte is there.
    pub(super) receipt: Vec<u8>,
    pub(super) done: oneshot::Sender<Result<(), LinkError>>,
}

/// Hands orders to a path's thread.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    orders: mpsc::Sender<Order>,
    bell: EventFd,
}

/// What the owner of a path makes of its messages.
pub(super) trait Side {
    /// `Err`: why the path ends.
    fn hear(&mut self, message: &[u8], path: &mut Path) -> Result<(), String>;

    /// A part ended on its way: delivered, or why not.
    fn delivered(&mut self, outgoing: Outgoing, outcome: Result<(), String>);
}

/// A port, the endpoint to the peer, and what is under way.
#[derive(Debug)]
pub(super) struct Path {
    port: Port,
    endpoint: Endpoint,
    /// What led to the peer before; UCX may still name it while the port is there.
    former: Option<Endpoint>,
    orders: mpsc::Receiver<Order>,
    slots: HashMap<SlotId, (RemoteMemory, RemoteKey)>,
    /// Each with the bytes that UCX reads.
    messages: VecDeque<(Request, Vec<u8>)>,
    /// Says how many they are.
    gauge: metrics::Share,
    parts: VecDeque<Flight>,
    /// Number of the next message, each way: UCX does not promise their order.
    sent: u32,
    heard: u32,
    leaving: Option<Instant>,
}

#[derive(Debug)]
struct Flight {
    requests: Vec<Request>,
    outgoing: Outgoing,
    failed: Option<String>,
}

// === impl Channel ===

impl Channel {
    pub(super) fn order(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            self.bell.ring();
        }
    }

    /// Leads to a path that is made of the port and the other end.
    pub(super) fn new(bell: EventFd) -> (Self, mpsc::Receiver<Order>) {
        let (orders, taken) = mpsc::channel();
        (Self { orders, bell }, taken)
    }
}

impl ChannelToReceiver for Channel {
    fn send(&self, message: ToReceiver) {
        self.order(Order::Send(message.encode()));
    }
}

// === impl Path ===

impl Path {
    pub(super) fn new(port: Port, endpoint: Endpoint, orders: mpsc::Receiver<Order>) -> Self {
        Self {
            port,
            endpoint,
            former: None,
            orders,
            slots: HashMap::new(),
            messages: VecDeque::new(),
            gauge: metrics::messages_waiting(LinkKind::Ucx),
            parts: VecDeque::new(),
            sent: 0,
            heard: 0,
            leaving: None,
        }
    }

    pub(super) fn address(&self) -> Result<Vec<u8>, String> {
        self.port.address()
    }

    /// The peer must be reached at another of its ports, which begins to count anew.
    pub(super) fn turn_to(&mut self, address: &[u8]) -> Result<(), String> {
        let endpoint = self.port.endpoint(address)?;
        let before = std::mem::replace(&mut self.endpoint, endpoint);
        self.settle_messages()?;
        let closing = self.port.close(&before);
        self.drain(closing, Instant::now() + DRAIN_LIMIT);
        self.former = Some(before);
        self.sent = 0;
        Ok(())
    }

    /// Serves the path until `side` ends it, it breaks, or it is left; says why. With a deadline it
    /// ends there.
    pub(super) fn run(&mut self, side: &mut impl Side, until: Option<Instant>) -> Option<String> {
        loop {
            if let Err(reason) = self.step(side) {
                return Some(reason);
            }
            if threads::are_ending() {
                return Some("the process exits".to_owned());
            }
            let now = Instant::now();
            if self.leaving.is_some_and(|limit| self.is_idle() || now >= limit) {
                return Some("left".to_owned());
            }
            if until.is_some_and(|until| now >= until) {
                return None;
            }
            let deadline = until.into_iter().chain(self.leaving).min();
            let nap = deadline.map_or(NAP, |deadline| (deadline - now).min(NAP));
            self.port.wait(nap);
        }
    }

    fn step(&mut self, side: &mut impl Side) -> Result<(), String> {
        for message in self.port.progress() {
            let (number, message) = message.split_first_chunk().ok_or("an empty message")?;
            if u32::from_le_bytes(*number) != self.heard {
                return Err("messages came out of their order".to_owned());
            }
            self.heard = self.heard.wrapping_add(1);
            side.hear(message, self)?;
        }
        if let Some(reason) = self.port.fault(&self.endpoint) {
            return Err(reason);
        }
        self.settle_messages()?;
        self.settle_parts(side)?;
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Send(message) => self.send(&message)?,
                Order::Deliver(outgoing) => self.deliver(*outgoing, side)?,
                Order::Leave(message) => {
                    self.send(&message)?;
                    self.leaving.get_or_insert(Instant::now() + LEAVE_LIMIT);
                }
            }
        }
        Ok(())
    }

    /// Sends a message after those before it.
    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), String> {
        if self.messages.len() >= MESSAGES_WAITING_MAX {
            return Err(NOT_TAKEN.to_owned());
        }
        let bytes = [&self.sent.to_le_bytes()[..], message].concat();
        self.sent = self.sent.wrapping_add(1);
        if let Some(request) = self.port.send(&self.endpoint, &bytes)? {
            self.messages.push_back((request, bytes));
            self.gauge.note(self.messages.len());
        }
        Ok(())
    }

    /// Writes to memory of the peer that is no slot, and waits for it to be there.
    pub(super) fn write(&mut self, memory: &RemoteMemory, bytes: &[u8]) -> Result<(), String> {
        let key = self.port.unpack(&self.endpoint, &memory.key)?;
        let put = self.port.put(&self.endpoint, bytes, memory.address, &key);
        let flush = self.port.flush(&self.endpoint);
        let limit = Instant::now() + LEAVE_LIMIT;
        let mut ended = Ok(());
        for request in [put, flush] {
            ended = ended.and(request.and_then(|request| self.finish(request, limit)));
        }
        self.port.forget(key);
        ended
    }

    pub(super) fn learn(&mut self, slot: SlotId, memory: RemoteMemory) -> Result<(), String> {
        let key = self.port.unpack(&self.endpoint, &memory.key)?;
        self.unlearn(slot);
        self.slots.insert(slot, (memory, key));
        Ok(())
    }

    pub(super) fn unlearn(&mut self, slot: SlotId) {
        if let Some((_, key)) = self.slots.remove(&slot) {
            self.port.forget(key);
        }
    }

    fn deliver(&mut self, outgoing: Outgoing, side: &mut impl Side) -> Result<(), String> {
        let place = outgoing.part.place();
        let Some((memory, key)) = self.slots.get(&place.slot) else {
            side.delivered(outgoing, Err("the slot is gone".to_owned()));
            return Ok(());
        };
        let (mut requests, mut failed) = (Vec::new(), None);
        for (region, bytes) in place.regions.iter().zip(outgoing.part.regions()) {
            if bytes.is_empty() {
                continue;
            }
            let address = memory.address + region.offset_bytes;
            match self.port.put(&self.endpoint, bytes, address, key) {
                Ok(request) => requests.extend(request),
                Err(error) => failed = Some(error),
            }
        }
        match self.port.flush(&self.endpoint) {
            Ok(request) => requests.extend(request),
            Err(error) => failed = failed.or(Some(error)),
        }
        // Whatever was started reads the part until it ends: it is kept, failed or not.
        self.parts.push_back(Flight { requests, outgoing, failed });
        self.settle_parts(side)
    }

    /// Parts end in the order in which they were committed.
    fn settle_parts(&mut self, side: &mut impl Side) -> Result<(), String> {
        while let Some(flight) = self.parts.front_mut() {
            let port = &self.port;
            let mut failed = flight.failed.take();
            flight.requests.retain(|request| match port.poll(request) {
                None => true,
                Some(ended) => {
                    failed = failed.take().or(ended.err());
                    false
                }
            });
            flight.failed = failed;
            if !flight.requests.is_empty() {
                return Ok(());
            }
            let Some(Flight { outgoing, failed, .. }) = self.parts.pop_front() else { break };
            if let Some(reason) = failed {
                side.delivered(outgoing, Err(reason.clone()));
                return Err(reason);
            }
            self.send(&outgoing.receipt)?;
            side.delivered(outgoing, Ok(()));
        }
        Ok(())
    }

    fn settle_messages(&mut self) -> Result<(), String> {
        let (port, mut failed) = (&self.port, None);
        self.messages.retain(|(request, _)| match port.poll(request) {
            None => true,
            Some(ended) => {
                failed = failed.take().or(ended.err());
                false
            }
        });
        self.gauge.note(self.messages.len());
        failed.map_or(Ok(()), Err)
    }

    fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.parts.is_empty()
    }

    /// Waits for one request. Messages that come meanwhile would be lost: it is used where none can.
    fn finish(&self, request: Option<Request>, limit: Instant) -> Result<(), String> {
        let Some(request) = request else { return Ok(()) };
        while Instant::now() < limit {
            self.port.progress();
            if let Some(ended) = self.port.poll(&request) {
                return ended;
            }
            if let Some(reason) = self.port.fault(&self.endpoint) {
                return Err(reason);
            }
            self.port.wait(Duration::from_millis(10));
        }
        Err("the peer takes no write".to_owned())
    }

    /// Waits for a closing, and with it for what the endpoint had not finished.
    fn drain(&mut self, mut closing: Option<Request>, limit: Instant) {
        loop {
            self.port.progress();
            closing = closing.filter(|request| self.port.poll(request).is_none());
            self.settle_messages().ok();
            if closing.is_none() && self.messages.is_empty() || Instant::now() >= limit {
                return;
            }
            self.port.wait(Duration::from_millis(10));
        }
    }

    /// Breaks the path off. When this returns nothing is written over it any more, in either
    /// direction, and every part that was on its way has been handed to `side`.
    pub(super) fn end(mut self, side: &mut impl Side, reason: &str) {
        let limit = Instant::now() + DRAIN_LIMIT;
        let mut closing = self.port.close(&self.endpoint);
        loop {
            self.port.progress();
            closing = closing.filter(|request| self.port.poll(request).is_none());
            self.settle_messages().ok();
            let port = &self.port;
            for flight in &mut self.parts {
                flight.requests.retain(|request| port.poll(request).is_none());
            }
            let flying = self.parts.iter().any(|flight| !flight.requests.is_empty());
            let rest = closing.is_some() || flying || !self.messages.is_empty();
            if !rest || Instant::now() >= limit {
                break;
            }
            self.port.wait(Duration::from_millis(10));
        }
        for (_, (_, key)) in self.slots.drain() {
            self.port.forget(key);
        }
        let Self { port, endpoint, former, messages, parts, orders, .. } = self;
        // UCX reads and writes nothing of ours after this: now buffers may go.
        drop(port);
        drop((endpoint, former, messages));
        for Flight { outgoing, .. } in parts {
            side.delivered(outgoing, Err(reason.to_owned()));
        }
        for order in orders.try_iter() {
            if let Order::Deliver(outgoing) = order {
                side.delivered(*outgoing, Err(reason.to_owned()));
            }
        }
    }
}
