//! A socket that clients take batches from.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headwater_config::publish::{Framing, Kind, PublishConfig, SocketAddress};
use metrics::{counter, gauge};
use zmq::{DONTWAIT, PollEvents, PollItem, SNDMORE, Socket, SocketType};

use super::clients::Clients;
use super::nodrop::set_nodrop;
use crate::tenbin::{Chunk, in_one_frame};

/// Times that all clients of an address were let go of.
pub(super) const RESETS: &str = "headwater_publish_resets_total";
/// Connections that there are.
pub(super) const CLIENTS: &str = "headwater_publish_clients";
/// Connections that ended.
pub(super) const DISCONNECTS: &str = "headwater_publish_disconnects_total";
/// Times that a subscriber's queue was found full.
pub(super) const OVERFLOWS: &str = "headwater_publish_overflows_total";
/// First byte of a client's subscription.
const SUBSCRIBES: u8 = 1;

/// Different topics that clients of one address may subscribe to: Tensorcom's have one, the empty one.
const TOPICS_MAX: usize = 1024;
/// Maximum bytes of a client's message: a handshake or a subscription.
const CLIENT_MESSAGE_MAX_BYTES: i64 = 1024;
/// Subscriptions of one client that wait to be noticed; beyond them its connection waits.
const UNNOTICED_MAX: i32 = 64;
/// Subscriptions that are read at one look. The next look reads the rest.
const NOTICED_MAX: usize = 65_536;
/// Time for ZeroMQ to free an address that was closed.
const FREED_MAX: Duration = Duration::from_secs(5);

/// Sends batches to the clients of one address.
pub(super) struct SocketOutlet {
    socket: Socket,
    clients: Clients,
    settings: Settings,
    /// Topics with subscribers: ZeroMQ keeps all of them.
    topics: HashSet<Vec<u8>>,
    kind: Kind,
    framing: Framing,
    /// Where it is, as clients' people read it: `zpub://127.0.0.1:7404`.
    pub(super) name: String,
    /// Subscriptions so far; clients that left are counted too.
    pub(super) subscriptions: u32,
}

/// Settings of a socket.
struct Settings {
    context: zmq::Context,
    kind: Kind,
    binds: bool,
    /// Where, as ZeroMQ has it.
    endpoint: String,
    queue_batches: i32,
    linger_ms: i32,
}

// === impl Settings ===

impl Settings {
    /// A socket that is neither bound nor connected, and who will be at its other end.
    fn socket(&self) -> zmq::Result<(Socket, Clients)> {
        // As `PUB` on the wire; besides, it tells of subscriptions.
        let kind = match self.kind {
            Kind::Push => SocketType::PUSH,
            Kind::Pub => SocketType::XPUB,
        };
        let mut socket = self.context.socket(kind)?;
        // A message of several frames counts once.
        socket.set_sndhwm(self.queue_batches)?;
        socket.set_rcvhwm(UNNOTICED_MAX)?;
        socket.set_maxmsgsize(CLIENT_MESSAGE_MAX_BYTES)?;
        socket.set_linger(self.linger_ms)?;
        socket.set_ipv6(true)?;
        if self.kind == Kind::Pub {
            socket.set_xpub_verbose(true)?;
            // It shows that a subscriber is full.
            set_nodrop(&mut socket, true)?;
        } else {
            // Batches wait here for a client that is there, not for one that may come.
            socket.set_immediate(true)?;
        }
        let clients = Clients::watch(&self.context, &socket)?;
        Ok((socket, clients))
    }

    fn open(&self, socket: &Socket) -> zmq::Result<()> {
        if self.binds { socket.bind(&self.endpoint) } else { socket.connect(&self.endpoint) }
    }
}

// === impl SocketOutlet ===

