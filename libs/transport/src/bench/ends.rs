//! Both ends of every link that is measured.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::orders::Invited;
use super::talk::WorkerTalk;
use super::{Plan, Route, WorkerPlan};
use crate::contract::{
    Arrival, LinkError, LinkKind, LinkOffer, PeerId, ReceiverLink, SessionKey, SlotId, WorkerLink,
};
use crate::rdma::ucx::{self, UcxConnect, UcxListen};
use crate::rdma::{self, RdmaConnect, RdmaListen};
use crate::shm::{self, ShmConnect, ShmListen};
use crate::slot::{DEFAULT_SHM_DIR, SlotMemory};
use crate::tcp::{self, TcpConnect, TcpListen};

/// Parts that are on their way at a time over a link that copies or writes them.
pub(super) const PARTS_AT_ONCE: usize = 4;

/// A receiver's end.
pub(super) struct Listening {
    pub(super) route: Route,
    pub(super) peer: PeerId,
    pub(super) link: Arc<dyn ReceiverLink>,
    key: SessionKey,
}

/// The receiver's ends, with all slots; and a sentence on each that this machine cannot have.
pub(super) async fn listen(
    plan: &Plan,
    arrivals: &mpsc::UnboundedSender<Arrival>,
) -> io::Result<(Vec<Listening>, Vec<String>)> {
    let (mut listening, mut absent) = (Vec::new(), Vec::new());
    let slots: Vec<Arc<SlotMemory>> = (0..plan.slots)
        .map(|_| SlotMemory::shared(Path::new(DEFAULT_SHM_DIR), plan.slot_bytes(), false))
        .map(|memory| memory.map(Arc::new).map_err(io::Error::other))
        .collect::<io::Result<_>>()?;
    for (number, route) in (1..).zip(Route::ALL) {
        let wanted = plan.links.contains(&route.kind());
        if !wanted || (route == Route::TcpTls && plan.tls.is_none()) {
            continue;
        }
        let opened = listen_one(plan, route, arrivals.clone()).await.and_then(|link| {
            let mut slots = (0..).zip(&slots);
            slots.try_for_each(|(slot, memory)| link.add_slot(SlotId(slot), Arc::clone(memory)))?;
            Ok(link)
        });
        match opened {
            Ok(link) => {
                let (peer, key) = (PeerId(number), SessionKey::random()?);
                link.admit(peer, key.clone());
                listening.push(Listening { route, peer, link, key });
            }
            // Every machine has these.
            Err(error) if matches!(route.kind(), LinkKind::Shm | LinkKind::Tcp) => {
                return Err(io::Error::other(error));
            }
            Err(error) => absent.push(error.to_string()),
        }
    }
    Ok((listening, absent))
}

async fn listen_one(
    plan: &Plan,
    route: Route,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    match route {
        Route::Shm => shm::listen(&ShmListen::default(), arrivals).await,
        Route::Tcp | Route::TcpTls => {
            let config = TcpListen {
                bind: SocketAddr::from(([127, 0, 0, 1], 0)),
                socket_buffer_bytes: plan.socket_buffer_bytes,
                tls: plan.tls.clone().filter(|_| route == Route::TcpTls),
                ..TcpListen::default()
            };
            tcp::listen(&config, arrivals).await
        }
        Route::Rdma => {
            let slots_bytes = plan.slot_bytes() * u64::from(plan.slots);
            let port = plan.rdma_port.clone();
            rdma::listen(&RdmaListen { port, slots_bytes, ..RdmaListen::default() }, arrivals).await
        }
        Route::Ucx => ucx::listen(&UcxListen::default(), arrivals).await,
    }
}

/// The worker's end of an invited link.
pub(super) async fn connect(
    invited: &Invited,
    plan: &Plan,
    own: &WorkerPlan,
    talk: &WorkerTalk,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    let Invited { route, address, key } = invited;
    let offer = LinkOffer { kind: route.kind(), address: address.clone() };
    let staging_buffers = PARTS_AT_ONCE + 2;
    match route {
        Route::Shm => shm::connect(&offer, key, &ShmConnect::default()).await,
        Route::Tcp | Route::TcpTls => {
            let config = TcpConnect {
                socket_buffer_bytes: plan.socket_buffer_bytes,
                staging_buffers,
                tls: own.tls.clone().filter(|_| *route == Route::TcpTls),
                ..TcpConnect::default()
            };
            tcp::connect(&offer, key, &config).await
        }
        Route::Rdma => {
            let config = RdmaConnect {
                port: own.rdma_port.clone(),
                staging_buffers,
                queue_pairs: own.rdma_queue_pairs,
                ..RdmaConnect::default()
            };
            rdma::connect(key, &config, talk).await
        }
        Route::Ucx => {
            let config = UcxConnect { staging_buffers, ..UcxConnect::default() };
            ucx::connect(&offer, key, &config).await
        }
    }
}

// === impl Listening ===

impl Listening {
    pub(super) fn invite(&self) -> Invited {
        let (address, key) = (self.link.offer().address, self.key.clone());
        Invited { route: self.route, address, key }
    }
}
