//! The worker's end: a task that keeps the connection and empties the outbox into it.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;

use super::TcpConnect;
use super::outbox::Outbox;
use super::stream::{self, Reader, Writer};
use super::tls::{ConnectTls, parse_offered};
use super::wire::{
    ACK_BYTES, ANSWER_BYTES, Ack, Frame, Hello, VERSION, decode_answer, encode_part, is_tls_alert,
};
use crate::contract::{LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, SessionKey, WorkerLink};
use crate::metrics::{self, Direction};
use crate::part::{Backing, PartBuffer};
use crate::place;
use crate::staging::StagingPool;

/// Time for a leaving worker to finish the part it is in the middle of.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connected worker.
#[derive(Debug)]
pub(super) struct TcpWorker {
    outbox: Arc<Outbox>,
    staging: StagingPool,
}

/// Where to connect, and as whom.
#[derive(Debug)]
struct Route {
    /// `host:port`.
    address: String,
    key: SessionKey,
    config: TcpConnect,
    /// Where connections are encrypted.
    tls: Option<ConnectTls>,
    /// Connections that were begun.
    attempt: u64,
}

/// Both halves of a connection that was let in.
type Halves = (Reader, Writer);

// === impl TcpWorker ===

impl TcpWorker {
    pub(super) async fn connect(
        offer: &LinkOffer,
        key: &SessionKey,
        config: &TcpConnect,
    ) -> Result<Self, LinkError> {
        let mut route = Route::new(offer, key, config)?;
        let halves = route.connect().await?;
        let outbox = Arc::new(Outbox::new());
        tokio::spawn(keep(route, halves, Arc::clone(&outbox)));
        let staging = StagingPool::new(LinkKind::Tcp, config.staging_buffers);
        Ok(Self { outbox, staging })
    }
}

#[async_trait]
impl WorkerLink for TcpWorker {
    fn kind(&self) -> LinkKind {
        LinkKind::Tcp
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        place::check(&place, u64::MAX)?;
        tokio::select! {
            biased;
            error = self.outbox.refusal(place.lease) => Err(error),
            staging = self.staging.take(PartBuffer::staging_bytes(&place)) => {
                PartBuffer::in_staging(place, staging?)
            }
        }
    }

    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError> {
        let Backing::Staging(_) = part.backing() else {
            return Err(LinkError::Place { reason: "the buffer is of another link".into() });
        };
        self.outbox.deliver(part).await
    }

    fn withdraw(&self, lease: LeaseId) {
        self.outbox.withdraw(lease);
    }

    async fn closed(&self) -> LinkError {
        self.outbox.closed().await
    }
}

impl Drop for TcpWorker {
    fn drop(&mut self) {
        // The task says goodbye and ends.
        self.outbox.leave();
    }
}

/// Uses a connection to its end, makes another, until that fails or the worker leaves.
async fn keep(mut route: Route, mut halves: Halves, outbox: Arc<Outbox>) {
    loop {
        let broken = match push(&mut halves, &outbox).await {
            Ok(()) => return outbox.close("the worker left".into()),
            Err(error) => error,
        };
        if outbox.is_leaving() {
            return outbox.close("the worker left".into());
        }
        tracing::info!(address = route.address, %broken, "tcp link broke; connecting again");
        outbox.rewind();
        halves = match route.connect_again().await {
            Ok(halves) => halves,
            Err(error) => return outbox.close(format!("{broken}; {error}")),
        };
        metrics::reconnected(LinkKind::Tcp);
    }
}

/// Sends parts and hears acknowledgements until the worker leaves (`Ok`) or the connection breaks.
async fn push((reader, writer): &mut Halves, outbox: &Outbox) -> io::Result<()> {
    tokio::select! {
        broken = hear(reader, outbox) => broken,
        broken = send(writer, outbox) => broken,
        () = overstay(outbox) => Ok(()),
    }
}

/// After a goodbye it is for the receiver to close: closing with acknowledgements unread would
/// make the kernel reset the connection, and what is still on its way would be lost.
async fn send(writer: &mut Writer, outbox: &Outbox) -> io::Result<()> {
    while let Some(part) = outbox.next().await {
        let head = encode_part(part.lease(), part.place().regions.iter().map(|r| r.len_bytes));
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(1 + part.place().regions.len());
        slices.push(IoSlice::new(&head));
        slices.extend(part.regions().map(IoSlice::new));
        writer.write_all(&mut slices).await?;
    }
    writer.write_all(&mut [IoSlice::new(&Frame::Bye.encode())]).await?;
    std::future::pending().await
}

