//! The worker's end.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::ShmConnect;
use super::channel::Channel;
use super::session::Session;
use super::socket::PacketSocket;
use super::wire::{ToReceiver, ToWorker, VERSION};
use crate::contract::{LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, SessionKey, WorkerLink};
use crate::metrics::{self, Direction};
use crate::part::{Backing, PartBuffer};

/// A connected worker.
#[derive(Debug)]
pub(super) struct ShmWorker {
    // Let go of when the session ends: then only buffers keep it, and the last one to go closes
    // the socket, although this link may be held on to.
    session: Arc<Mutex<Option<Arc<Session>>>>,
    ended: watch::Receiver<Option<String>>,
    task: AbortHandle,
}

// === impl ShmWorker ===

impl ShmWorker {
    pub(super) async fn connect(
        offer: &LinkOffer,
        key: &SessionKey,
        config: &ShmConnect,
    ) -> Result<Self, LinkError> {
        let greet = greet(&offer.address, key);
        let channel = match tokio::time::timeout(config.handshake_timeout, greet).await {
            Ok(greeted) => greeted?,
            Err(_) => return Err(setup("the receiver did not answer in time")),
        };
        let session = Arc::new(Session::new(channel));
        let held = Arc::new(Mutex::new(Some(Arc::clone(&session))));
        let (end, ended) = watch::channel(None);
        let holder = Arc::clone(&held);
        let task = tokio::spawn(async move {
            let reason = session.run().await;
            holder.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(session);
            end.send_replace(Some(reason));
        });
        Ok(Self { session: held, ended, task: task.abort_handle() })
    }

    fn session(&self) -> Result<Arc<Session>, LinkError> {
        let held = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or_else(|| self.closed_error())
    }

    fn closed_error(&self) -> LinkError {
        let reason = self.ended.borrow().clone();
        LinkError::Closed {
            kind: LinkKind::Shm,
            reason: reason.unwrap_or_else(|| "the session has ended".into()),
        }
    }
}

#[async_trait]
impl WorkerLink for ShmWorker {
    fn kind(&self) -> LinkKind {
        LinkKind::Shm
    }

    async fn begin(&self, place: PartPlace) -> Result<PartBuffer, LinkError> {
        let rendering = self.session()?.begin(&place).await?;
        PartBuffer::in_slot(place, rendering)
    }

    async fn commit(&self, part: PartBuffer) -> Result<(), LinkError> {
        let Backing::Slot(rendering) = part.backing() else {
            return Err(LinkError::Place { reason: "the buffer is of another link".into() });
        };
        let session = Arc::clone(rendering.session());
        session.commit(part.place()).await?;
        metrics::part(LinkKind::Shm, Direction::Out, part.len_bytes());
        Ok(())
    }

    fn withdraw(&self, lease: LeaseId) {
        if let Ok(session) = self.session() {
            session.withdraw(lease);
        }
    }

    async fn closed(&self) -> LinkError {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok();
        self.closed_error()
    }
}

impl Drop for ShmWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn greet(name: &[u8], key: &SessionKey) -> Result<Channel, LinkError> {
    let socket = PacketSocket::connect(name).await.map_err(|error| {
        setup(&format!(
            "{}: {error}; is the receiver on this host, and can both see the socket (network \
             namespace, receiver.shm_socket_dir)?",
            String::from_utf8_lossy(name)
        ))
    })?;
    let hello = ToReceiver::Hello { version: VERSION, key: key.0 };
    let gone = |error: std::io::Error| setup(&error.to_string());
    // Where it cannot be sent, the receiver's reason may be there to read all the same.
    socket.send(&hello.encode(), None).await.ok();
    let refused = |reason: String| LinkError::Refused { kind: LinkKind::Shm, reason };
    match socket.receive().await.map_err(gone)?.map(|packet| ToWorker::decode(&packet.bytes)) {
        Some(Some(ToWorker::Accepted)) => Ok(Channel::new(socket)),
        Some(Some(ToWorker::Refused { reason })) => Err(refused(reason)),
        Some(_) => Err(refused("it answered something else than a receiver's message".into())),
        None => Err(refused("it closed the connection".into())),
    }
}

fn setup(reason: &str) -> LinkError {
    LinkError::Setup { kind: LinkKind::Shm, reason: reason.to_owned() }
}
