//! Both ends of every link that is measured.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use headwater_transport::links::{self, ConnectOptions, ListenOptions};
use headwater_transport::{
    Arrival, LinkError, LinkOffer, PeerId, ReceiverLink, SessionKey, SlotId, SlotMemory, WorkerLink,
};
use tokio::sync::mpsc;

use super::orders::Invited;
use super::plan::Plan;
use super::talk::WorkerTalk;
use super::ways::Route;

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
        .map(|_| SlotMemory::shared(plan.slot_bytes(), false))
        .map(|memory| memory.map(Arc::new).map_err(io::Error::other))
        .collect::<io::Result<_>>()?;
    for (number, route) in (1..).zip(Route::all()) {
        let wanted = plan.links.contains(&route.kind);
        if !wanted || (route.encrypted && plan.options.tls.is_none()) {
            continue;
        }
        let opened = listen_one(plan, route, arrivals.clone()).await.and_then(|link| {
            let mut slots = (0..).zip(&slots);
            let mut add = |(slot, memory)| link.add_slot(SlotId(slot), Arc::clone(memory));
            slots.try_for_each(&mut add)?;
            Ok(link)
        });
        match opened {
            Ok(link) => {
                let (peer, key) = (PeerId(number), SessionKey::random()?);
                link.admit(peer, key.clone());
                listening.push(Listening { route, peer, link, key });
            }
            Err(error) if route.kind.facts().is_everywhere => {
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
    let options = ListenOptions {
        tls: plan.options.tls.clone().filter(|_| route.encrypted),
        slots_bytes: plan.slots_bytes(),
        ..plan.options.clone()
    };
    links::listen(route.kind, &options, arrivals).await
}

/// The worker's end of an invited link.
pub(super) async fn connect(
    invited: &Invited,
    own: &ConnectOptions,
    talk: &WorkerTalk,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    let Invited { route, address, key } = invited;
    let offer = LinkOffer { kind: route.kind, address: address.clone() };
    let options = ConnectOptions {
        tls: own.tls.clone().filter(|_| route.encrypted),
        staging_buffers: PARTS_AT_ONCE + 2,
        ..own.clone()
    };
    links::connect(&offer, key, &options, talk).await
}

// === impl Listening ===

impl Listening {
    pub(super) fn invite(&self) -> Invited {
        let offer = self.link.offer(Ipv4Addr::LOCALHOST.into());
        let (address, key) = (offer.address, self.key.clone());
        Invited { route: self.route, address, key }
    }
}
