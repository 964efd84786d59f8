//! The first words of a worker that connects to a receiver of its host.

use super::hello::{Hello, MAX_PACKET_BYTES, decode_refusal};
use super::users::Users;
use crate::link::messages::ToWorker;
use crate::link::terms::{LinkError, LinkKind, SessionKey};
use crate::packets::{Packet, PacketSocket};

/// Connects and says hello (the link's magic and version): the socket, and the answer.
pub(crate) async fn greet(
    kind: LinkKind,
    name: &[u8],
    (magic, version): ([u8; 4], u16),
    key: &SessionKey,
    allow_uids: &[u32],
) -> Result<(PacketSocket, Packet), LinkError> {
    let socket = PacketSocket::connect(name).await.map_err(|error| {
        kind.setup(format!(
            "{}: {error}; is the receiver on this host, and can both see the socket (network \
             namespace, links.shm_socket_dir)?",
            String::from_utf8_lossy(name)
        ))
    })?;
    // Before it gets the key.
    let known = Users::new(allow_uids).check(socket.peer_uid(), "links.shm_allow_uids");
    known.map_err(|reason| kind.setup(format!("the receiver's {reason}")))?;
    // Where it cannot be sent, the receiver's reason may be there to read all the same.
    socket.send(&Hello { magic, version, key: key.0 }.encode(), None).await.ok();
    let answer = next(kind, &socket).await?;
    Ok((socket, answer))
}

/// The receiver's next packet.
pub(crate) async fn next(kind: LinkKind, socket: &PacketSocket) -> Result<Packet, LinkError> {
    let answer = socket.receive(MAX_PACKET_BYTES).await;
    let answer = answer.map_err(|error| kind.setup(error.to_string()))?;
    answer.ok_or_else(|| kind.refused("it closed the connection"))
}

/// Whether an answer lets the worker in. `decoded`: the packet, where it is a message.
pub(crate) fn let_in<S>(
    kind: LinkKind,
    decoded: Option<ToWorker<S>>,
    packet: &[u8],
) -> Result<(), LinkError> {
    match (decoded, decode_refusal(packet)) {
        (Some(ToWorker::ConnectionAuth), _) => Ok(()),
        (_, Some(reason)) => Err(kind.refused(reason)),
        _ => Err(kind.refused("it answered something else than a receiver's message")),
    }
}
