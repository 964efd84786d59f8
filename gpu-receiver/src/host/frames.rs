//! Messages of any length over a socket of packets.
//!
//! A packet begins with a byte: 1 where the message goes on in the next packet, 0 where it ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use headwater_transport::packets::PacketSocket;
use rustix::net::SendFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a packet; several fit in the smallest buffer that Linux gives a socket.
const PACKET_BYTES_MAX: usize = 16 * 1024;
/// Longest message: 65,536 samples with keys and reasons of a kilobyte each.
const MESSAGE_BYTES_MAX: usize = 128 << 20;

/// What has come of a message that is under way.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    held: Vec<u8>,
    fd: Option<OwnedFd>,
}

/// Sends a message, with a descriptor if there is one.
///
/// # Errors
/// The other end is gone.
pub(super) async fn send(
    socket: &PacketSocket,
    message: &impl Serialize,
    mut fd: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut pieces = text.chunks(PACKET_BYTES_MAX - 1).peekable();
    while let Some(piece) = pieces.next() {
        let more = u8::from(pieces.peek().is_some());
        socket.send(&[&[more], piece].concat(), fd.take()).await?;
    }
    Ok(())
}

/// Sends a short message without a wait, also where no runtime is left; `false`: it could not be.
pub(super) fn send_at_once(socket: impl AsFd, message: &impl Serialize) -> bool {
    let Ok(text) = serde_json::to_vec(message) else { return false };
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    text.len() < PACKET_BYTES_MAX
        && rustix::net::send(socket, &[&[0], text.as_slice()].concat(), flags).is_ok()
}

// === impl Inbox ===

impl Inbox {
    /// The next message; `None` at the end of the stream. Nothing is lost where it is not waited for to
    /// its end.
    ///
    /// # Errors
    /// It is no message of this protocol.
    pub(super) async fn receive<T: DeserializeOwned>(
        &mut self,
        socket: &PacketSocket,
    ) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        loop {
            let Some(packet) = socket.receive(PACKET_BYTES_MAX).await? else { return Ok(None) };
            let Some((&more, piece)) = packet.bytes.split_first().filter(|(more, _)| **more < 2)
            else {
                return Err(wrong("a packet of another protocol".into()));
            };
            self.held.extend_from_slice(piece);
            self.fd = packet.fd.or(self.fd.take());
            if self.held.len() > MESSAGE_BYTES_MAX {
                return Err(wrong("a message has no end".into()));
            }
            if more == 0 {
                let text = std::mem::take(&mut self.held);
                let message = serde_json::from_slice(&text)?;
                return Ok(Some((message, self.fd.take())));
            }
        }
    }
}
