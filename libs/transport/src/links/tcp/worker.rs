//! The worker's end: a task that keeps the connection and empties the outbox into it.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;

use super::choices::TcpConnect;
use super::outbox::Outbox;
use super::stream::{self, Reader, Writer};
use super::tls::{ConnectTls, Offered};
use super::wire::{
    ACK_BYTES, ANSWER_BYTES, Ack, Frame, Hello, VERSION, decode_answer, encode_part, is_tls_alert,
};
use crate::link::contract::{SendsWhole, WorkerLink};
use crate::link::terms::{LinkError, LinkKind, LinkOffer, SessionKey};
use crate::link::worker_permits::{Rendered, WorkerPermits};
use crate::memory::part::{PartBuffer, WholePart};
use crate::memory::place::{self, LeaseId, PartPlace, PlaceError};
use crate::memory::staging::{StagingBuffer, StagingPool};
use crate::metrics::{self, Direction};

/// Time for a leaving worker to finish the part it is in the middle of.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connected worker.
#[derive(Debug)]
pub(super) struct TcpWorker {
    permits: Arc<WorkerPermits<()>>,
    outbox: Arc<Outbox>,
    staging: StagingPool<()>,
}

/// Where to connect, and as whom.
#[derive(Debug)]
struct Route {
    offered: Offered,
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
        let permits = Arc::new(WorkerPermits::new(LinkKind::Tcp, Rendered::InStaging));
        let outbox = Arc::new(Outbox::new(Arc::clone(&permits)));
        tokio::spawn(keep(route, halves, Arc::clone(&outbox)));
        let in_use = metrics::staging_in_use(LinkKind::Tcp);
        let staging = StagingPool::plain(config.staging_buffers, in_use);
        Ok(Self { permits, outbox, staging })
    }
}

#[async_trait]
impl WorkerLink for TcpWorker {
    fn kind(&self) -> LinkKind {
        LinkKind::Tcp
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        place::check(&place, u64::MAX)?;
        let staging = self.permits.staging(&place, &self.staging).await?;
        Ok(PartBuffer::in_staging(place, Arc::clone(staging.mapping()), staging)?)
    }

    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError> {
        if part.keeper::<StagingBuffer<()>>().is_none() {
            return Err(PlaceError::new("the buffer is of another link").into());
        }
        self.outbox.deliver(part).await
    }

    fn sends_whole(&self) -> Option<&dyn SendsWhole> {
        Some(self)
    }

    fn withdraw(&self, lease: LeaseId) {
        self.outbox.withdraw(lease);
    }

    async fn closed(&self) -> LinkError {
        self.permits.closed().await
    }
}

#[async_trait]
impl SendsWhole for TcpWorker {
    async fn send_whole(&self, place: PartPlace, part: WholePart) -> Result<(), LinkError> {
        self.outbox.deliver(part.at(place)?).await
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
            Ok(()) => return outbox.close("the worker left"),
            Err(error) => error,
        };
        if outbox.is_leaving() {
            return outbox.close("the worker left");
        }
        tracing::info!(address = route.offered.host_and_port, %broken, "tcp link broke; connecting again");
        outbox.rewind();
        halves = match route.connect_again().await {
            Ok(halves) => halves,
            Err(error) => return outbox.close(&format!("{broken}; {error}")),
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
        let setup = |reason: String| LinkKind::Tcp.setup(reason);
        let offered = Offered::parse(&String::from_utf8_lossy(&offer.address));
        let Offered { host_and_port: address, encrypted, .. } = &offered;
        let tls = config.tls.clone().filter(|_| *encrypted);
        if *encrypted && tls.is_none() {
            return Err(setup(format!(
                "the receiver encrypts {address}: give this worker the three files of [security]"
            )));
        }
        if config.encrypted_only && !*encrypted {
            return Err(setup(format!(
                "{address} is not encrypted: set security.tcp_tls for the receiver as well"
            )));
        }
        let (key, config) = (key.clone(), config.clone());
        Ok(Self { offered, key, config, tls, attempt: 0 })
    }

    async fn connect(&mut self) -> Result<Halves, LinkError> {
        let setup = |reason: String| LinkKind::Tcp.setup(reason);
        // Also after a try that did not get through: the receiver may have heard it.
        self.attempt += 1;
        match tokio::time::timeout(self.config.handshake_timeout, self.greet()).await {
            Ok(Ok(Ok(halves))) => Ok(halves),
            Ok(Ok(Err(reason))) => Err(LinkKind::Tcp.refused(reason)),
            Ok(Err(error)) => Err(setup(format!("{}: {error}", self.offered.host_and_port))),
            Err(_) => Err(setup(format!("{} did not answer in time", self.offered.host_and_port))),
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
        let stream = Arc::new(TcpStream::connect(&self.offered.host_and_port).await?);
        stream::configure(&stream)?;
        let tls = self.tls.as_ref();
        let (mut reader, mut writer) = stream::connect(&stream, tls, &self.offered).await?;
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
