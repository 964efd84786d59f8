//! The receiver's end: the listening socket and a task for each connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headwater_lobby::Lobby;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::channel::{self, Connected, Permits, TcpChannel, Verdict};
use super::choices::TcpListen;
use super::listening::{Advertised, bind};
use super::stream::{self, Reader, Writer};
use super::target::Filled;
use super::wire::{
    ACK_BYTES, Ack, FRAME_BYTES, Frame, HELLO_BYTES, HELLO_HEAD_BYTES, Hello, VERSION,
    encode_answer,
};
use crate::link::contract::{AnswersRequests, ReceiverLink, TakesDeviceSlots};
use crate::link::receiver_permits::TURNED_OUT;
use crate::link::receiving_end::{ReceiverPath, ReceivingEnd};
use crate::link::terms::{Arrival, LinkError, LinkKind};
use crate::memory::place::{LeaseId, SlotId};
use crate::memory::slot::SlotMemory;
use crate::metrics;

/// Connections that may be about to present their key at one time.
const STRANGERS_MAX: usize = 64;

/// Pause after a failed accept, for instance for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for a worker to take the reason why it is refused, and go.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Memory of a connection for parts that nobody wants.
const SCRATCH_BYTES: usize = 256 * 1024;

/// A listening socket. Dropping it closes every connection.
#[derive(Debug)]
pub(super) struct TcpReceiver {
    shared: Arc<Shared>,
    advertised: Advertised,
    task: AbortHandle,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    permits: Arc<Permits>,
    largest_slot_bytes: AtomicU64,
}

#[derive(Debug)]
struct Acceptor {
    config: TcpListen,
    lobby: Lobby,
}

/// A connection that was let in.
struct Connection {
    of: Connected,
    reader: Reader,
    writer: Writer,
    shared: Arc<Shared>,
}

/// Why a connection was not let in, and where the answer to the worker goes.
struct Refused {
    reason: String,
    halves: Option<(Reader, Writer)>,
}

// === impl TcpReceiver ===

impl TcpReceiver {
    pub(super) fn listen(
        config: &TcpListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let setup = |error: io::Error| {
            let reason = format!("cannot listen on {}: {error}; see links.tcp_listen", config.bind);
            LinkKind::Tcp.setup(reason)
        };
        let listener = bind(config.bind).map_err(setup)?;
        let bound = listener.local_addr().map_err(setup)?;
        let permits = Arc::new(Permits::new(LinkKind::Tcp, true, arrivals));
        let in_tasks = Arc::clone(&permits);
        let shared = Arc::new(Shared { permits: in_tasks, largest_slot_bytes: AtomicU64::new(0) });
        let lobby = Lobby::new("tcp", STRANGERS_MAX);
        let door = Arc::new(Acceptor { config: config.clone(), lobby });
        let task = tokio::spawn(accept_all(listener, Arc::clone(&shared), door));
        let (host, encrypted) = (config.advertise_host.clone(), config.tls.is_some());
        let advertised = Advertised { host, bound, encrypted };
        Ok(ReceivingEnd::link(permits, Self { shared, advertised, task: task.abort_handle() }))
    }
}

impl ReceiverPath for TcpReceiver {
    const KIND: LinkKind = LinkKind::Tcp;

    type Channel = TcpChannel;

    fn address(&self, route: IpAddr) -> Vec<u8> {
        self.advertised.over(route).into_bytes()
    }

    fn add_slot(
        &self,
        permits: &Permits,
        slot: SlotId,
        memory: Arc<SlotMemory>,
    ) -> Result<(), LinkError> {
        self.shared.largest_slot_bytes.fetch_max(memory.len_bytes(), Ordering::Relaxed);
        permits.add_slot(slot, memory);
        Ok(())
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        None
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        None // The kernel copies what a socket has to the host's memory.
    }
}

