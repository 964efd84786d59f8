//! The receiver's end: the listening socket and a task for each connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::TcpListen;
use super::ledger::{ConnectionId, Ledger, Verdict};
use super::stream::{self, read_exact, write_all};
use super::target::Filled;
use super::wire::{ACK_BYTES, Ack, FRAME_BYTES, Frame, HELLO_BYTES, Hello, encode_answer};
use crate::contract::{
    Arrival, LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, PeerId, ReceiverLink, SessionKey,
    SlotId, Withdrawal,
};
use crate::metrics;
use crate::slot::SlotMemory;

/// Connections that may be about to present their key at one time.
const MAX_HANDSHAKES: usize = 64;

/// Pause after a failed accept, for instance for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Memory of a connection for parts that nobody wants.
const SCRATCH_BYTES: usize = 256 * 1024;

/// A listening receiver. Dropping it closes every connection.
#[derive(Debug)]
pub(super) struct TcpReceiver {
    ledger: Arc<Ledger>,
    address: String,
    task: AbortHandle,
}

#[derive(Debug)]
struct Door {
    config: TcpListen,
    handshakes: Semaphore,
}

/// A connection that was let in.
struct Connection {
    id: ConnectionId,
    stream: Arc<TcpStream>,
    ledger: Arc<Ledger>,
}

// === impl TcpReceiver ===

impl TcpReceiver {
    pub(super) async fn listen(
        config: &TcpListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Self, LinkError> {
        let setup = |error: io::Error| LinkError::Setup {
            kind: LinkKind::Tcp,
            reason: format!("cannot listen on {}: {error}; see receiver.tcp_bind", config.bind),
        };
        let listener = TcpListener::bind(config.bind).await.map_err(setup)?;
        let bound = listener.local_addr().map_err(setup)?;
        let ledger = Arc::new(Ledger::new(arrivals));
        let handshakes = Semaphore::new(MAX_HANDSHAKES);
        let door = Arc::new(Door { config: config.clone(), handshakes });
        let task = tokio::spawn(accept_all(listener, Arc::clone(&ledger), door));
        let address = advertised(config.advertise_host.as_deref(), bound);
        Ok(Self { ledger, address, task: task.abort_handle() })
    }
}

impl ReceiverLink for TcpReceiver {
    fn kind(&self) -> LinkKind {
        LinkKind::Tcp
    }

    fn offer(&self) -> LinkOffer {
        LinkOffer { kind: LinkKind::Tcp, address: self.address.clone().into_bytes() }
    }

    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        self.ledger.add_slot(slot, memory);
        Ok(())
    }

    fn remove_slot(&self, slot: SlotId) {
        self.ledger.remove_slot(slot);
    }

    fn admit(&self, peer: PeerId, key: SessionKey) {
        self.ledger.admit(peer, key);
    }

    fn expect(&self, peer: PeerId, place: PartPlace) {
        self.ledger.expect(peer, place);
    }

    fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal {
        self.ledger.withdraw(peer, lease)
    }

    fn drop_peer(&self, peer: PeerId) {
        self.ledger.drop_peer(peer);
    }
}

impl Drop for TcpReceiver {
    fn drop(&mut self) {
        self.task.abort();
        self.ledger.shut();
    }
}

/// What workers connect to: a configured host, the bound address, or this host's name.
fn advertised(host: Option<&str>, bound: SocketAddr) -> String {
    let port = bound.port();
    match host {
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        Some(host) => format!("{host}:{port}"),
        None if bound.ip().is_unspecified() => {
            let system = rustix::system::uname();
            format!("{}:{port}", system.nodename().to_string_lossy())
        }
        None => bound.to_string(),
    }
}

