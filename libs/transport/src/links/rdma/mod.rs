//! One-sided writes: the receiver's slots are registered with its network card once, the worker
//! renders in registered memory, and its card puts each region of a part in its place. The last
//! write carries the lease's number, which the receiver awaits as a completion. No byte is copied
//! on either side, and the receiver's processor sees none.
//!
//! Queue pairs are exchanged over the control stream, which knows who is who ([`Exchange`]);
//! permissions, withdrawals and goodbyes are messages over the first pair, so that they keep the
//! order of what is written. The formats are in docs/wire-format.md, what machines need in
//! docs/rdma.md.
//!
//! **What a receiver can know.** The key of a slot lets a worker write all of it: a permission
//! binds an honest worker only, as over `shm`. A dead worker may show nothing here (a card sends
//! again for seconds, and says nothing while there is nothing to send): the control stream's
//! heartbeats decide, and `drop_peer` stops the pairs, waits for what they flush and destroys
//! them. After that no card writes on their behalf, whatever the worker does: `Gone` says so.
//!
//! **Order.** Within one pair parts arrive as they were committed. With several, a part committed
//! after another was delivered comes after it; parts under way at one time may change places.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_dylib::IBVERBS;
use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkKind, LinkOffer, SessionKey};
use crate::links::{
    CardPort, ConnectOptions, Link, LinkFacts, LinkLibrary, LinksConfig, ListenOptions, PortKind,
    Reference, Tuned,
};

mod adapter;
mod address;
mod choices;
mod connection;
#[cfg(test)]
mod detection;
#[allow(unsafe_code)] // Posts what it owns.
mod lane;
mod locked;
mod path;
mod probe;
mod reach;
mod receiver;
mod receiver_port;
mod reference;
mod session;
mod slot;
mod verbs;
pub(crate) mod wire;
mod worker;

pub use adapter::RdmaPort;
pub use choices::{DEFAULT_HANDSHAKE_TIMEOUT, DEFAULT_STAGING_BUFFERS, RdmaConnect, RdmaListen};

use adapter::Adapter;
use connection::Connection;

/// Opens the receiver's end. What happens on it is reported on `arrivals`, at most two per
/// admission and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: what is missing here (library, device, active port, address), with the
/// remedy.
pub async fn listen(
    config: &RdmaListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    receiver::RdmaReceiver::listen(config, arrivals)
}

/// Connects a worker to a receiver: pairs ready to send, and a probe write over each that the
/// receiver has found in its memory.
///
/// # Errors
/// [`LinkError::Setup`]: as for [`listen`], or the probe did not get through.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    config: &RdmaConnect,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(worker::RdmaWorker::connect(offer, key, config, exchange).await?))
}

/// Whether this machine has what the link needs, and which port it would take.
///
/// # Errors
/// As for [`listen`].
pub fn detect(port: &RdmaPort) -> Result<String, LinkError> {
    Ok(opened(port)?.describe())
}

/// The port that the link would take.
///
/// # Errors
/// As for [`listen`].
pub fn chosen(port: &RdmaPort) -> Result<CardPort, LinkError> {
    let adapter = opened(port)?;
    let route = adapter.route(None).map_err(|reason| LinkKind::Rdma.setup(reason))?;
    let device = adapter.device().name().to_owned();
    Ok(CardPort { device, port: adapter.port, gid_index: route.path.gid_index })
}

fn opened(port: &RdmaPort) -> Result<Arc<Adapter>, LinkError> {
    let found = Adapter::open(port, None, Connection::try_out);
    found.map_err(|reason| LinkKind::Rdma.setup(reason))
}

/// The link, as the table has it.
pub(super) struct Rdma;

const FACTS: LinkFacts = LinkFacts {
    is_usual: true,
    is_everywhere: false,
    is_fallback: false,
    is_within_host: false,
    keeps_private: false,
    renders_in_slot: false,
    needs_shared_slots: false,
    takes_device_slots: true,
    imports_slots: false,
    may_write_after_gone: false,
    needs_card: true,
    superseded_by: &[],
    port: Some(PortKind::Card),
    library: Some(LinkLibrary {
        name: "libibverbs",
        dylib: &IBVERBS,
        version: |library| library.has("ibv_create_qp").then(|| "is installed".to_owned()),
        remedy: "apt-get install libibverbs1 ibverbs-providers: the rdma link writes through it",
    }),
    tuned: Some(Tuned {
        name: "queue pairs",
        key: "links.rdma_queue_pairs",
        tried: &[1, 2, 4],
        of: |config| config.rdma_queue_pairs,
        with: |config, rdma_queue_pairs| LinksConfig { rdma_queue_pairs, ..config },
    }),
};

// === impl Rdma ===

#[async_trait]
impl Link for Rdma {
    fn facts(&self) -> &'static LinkFacts {
        &FACTS
    }

    fn references(&self) -> &'static [Reference] {
        &[reference::WRITE, reference::WRITE_AS_LINK]
    }

    fn check(&self, options: &ConnectOptions) -> Result<(), LinkError> {
        detect(&RdmaPort::of(&options.config, &[])).map(drop)
    }

    async fn listen(
        &self,
        options: &ListenOptions,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let port = RdmaPort::of(&options.config, &options.near_cards);
        let slots_bytes = options.slots_bytes;
        listen(&RdmaListen { port, slots_bytes, ..RdmaListen::default() }, arrivals).await
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
        options: &ConnectOptions,
        exchange: &dyn Exchange,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        let limit = options.timeout.unwrap_or(DEFAULT_HANDSHAKE_TIMEOUT);
        let choices = RdmaConnect {
            port: RdmaPort::of(&options.config, &[]),
            // A probe that gets lost must leave the receiver time to take another link.
            handshake_timeout: limit.min(DEFAULT_HANDSHAKE_TIMEOUT),
            staging_buffers: options.staging_buffers,
            queue_pairs: options.config.rdma_queue_pairs,
            part_bytes: options.part_bytes,
        };
        connect(offer, key, &choices, exchange).await
    }

    fn card_port(&self, options: &ListenOptions) -> Option<CardPort> {
        chosen(&RdmaPort::of(&options.config, &options.near_cards)).ok()
    }

    #[cfg(feature = "conformance")]
    fn take_any(&self, bytes: &[u8]) {
        wire::take_any(bytes);
    }
}

// === impl RdmaPort ===

impl RdmaPort {
    /// The port that the settings name; `near`: cards in the order in which they are tried where they name none.
    fn of(config: &LinksConfig, near: &[String]) -> Self {
        let device = config.rdma_device.clone();
        Self {
            preferred: if device.is_empty() { near.to_vec() } else { Vec::new() },
            device,
            gid_index: u8::try_from(config.rdma_gid_index).ok(),
            pkey: config.rdma_pkey,
            traffic_class: config.rdma_traffic_class,
            service_level: config.rdma_service_level,
        }
    }
}