impl Drop for TcpReceiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_all(listener: TcpListener, shared: Arc<Shared>, door: Arc<Acceptor>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                // An IPv4 caller of a link that listens on `[::]`.
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                connections.spawn(serve(stream, from, Arc::clone(&shared), Arc::clone(&door)));
            }
            Err(error) => {
                tracing::warn!(%error, "tcp link cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, from: SocketAddr, shared: Arc<Shared>, door: Arc<Acceptor>) {
    let stream = Arc::new(stream);
    let known = tokio::select! {
        known = door.knock(&stream, &shared.permits) => known,
        () = door.lobby.enter(Some(from.ip())) => {
            Err(Refused { reason: TURNED_OUT.into(), halves: None })
        }
    };
    let (of, reader, writer) = match known {
        Ok(known) => known,
        Err(Refused { reason, halves }) => {
            metrics::refused(LinkKind::Tcp);
            match halves.is_none() && reason == TURNED_OUT {
                true => tracing::debug!(%from, reason, "tcp link refused a connection"),
                false => tracing::warn!(%from, reason, "tcp link refused a connection"),
            }
            if let Some(halves) = halves {
                let _ = tokio::time::timeout(REFUSAL_TIMEOUT, tell(halves, &reason)).await;
            }
            return;
        }
    };
    let mut connection = Connection { of, reader, writer, shared };
    let ended = connection.run().await;
    let Connection { of, shared, .. } = connection;
    let reason = match ended {
        Ok(()) => return of.gone(&shared.permits, "the worker left"),
        Err(error) => error.to_string(),
    };
    if of.lost() {
        tracing::info!(peer = of.peer.0, reason, "a worker's tcp link broke; it may come back");
        tokio::time::sleep(door.config.reconnect_grace).await;
        of.gone(&shared.permits, &format!("{reason}, and it did not come back in time"));
    }
}

/// Says why a worker is refused. What it still sends is read: closing with that unread would reset
/// the connection and lose the answer.
async fn tell((mut reader, mut writer): (Reader, Writer), reason: &str) -> io::Result<()> {
    let answer = encode_answer(Some(reason));
    writer.write_all(&mut [io::IoSlice::new(&answer)]).await?;
    reader.read_exact(&mut [0; 4096]).await
}

// === impl Acceptor ===

impl Acceptor {
    /// Lets a connection in that shows its key in time.
    async fn knock(
        &self,
        stream: &Arc<TcpStream>,
        permits: &Permits,
    ) -> Result<(Connected, Reader, Writer), Refused> {
        let end = Instant::now() + self.config.handshake_timeout;
        let unheard = |reason: String| Refused { reason, halves: None };
        stream::configure(stream).map_err(|error| unheard(error.to_string()))?;
        let accepted = timeout_at(end, stream::accept(stream, self.config.tls.as_ref()));
        let accepted = accepted.await.map_err(|_| unheard("no TLS handshake in time".into()))?;
        let (mut reader, mut writer) = accepted.map_err(|error| unheard(error.to_string()))?;
        let heard = timeout_at(end, hear_hello(&mut reader)).await;
        let heard = heard.unwrap_or_else(|_| Err("no hello in time".into()));
        let joined = heard.and_then(|hello| channel::join(permits, &hello, stream));
        let of = match joined {
            Ok(of) => of,
            Err(reason) => return Err(Refused { reason, halves: Some((reader, writer)) }),
        };
        // An error shows again at the first read, where the peer's name is known.
        let answer = encode_answer(None);
        let _ = timeout_at(end, writer.write_all(&mut [io::IoSlice::new(&answer)])).await;
        Ok((of, reader, writer))
    }
}

/// A hello of this version; another version's may be of another length.
async fn hear_hello(reader: &mut Reader) -> Result<Hello, String> {
    let mut bytes = [0; HELLO_BYTES];
    let (head, rest) = bytes.split_at_mut(HELLO_HEAD_BYTES);
    reader.read_exact(head).await.map_err(|error| error.to_string())?;
    let version = Hello::version_of(head).ok_or("not a worker of this protocol")?;
    if version != VERSION {
        return Err(format!("tcp link version {version}; this receiver speaks {VERSION}"));
    }
    reader.read_exact(rest).await.map_err(|error| error.to_string())?;
    Hello::decode(&bytes).ok_or_else(|| "not a worker of this protocol".into())
}

// === impl Connection ===

impl Connection {
    /// Serves frames until the worker says goodbye (`Ok`) or the connection breaks.
    async fn run(&mut self) -> io::Result<()> {
        let mut lens = Vec::new();
        loop {
            let mut frame = [0; FRAME_BYTES];
            self.reader.read_exact(&mut frame).await?;
            let (lease, regions) = match Frame::decode(&frame) {
                Some(Frame::Part { lease, regions }) => (lease, regions),
                Some(Frame::Bye) => return Ok(()),
                None => return Err(invalid("the worker sent no known frame")),
            };
            let mut bytes = vec![0; 8 * regions];
            self.reader.read_exact(&mut bytes).await?;
            lens.clear();
            lens.extend(bytes.as_chunks().0.iter().map(|len| u64::from_le_bytes(*len)));
            let arrived = self.part(lease, &lens).await?;
            self.answer(Ack { lease, arrived }).await?;
        }
    }

    /// Takes one payload off the stream; whether it is in its place.
    async fn part(&mut self, lease: LeaseId, lens: &[u64]) -> io::Result<bool> {
        let largest = self.shared.largest_slot_bytes.load(Ordering::Relaxed);
        let total = lens.iter().try_fold(0_u64, |sum, len| sum.checked_add(*len));
        if total.is_none_or(|total| total > largest) {
            return Err(invalid("the worker sent a part larger than any slot"));
        }
        let permits = &self.shared.permits;
        match self.of.announce(permits, lease, lens) {
            Verdict::Fill(target) => match self.reader.fill(&target).await? {
                Filled::Whole => Ok(self.of.filled(permits, lease)),
                Filled::Closed { left_bytes } => self.drain(left_bytes).await.map(|()| false),
            },
            Verdict::Known => self.drain(lens.iter().sum()).await.map(|()| true),
            Verdict::Unwanted => self.drain(lens.iter().sum()).await.map(|()| false),
        }
    }

    async fn drain(&mut self, mut bytes: u64) -> io::Result<()> {
        let mut scratch = vec![0; bytes.min(SCRATCH_BYTES as u64) as usize];
        while bytes > 0 {
            let len = bytes.min(SCRATCH_BYTES as u64) as usize;
            self.reader.read_exact(&mut scratch[..len]).await?;
            bytes -= len as u64;
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    async fn answer(&mut self, ack: Ack) -> io::Result<()> {
        let bytes: [u8; ACK_BYTES] = ack.encode();
        self.writer.write_all(&mut [io::IoSlice::new(&bytes)]).await
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