impl SocketOutlet {
    /// Binds or connects.
    ///
    /// # Errors
    /// The address is in use, or is not one of this host's.
    pub(super) fn open(
        context: &zmq::Context,
        address: &SocketAddress,
        config: &PublishConfig,
    ) -> Result<Self> {
        let SocketAddress { scheme, place, kind, binds } = address;
        let wrong = || format!("cannot publish on `{place}`: is it free, and of this host?");
        let mut settings = Settings {
            context: context.clone(),
            kind: *kind,
            binds: *binds,
            endpoint: place.clone(),
            queue_batches: config.queue_batches as i32,
            linger_ms: config.linger_ms as i32,
        };
        let (socket, clients) = settings.socket().with_context(wrong)?;
        settings.open(&socket).with_context(wrong)?;
        let bound = socket.get_last_endpoint()?.unwrap_or_else(|_| place.clone());
        let rest = bound.split_once("://").map_or(bound.as_str(), |(_, rest)| rest);
        // A socket of both kinds has IPv4 addresses in brackets of IPv6.
        let canonical = rest.parse().map(|at: SocketAddr| (at.ip().to_canonical(), at.port()));
        let rest =
            canonical.map_or_else(|_| rest.to_owned(), |at| SocketAddr::from(at).to_string());
        let name = format!("{scheme}://{rest}");
        settings.endpoint.clone_from(&bound);
        let (framing, topics) = (config.framing, HashSet::new());
        let kind = *kind;
        Ok(Self { socket, clients, settings, topics, kind, framing, name, subscriptions: 0 })
    }

    /// Whether it drops messages without room.
    pub(super) fn drops(&self) -> bool {
        self.kind == Kind::Pub
    }

    /// Counts the clients that have come, gone and subscribed meanwhile. If a client subscribes to
    /// topics without end, all clients are disconnected, because ZeroMQ cannot disconnect a single
    /// one. The others connect again by themselves.
    pub(super) fn notice(&mut self) -> Result<()> {
        let gone = self.clients.notice().with_context(|| self.name.clone())?;
        counter!(DISCONNECTS, "address" => self.name.clone()).increment(gone);
        gauge!(CLIENTS, "address" => self.name.clone()).set(self.clients.connected() as f64);
        for _ in 0..NOTICED_MAX {
            if self.kind != Kind::Pub {
                break;
            }
            match self.socket.recv_bytes(DONTWAIT) {
                Ok(told) => self.heard(&told),
                Err(zmq::Error::EAGAIN) => break,
                Err(error) => return Err(error).context(self.name.clone()),
            }
            if self.topics.len() > TOPICS_MAX {
                return self.begin_again();
            }
        }
        Ok(())
    }

    fn heard(&mut self, told: &[u8]) {
        let Some((&first, topic)) = told.split_first() else { return };
        if first == SUBSCRIBES {
            self.subscriptions += 1;
            self.topics.insert(topic.to_owned());
        } else {
            self.topics.remove(topic);
        }
    }

    fn begin_again(&mut self) -> Result<()> {
        let address = &self.name;
        tracing::warn!(
            address,
            topics = TOPICS_MAX,
            "a client subscribes without end: all are let go of"
        );
        counter!(RESETS, "address" => address.clone()).increment(1);
        let (fresh, clients) = self.settings.socket().with_context(|| address.clone())?;
        self.socket.set_linger(0)?;
        self.topics.clear();
        drop(std::mem::replace(&mut self.socket, fresh));
        self.clients = clients;
        // What was closed goes in the background.
        let end = Instant::now() + FREED_MAX;
        loop {
            match self.settings.open(&self.socket) {
                Ok(()) => return Ok(()),
                Err(zmq::Error::EADDRINUSE) if Instant::now() < end => {
                    sleep(Duration::from_millis(5))
                }
                Err(error) => return Err(error).context(self.name.clone()),
            }
        }
    }

