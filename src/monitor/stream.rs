//! One more client of a stream of batches in Tensorcom's format.

use std::time::Duration;

use anyhow::{Context, Result};
use headwater_config::publish::{Kind, SocketAddress, client_addresses};
use zmq::{DONTWAIT, Message, PollEvents, Socket, SocketType};

use super::window::{Seen, Window};
use crate::tenbin::tensors_of_message;

/// Messages that wait here while earlier ones are looked at: few, for they are large.
const QUEUE_MESSAGES: i32 = 4;
/// Largest frame that is taken; the connection of a sender of larger ones is closed.
const FRAME_MAX_BYTES: i64 = 4 << 30;

/// A socket of a client.
pub(crate) struct Stream {
    socket: Socket,
    url: String,
    takes_away: bool,
}

// === impl Stream ===

impl Stream {
    /// Connects to a sender, or binds for one: `zsub://host:7404`.
    ///
    /// # Errors
    /// No address of a client; one that cannot be opened.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let addresses = client_addresses(url).map_err(anyhow::Error::msg)?;
        let takes_away = addresses.iter().any(|address| address.kind == Kind::Push);
        let kind = if takes_away { SocketType::PULL } else { SocketType::SUB };
        let socket = zmq::Context::new().socket(kind)?;
        socket.set_rcvhwm(QUEUE_MESSAGES)?;
        socket.set_maxmsgsize(FRAME_MAX_BYTES)?;
        socket.set_ipv6(true)?;
        for SocketAddress { binds, place, .. } in &addresses {
            let open = if *binds { socket.bind(place) } else { socket.connect(place) };
            open.with_context(|| {
                format!("cannot open `{url}`: is {place} free, and of this host?")
            })?;
        }
        if !takes_away {
            socket.set_subscribe(b"")?;
        }
        Ok(Self { socket, url: url.to_owned(), takes_away })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether what is seen here is missing elsewhere.
    pub(crate) fn takes_away(&self) -> bool {
        self.takes_away
    }

    /// Adds to a window the messages that come, for so long. Whether any came.
    ///
    /// # Errors
    /// ZeroMQ refuses.
    pub(crate) fn look(&self, limit: Duration, window: &mut Window) -> Result<bool> {
        // Rounded up: a poll of 0 ms would be a busy loop.
        let limit_ms = limit.as_millis() as i64 + 1;
        match self.socket.poll(PollEvents::POLLIN, limit_ms) {
            Ok(0) | Err(zmq::Error::EINTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error).context(self.url.clone()),
        }
        let Some(frames) = self.message()? else { return Ok(false) };
        let frames: Vec<&[u8]> = frames.iter().map(|frame| &**frame).collect();
        match tensors_of_message(&frames) {
            Ok(tensors) => window.add(Seen::new(&tensors)),
            Err(error) => window.add_bad(error.to_string()),
        }
        Ok(true)
    }

    fn message(&self) -> Result<Option<Vec<Message>>> {
        let mut frames = Vec::new();
        loop {
            match self.socket.recv_msg(DONTWAIT) {
                Ok(frame) => frames.push(frame),
                // The frames of a message come together.
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) if frames.is_empty() => {
                    return Ok(None);
                }
                Err(zmq::Error::EINTR) => continue,
                Err(error) => return Err(error).context(self.url.clone()),
            }
            if !frames.last().is_some_and(Message::get_more) {
                return Ok(Some(frames));
            }
        }
    }
}
