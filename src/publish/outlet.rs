//! One address with its socket.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use headwater_config::publish::{Address, Framing, Kind, PublishConfig};
use headwater_receiver::Batch;
use zmq::{DONTWAIT, PollEvents, PollItem, SNDMORE, Socket, SocketType};

use super::tenbin::{Chunk, in_one_frame};

/// First byte of what a client sends to subscribe.
const SUBSCRIBES: u8 = 1;

/// Sends batches to the clients of one address.
pub(super) struct Outlet {
    socket: Socket,
    kind: Kind,
    framing: Framing,
    /// Where it is, as clients' people read it: `zpub://127.0.0.1:7404`.
    pub(super) name: String,
    /// Subscriptions so far; clients that left are counted too.
    pub(super) subscriptions: u32,
}

// === impl Outlet ===

impl Outlet {
    /// Binds or connects.
    ///
    /// # Errors
    /// An address in use, or that is none of this host.
    pub(super) fn open(
        context: &zmq::Context,
        address: &Address,
        config: &PublishConfig,
    ) -> Result<Self> {
        // As `PUB` on the wire; besides, it tells of subscriptions.
        let kind = match address.kind {
            Kind::Push => SocketType::PUSH,
            Kind::Pub => SocketType::XPUB,
        };
        let Address { scheme, place, .. } = address;
        let wrong = || format!("cannot publish on `{place}`: is it free, and of this host?");
        let socket = context.socket(kind).with_context(wrong)?;
        // A message of several frames counts once.
        socket.set_sndhwm(config.queue_batches as i32)?;
        socket.set_linger(config.linger_ms as i32)?;
        socket.set_ipv6(true)?;
        if address.kind == Kind::Pub {
            socket.set_xpub_verbose(true)?;
        } else {
            // Batches wait here for a client that is there, not for one that may come.
            socket.set_immediate(true)?;
        }
        if address.binds {
            socket.bind(place).with_context(wrong)?;
        } else {
            socket.connect(place).with_context(wrong)?;
        }
        let bound = socket.get_last_endpoint()?.unwrap_or_else(|_| place.clone());
        let rest = bound.split_once("://").map_or(bound.as_str(), |(_, rest)| rest);
        // A socket of both kinds has IPv4 addresses in brackets of IPv6.
        let canonical = rest.parse().map(|at: SocketAddr| (at.ip().to_canonical(), at.port()));
        let rest =
            canonical.map_or_else(|_| rest.to_owned(), |at| SocketAddr::from(at).to_string());
        let name = format!("{scheme}://{rest}");
        let framing = config.framing;
        Ok(Self { socket, kind: address.kind, framing, name, subscriptions: 0 })
    }

    /// Whether it drops what there is no room for.
    pub(super) fn drops(&self) -> bool {
        self.kind == Kind::Pub
    }

    /// Counts who has subscribed meanwhile.
    pub(super) fn notice(&mut self) -> Result<()> {
        while self.kind == Kind::Pub {
            match self.socket.recv_bytes(DONTWAIT) {
                Ok(told) if told.first() == Some(&SUBSCRIBES) => self.subscriptions += 1,
                Ok(_) => {}
                Err(zmq::Error::EAGAIN) => break,
                Err(error) => return Err(error).context(self.name.clone()),
            }
        }
        Ok(())
    }

    /// To be waited on, until [`Outlet::has_room`] or somebody subscribes.
    pub(super) fn poll_item(&self) -> PollItem<'_> {
        self.socket.as_poll_item(match self.kind {
            Kind::Push => PollEvents::POLLOUT,
            Kind::Pub => PollEvents::POLLIN,
        })
    }

    /// Whether a batch would be taken at once.
    pub(super) fn has_room(&self) -> Result<bool> {
        let events = self.socket.get_events().with_context(|| self.name.clone())?;
        Ok(self.drops() || events.contains(PollEvents::POLLOUT))
    }

    /// Hands a batch to the clients' queues; its bytes, or none where the client went away
    /// meanwhile: then another one has to get it.
    ///
    /// # Errors
    /// ZeroMQ refuses, a number does not fit.
    pub(super) fn send(
        &self,
        batch: &Batch,
        chunks: impl Fn(&Batch) -> Result<Vec<Chunk>>,
    ) -> Result<Option<u64>> {
        let chunks = chunks(batch)?;
        let frames = match self.framing {
            Framing::Multipart => {
                chunks.into_iter().flat_map(|chunk| [chunk.header, chunk.data]).collect()
            }
            Framing::Single => vec![in_one_frame(&chunks)],
        };
        let bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        let last = frames.len().saturating_sub(1);
        let mut taken = true;
        for (number, frame) in frames.into_iter().enumerate() {
            let more = if number < last { SNDMORE } else { 0 };
            // The frame's own memory goes into ZeroMQ; it is not copied again.
            match self.socket.send(frame, more | DONTWAIT) {
                Ok(()) => {}
                Err(zmq::Error::EAGAIN) if number == 0 => return Ok(None),
                // ZeroMQ takes the frames before back, and waits for the others to throw them away.
                Err(zmq::Error::EAGAIN) => taken = false,
                Err(error) => return Err(error).context(self.name.clone()),
            }
        }
        Ok(taken.then_some(bytes))
    }
}