async fn hear(reader: &mut Reader, outbox: &Outbox) -> io::Result<()> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    loop {
        let mut ack = [0; ACK_BYTES];
        reader.read_exact(&mut ack).await?;
        let ack = Ack::decode(&ack)
            .ok_or_else(|| invalid("the receiver sent no known acknowledgement".into()))?;
        if let Some(bytes) = outbox.acknowledge(ack).map_err(invalid)? {
            metrics::part(LinkKind::Tcp, Direction::Out, bytes);
        }
    }
}

/// Ends some time after the worker began to leave.
async fn overstay(outbox: &Outbox) {
    outbox.left().await;
    tokio::time::sleep(LEAVE_TIMEOUT).await;
}

// === impl Route ===

impl Route {
    fn new(offer: &LinkOffer, key: &SessionKey, config: &TcpConnect) -> Result<Self, LinkError> {
        let setup = |reason: String| LinkError::Setup { kind: LinkKind::Tcp, reason };
        let offered = String::from_utf8_lossy(&offer.address);
        let (address, encrypted) = parse_offered(&offered);
        let tls = config.tls.clone().filter(|_| encrypted);
        if encrypted && tls.is_none() {
            return Err(setup(format!(
                "the receiver encrypts {address}: give this worker the three files of [security]"
            )));
        }
        if config.encrypted_only && !encrypted {
            return Err(setup(format!(
                "{address} is not encrypted: set security.tcp_tls for the receiver as well"
            )));
        }
        let (address, key, config) = (address.to_owned(), key.clone(), config.clone());
        Ok(Self { address, key, config, tls, attempt: 0 })
    }

    async fn connect(&mut self) -> Result<Halves, LinkError> {
        let setup = |reason: String| LinkError::Setup { kind: LinkKind::Tcp, reason };
        // Also after a try that did not get through: the receiver may have heard it.
        self.attempt += 1;
        match tokio::time::timeout(self.config.handshake_timeout, self.greet()).await {
            Ok(Ok(Ok(halves))) => Ok(halves),
            Ok(Ok(Err(reason))) => Err(LinkError::Refused { kind: LinkKind::Tcp, reason }),
            Ok(Err(error)) => Err(setup(format!("{}: {error}", self.address))),
            Err(_) => Err(setup(format!("{} did not answer in time", self.address))),
        }
    }

    /// Tries a few times; a refusal is final.
    async fn connect_again(&mut self) -> Result<Halves, LinkError> {
        let mut pause = self.config.reconnect_backoff;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.connect().await {
                Ok(halves) => return Ok(halves),
                Err(error @ LinkError::Refused { .. }) => return Err(error),
                Err(error) if tries >= self.config.reconnect_tries => return Err(error),
                Err(error) => tracing::debug!(%error, tries, "tcp link is not back yet"),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn greet(&self) -> io::Result<Result<Halves, String>> {
        let stream = Arc::new(TcpStream::connect(&self.address).await?);
        stream::configure(&stream, self.config.socket_buffer_bytes)?;
        let tls = self.tls.as_ref();
        let (mut reader, mut writer) = stream::connect(&stream, tls, &self.address).await?;
        let attempt = self.attempt;
        let hello = Hello { version: VERSION, attempt, proof: self.key.proof(attempt) };
        writer.write_all(&mut [IoSlice::new(&hello.encode())]).await?;
        let mut answer = [0; ANSWER_BYTES];
        reader.read_exact(&mut answer).await?;
        Ok(match decode_answer(answer) {
            Some((true, _)) => Ok((reader, writer)),
            Some((false, len)) => {
                let mut reason = vec![0; len];
                reader.read_exact(&mut reason).await?;
                Err(String::from_utf8_lossy(&reason).into_owned())
            }
            None if is_tls_alert(answer) => Err("it takes encrypted connections only".into()),
            None => Err("it answered something else than a receiver".into()),
        })
    }
}