async fn accept_all(listener: TcpListener, ledger: Arc<Ledger>, door: Arc<Door>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                connections.spawn(serve(stream, from, Arc::clone(&ledger), Arc::clone(&door)));
            }
            Err(error) => {
                tracing::warn!(%error, "tcp link cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, from: SocketAddr, ledger: Arc<Ledger>, door: Arc<Door>) {
    let Ok(permit) = door.handshakes.try_acquire() else { return };
    let stream = Arc::new(stream);
    let knock = door.knock(&stream, &ledger);
    let known = tokio::time::timeout(door.config.handshake_timeout, knock).await;
    drop(permit);
    let id = match known.unwrap_or_else(|_| Err("no hello in time".into())) {
        Ok(id) => id,
        Err(reason) => {
            metrics::refused(LinkKind::Tcp);
            tracing::warn!(%from, reason, "tcp link refused a connection");
            stream.try_write(&encode_answer(Some(&reason))).ok();
            return;
        }
    };
    let connection = Connection { id, stream, ledger };
    let reason = match connection.run().await {
        Ok(()) => return connection.ledger.gone(id, "the worker left".into()),
        Err(error) => error.to_string(),
    };
    if connection.ledger.lost(id) {
        tracing::info!(peer = id.peer.0, reason, "a worker's tcp link broke; it may come back");
        tokio::time::sleep(door.config.reconnect_grace).await;
        connection.ledger.gone(id, format!("{reason}, and it did not come back in time"));
    }
}

// === impl Door ===

impl Door {
    async fn knock(
        &self,
        stream: &Arc<TcpStream>,
        ledger: &Ledger,
    ) -> Result<ConnectionId, String> {
        let io = |error: io::Error| error.to_string();
        stream::configure(stream, self.config.socket_buffer_bytes).map_err(io)?;
        let mut hello = [0; HELLO_BYTES];
        read_exact(stream, &mut hello).await.map_err(io)?;
        let hello = Hello::decode(&hello).ok_or("not a worker of this protocol")?;
        let id = ledger.connect(&hello, stream)?;
        // An error shows again at the first read, where the peer's name is known.
        stream.writable().await.and_then(|()| stream.try_write(&encode_answer(None))).ok();
        Ok(id)
    }
}

// === impl Connection ===

impl Connection {
    /// Serves frames until the worker says goodbye (`Ok`) or the connection breaks.
    async fn run(&self) -> io::Result<()> {
        let mut lens = Vec::new();
        loop {
            let mut frame = [0; FRAME_BYTES];
            read_exact(&self.stream, &mut frame).await?;
            let (lease, regions) = match Frame::decode(&frame) {
                Some(Frame::Part { lease, regions }) => (lease, regions),
                Some(Frame::Bye) => return Ok(()),
                None => return Err(invalid("the worker sent no known frame")),
            };
            let mut bytes = vec![0; 8 * regions];
            read_exact(&self.stream, &mut bytes).await?;
            lens.clear();
            lens.extend(bytes.as_chunks().0.iter().map(|len| u64::from_le_bytes(*len)));
            let arrived = self.part(lease, &lens).await?;
            self.answer(Ack { lease, arrived }).await?;
        }
    }

    /// Takes one payload off the stream; whether it is in its place.
    async fn part(&self, lease: LeaseId, lens: &[u64]) -> io::Result<bool> {
        match self.ledger.announce(self.id, lease, lens) {
            Verdict::Fill(target) => match target.fill_from(&self.stream).await? {
                Filled::Whole => Ok(self.ledger.filled(self.id, lease)),
                Filled::Closed { left_bytes } => self.drain(left_bytes).await.map(|()| false),
            },
            Verdict::Known => self.drain(lens.iter().sum()).await.map(|()| true),
            Verdict::Unwanted => self.drain(lens.iter().sum()).await.map(|()| false),
            Verdict::Absurd => Err(invalid("the worker sent a part larger than any slot")),
        }
    }

    async fn drain(&self, mut bytes: u64) -> io::Result<()> {
        let mut scratch = vec![0; bytes.min(SCRATCH_BYTES as u64) as usize];
        while bytes > 0 {
            let len = bytes.min(SCRATCH_BYTES as u64) as usize;
            read_exact(&self.stream, &mut scratch[..len]).await?;
            bytes -= len as u64;
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    async fn answer(&self, ack: Ack) -> io::Result<()> {
        let bytes: [u8; ACK_BYTES] = ack.encode();
        write_all(&self.stream, &mut [io::IoSlice::new(&bytes)]).await
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_told_an_address_they_can_use() {
        let bound: SocketAddr = "192.0.2.7:4000".parse().expect("an address");
        assert_eq!(advertised(None, bound), "192.0.2.7:4000");
        assert_eq!(advertised(Some("rank0.example"), bound), "rank0.example:4000");
        assert_eq!(advertised(Some("2001:db8::1"), bound), "[2001:db8::1]:4000");
        let wildcard: SocketAddr = "[::]:4000".parse().expect("an address");
        let told = advertised(None, wildcard);
        assert!(told.ends_with(":4000") && !told.starts_with('['), "{told}");
    }
}