    /// Descriptors to wait on, until [`SocketOutlet::has_room`] or somebody subscribes.
    pub(super) fn poll_item(&self) -> PollItem<'_> {
        self.socket.as_poll_item(match self.kind {
            Kind::Push => PollEvents::POLLOUT,
            Kind::Pub => PollEvents::POLLIN,
        })
    }

    /// Whether it would take a batch without waiting.
    pub(super) fn has_room(&self) -> Result<bool> {
        let events = self.socket.get_events().with_context(|| self.name.clone())?;
        Ok(self.drops() || events.contains(PollEvents::POLLOUT))
    }

    /// Hands a batch to the clients' queues. Returns its bytes, or `None` if the client went away
    /// meanwhile: then another client must get it.
    ///
    /// # Errors
    /// ZeroMQ refuses.
    pub(super) fn send(&mut self, chunks: Vec<Chunk>) -> Result<Option<u64>> {
        match self.framing {
            Framing::Multipart => {
                let first = chunks.first().map(|chunk| chunk.header.clone()).unwrap_or_default();
                let frames = chunks.into_iter().flat_map(|chunk| [chunk.header, chunk.data]);
                self.send_frames(frames.collect(), || first)
            }
            Framing::Single => {
                self.send_frames(vec![in_one_frame(&chunks)], || in_one_frame(&chunks))
            }
        }
    }

    /// Sends the frames of one message; `first` makes the first of them once more.
    fn send_frames(
        &mut self,
        frames: Vec<Vec<u8>>,
        first: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<u64>> {
        let bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        let last = frames.len().saturating_sub(1);
        let (mut taken, mut first) = (true, Some(first));
        for (number, frame) in frames.into_iter().enumerate() {
            let more = if number < last { SNDMORE } else { 0 };
            // The frame's own memory goes into ZeroMQ; it is not copied again.
            let mut sent = self.socket.send(frame, more | DONTWAIT);
            if sent == Err(zmq::Error::EAGAIN)
                && self.drops()
                && let Some(first) = first.take()
            {
                sent = self.send_to_others(first(), more);
            }
            match sent {
                Ok(()) => {}
                Err(zmq::Error::EAGAIN) if number == 0 => return Ok(None),
                // ZeroMQ takes the frames before back, and waits for the others to throw them away.
                Err(zmq::Error::EAGAIN) => taken = false,
                Err(error) => return Err(error).context(self.name.clone()),
            }
        }
        Ok(taken.then_some(bytes))
    }

    /// Sends a message's first frame, and drops it for the subscribers that are full. ZeroMQ does not say how many
    /// they are, and passes over them, again without a word, until half of their queue is free.
    fn send_to_others(&mut self, frame: Vec<u8>, more: i32) -> zmq::Result<()> {
        counter!(OVERFLOWS, "address" => self.name.clone()).increment(1);
        set_nodrop(&mut self.socket, false)?;
        let sent = self.socket.send(frame, more | DONTWAIT);
        set_nodrop(&mut self.socket, true)?;
        sent
    }
}

#[cfg(test)]
mod tests {
    use headwater_config::publish::Address;

    use super::*;

    fn subscriber(context: &zmq::Context, endpoint: &str) -> Socket {
        let socket = context.socket(SocketType::SUB).expect("a socket");
        socket.set_linger(0).expect("set");
        // A ZeroMQ client drops its own messages beyond a thousand.
        socket.set_sndhwm(0).expect("set");
        socket.connect(endpoint).expect("connected");
        socket.set_subscribe(b"").expect("subscribed");
        socket
    }

    /// Publishes until the subscriber gets something.
    fn reaches(outlet: &mut SocketOutlet, subscriber: &Socket) {
        let end = Instant::now() + Duration::from_secs(60);
        while subscriber.recv_bytes(DONTWAIT).is_err() {
            assert!(Instant::now() < end, "nothing comes");
            outlet.notice().expect("noticed");
            assert!(outlet.topics.len() <= TOPICS_MAX);
            outlet.socket.send("batch", DONTWAIT).expect("sent");
            sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_client_that_subscribes_without_end_is_let_go_of_and_the_others_come_back() {
        let urls = vec!["zpub://127.0.0.1:0".to_owned()];
        let config = PublishConfig { urls, ..PublishConfig::default() };
        let Address::Socket(address) = config.addresses().expect("an address").remove(0) else {
            panic!("no socket");
        };
        let mut outlet = SocketOutlet::open(&zmq::Context::new(), &address, &config).expect("open");
        let endpoint = outlet.settings.endpoint.clone();
        let clients = zmq::Context::new();
        let honest = subscriber(&clients, &endpoint);
        reaches(&mut outlet, &honest);
        let greedy = subscriber(&clients, &endpoint);
        for topic in 0..50_000_u32 {
            greedy.set_subscribe(&topic.to_be_bytes()).expect("subscribed");
        }
        // It has the honest client's topic until all are let go of.
        let end = Instant::now() + Duration::from_secs(60);
        while !outlet.topics.is_empty() {
            assert!(Instant::now() < end, "{} topics, never let go of", outlet.topics.len());
            outlet.notice().expect("noticed");
        }
        drop(greedy);
        while honest.recv_bytes(DONTWAIT).is_ok() {}
        reaches(&mut outlet, &honest);
    }
}
