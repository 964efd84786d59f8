//! The worker's end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::choices::UcxConnect;
use super::context::Context;
use super::path::{Channel, Outgoing, Path, Side};
use super::port::Port;
use super::session::Session;
use super::threads::spawn;
use super::wire::{Greeting, Knock, PROBED, RemoteMemory, VERSION, decode_offer};
use super::{detect, probe};
use crate::link::contract::{SendsWhole, WorkerLink};
use crate::link::messages::ToWorker;
use crate::link::terms::{LinkError, LinkKind, LinkOffer, SessionKey};
use crate::memory::part::PartBuffer;
use crate::memory::place::{LeaseId, PartPlace};
use crate::metrics::{self, Direction};

/// A connected worker.
#[derive(Debug)]
pub(super) struct UcxWorker {
    session: Arc<Session>,
}

/// What a worker's thread begins with.
struct Caller {
    door: Vec<u8>,
    key: [u8; 32],
    staging_buffers: usize,
    until: Instant,
}

/// A worker's thread, once there is a session.
struct ReceiverPeer {
    key: [u8; 32],
    session: Arc<Session>,
    standing: bool,
    refused: Option<String>,
}

// === impl UcxWorker ===

impl UcxWorker {
    pub(super) async fn connect(
        offer: &LinkOffer,
        key: &SessionKey,
        config: &UcxConnect,
    ) -> Result<Self, LinkError> {
        let door = decode_offer(&offer.address).map_err(setup)?;
        let context = detect::open(config.rdma_only, &config.devices)?;
        let caller = Caller {
            door,
            key: key.0,
            staging_buffers: config.staging_buffers,
            until: Instant::now() + config.handshake_timeout,
        };
        let (ready, connected) = oneshot::channel();
        spawn("ucx-worker", move || caller.run(&context, ready))?;
        let session = connected.await.map_err(|_| setup("its thread has ended".into()))??;
        Ok(Self { session })
    }
}

#[async_trait]
impl WorkerLink for UcxWorker {
    fn kind(&self) -> LinkKind {
        LinkKind::Ucx
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        self.session.begin(place).await
    }

    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError> {
        match self.session.send(part)?.await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.session.permits.closed().await),
        }
    }

    fn sends_whole(&self) -> Option<&dyn SendsWhole> {
        None // UCX would register the memory for each part anew.
    }

    fn withdraw(&self, lease: LeaseId) {
        self.session.permits.withdraw(lease);
    }

    async fn closed(&self) -> LinkError {
        self.session.permits.closed().await
    }
}

impl Drop for UcxWorker {
    fn drop(&mut self) {
        self.session.leave();
    }
}

// === impl Caller ===

type Ready = oneshot::Sender<Result<Arc<Session>, LinkError>>;

impl Caller {
    fn run(self, context: &Arc<Context>, ready: Ready) {
        let (mut path, mut guest) = match self.knock(context) {
            Ok(made) => made,
            Err(reason) => return drop(ready.send(Err(setup(reason)))),
        };
        let failed = loop {
            let tick = Instant::now() + Duration::from_millis(20);
            let ended = path.run(&mut guest, Some(tick));
            match ended {
                _ if guest.standing => break ended,
                Some(reason) => break Some(reason),
                None if Instant::now() >= self.until => {
                    break Some("the receiver did not answer in time".into());
                }
                None => {}
            }
        };
        if !guest.standing {
            let reason = failed.unwrap_or_default();
            path.end(&mut guest, &reason);
            let error = match guest.refused {
                Some(reason) => LinkKind::Ucx.refused(reason),
                None => setup(reason),
            };
            return drop(ready.send(Err(error)));
        }
        let reason = failed.or_else(|| {
            let taken = ready.send(Ok(Arc::clone(&guest.session)));
            if taken.is_err() { Some("given up".into()) } else { path.run(&mut guest, None) }
        });
        let reason = reason.unwrap_or_default();
        // From here on nobody can send; what was sent comes back, and only then are buffers let go.
        guest.session.permits.close(&reason);
        path.end(&mut guest, &reason);
    }

    fn knock(&self, context: &Arc<Context>) -> Result<(Path, ReceiverPeer), String> {
        let port = Port::new(context)?;
        let door = port.endpoint(&self.door)?;
        let (channel, orders) = Channel::new(port.bell());
        let mut path = Path::new(port, door, orders);
        let knock = Knock { version: VERSION, key: self.key, address: path.address()? };
        path.send(&knock.encode())?;
        let session = Arc::new(Session::new(channel, self.staging_buffers));
        Ok((path, ReceiverPeer { key: self.key, session, standing: false, refused: None }))
    }
}

// === impl ReceiverPeer ===

impl Side for ReceiverPeer {
    fn hear(&mut self, message: &[u8], path: &mut Path) -> Result<(), String> {
        match Greeting::decode(message).filter(|_| !self.standing) {
            Some(Greeting::Refused { reason }) => {
                self.refused = Some(reason.clone());
                return Err(reason);
            }
            Some(Greeting::Welcome { address, probe }) => {
                path.turn_to(&address)?;
                path.write(&probe, &probe::pattern(&self.key))?;
                return path.send(PROBED);
            }
            None => {}
        }
        let message: ToWorker<RemoteMemory> =
            ToWorker::decode(message).ok_or("the receiver sent no known message")?;
        match &message {
            ToWorker::ConnectionAuth if !self.standing => {
                self.standing = true;
                return Ok(());
            }
            ToWorker::Slot { slot, terms } => path.learn(*slot, terms.clone())?,
            ToWorker::Forget { slot } => path.unlearn(*slot),
            _ => {}
        }
        self.session.hear(message)
    }

    fn delivered(&mut self, outgoing: Outgoing, outcome: Result<(), String>) {
        let Outgoing { part, done, .. } = outgoing;
        let bytes = part.len_bytes();
        let outcome = outcome.map_err(|reason| LinkKind::Ucx.closed(reason));
        if outcome.is_ok() {
            metrics::part(LinkKind::Ucx, Direction::Out, bytes);
        }
        drop(part);
        done.send(outcome).ok();
    }
}

fn setup(reason: String) -> LinkError {
    LinkKind::Ucx.setup(reason)
}
