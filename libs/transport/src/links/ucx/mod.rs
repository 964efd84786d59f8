//! One-sided writes by UCX, which finds its own way over whatever transports a machine has: several
//! ports at once, RDMA by verbs, and sockets. The library is opened while the program runs.
//!
//! The worker puts each region of a part to its place, waits for UCX's flush (the bytes are in the
//! receiver's memory), and then says so in an active message. Addresses are exchanged as UCX's own:
//! the receiver's stands in its offer, which goes over the control stream; a worker knocks there
//! with its session's key, and gets a port of its own. The messages are in docs/wire-format.md.
//!
//! **What a receiver can know.** The key of a slot lets a worker write all of it: a permission binds
//! an honest worker only, as over `shm`. `Gone` is said when the peer's port (its sockets and queue
//! pairs here) is destroyed: nothing gets in through it any more, whatever the worker does.
//!
//! **Threads.** Each port has one, since UCX's workers are of one thread; it sleeps on UCX's event
//! descriptor. Both ends choose error handling for lost peers, which switches UCX's shared memory
//! off; the `shm` link is for that.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_dylib::UCX;
use headwater_inventory::{Library, Machine};
use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkKind, LinkOffer, SessionKey};
use crate::links::{
    CardPort, ConnectOptions, Demand, Link, LinkFacts, LinkLibrary, ListenOptions, PortKind,
    Reference,
};

#[allow(unsafe_code)] // Calls the library's functions.
mod abi;
mod choices;
#[allow(unsafe_code)] // Opens the library.
mod context;
mod detect;
#[cfg(test)]
mod layout;
#[allow(unsafe_code)] // Opens the library.
mod library;
mod path;
#[allow(unsafe_code)] // Calls the library, and is called by it.
mod port;
mod probe;
mod receiver;
mod reference;
mod session;
#[allow(unsafe_code)] // Asks to be called when the process exits.
mod threads;
pub(crate) mod wire;
mod worker;

pub use choices::{DEFAULT_HANDSHAKE_TIMEOUT, DEFAULT_STAGING_BUFFERS, UcxConnect, UcxListen};
pub use detect::{detect, transports_chosen};

use receiver::UcxReceiver;
use worker::UcxWorker;

/// Opens the receiver's end. What happens on it is reported on `arrivals`, at most two per
/// admission and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: UCX is not there or has no transport, with the remedy.
pub async fn listen(
    config: &UcxListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    UcxReceiver::listen(config, arrivals).await
}

/// Connects a worker to a receiver: a probe write that the receiver has found in its memory.
///
/// # Errors
/// [`LinkError::Setup`]: as for [`listen`], or the probe did not get through.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    config: &UcxConnect,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(UcxWorker::connect(offer, key, config).await?))
}

/// The link, as the table has it.
pub(super) struct Ucx;

const FACTS: LinkFacts = LinkFacts {
    is_usual: false,
    is_everywhere: false,
    is_fallback: false,
    is_within_host: false,
    keeps_private: false,
    renders_in_slot: false,
    needs_shared_slots: false,
    takes_device_slots: false,
    imports_slots: false,
    may_write_after_gone: false,
    needs_card: false,
    superseded_by: &[LinkKind::Rdma],
    port: Some(PortKind::Card),
    library: Some(LinkLibrary {
        name: "ucx",
        dylib: &UCX,
        version: Library::ucx_version,
        remedy: "apt-get install libucx0; it is the second way to rdma, and the one on EFA",
    }),
    tuned: None,
};

// === impl Ucx ===

#[async_trait]
impl Link for Ucx {
    fn facts(&self) -> &'static LinkFacts {
        &FACTS
    }

    fn references(&self) -> &'static [Reference] {
        &[reference::PUT]
    }

    fn check(&self, options: &ConnectOptions) -> Result<(), LinkError> {
        detect(options.demand == Demand::AmongOthers).map(drop)
    }

    async fn listen(
        &self,
        options: &ListenOptions,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let rdma_only = match options.demand {
            Demand::AmongOthers => true,
            // Its sockets are no better than the tcp link.
            Demand::Only => !transports_chosen(),
            Demand::Measured => false,
        };
        let rails = std::env::var("UCX_MAX_RMA_RAILS").ok().and_then(|rails| rails.parse().ok());
        let devices = devices(
            &Machine::this(),
            &options.config.rdma_device,
            &options.near_cards,
            rails.unwrap_or(1),
        );
        listen(&UcxListen { rdma_only, devices, ..UcxListen::default() }, arrivals).await
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
        options: &ConnectOptions,
        _: &dyn Exchange,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        let choices = UcxConnect {
            handshake_timeout: options.timeout.unwrap_or(DEFAULT_HANDSHAKE_TIMEOUT),
            staging_buffers: options.staging_buffers,
            rdma_only: options.demand == Demand::AmongOthers,
            // Without a name all: it is not known over which one the receiver can be reached.
            devices: Machine::this().usable_port_names(&options.config.rdma_device),
        };
        connect(offer, key, &choices).await
    }

    fn card_port(&self, _: &ListenOptions) -> Option<CardPort> {
        None // UCX chooses, path by path.
    }

    #[cfg(feature = "conformance")]
    fn take_any(&self, bytes: &[u8]) {
        wire::take_any(bytes);
    }
}

/// Ports of RDMA cards that a receiver's UCX opens, as in `mlx5_0:1`: those of the card that is named, or of the near
/// ones, as many as UCX writes over at a time (`UCX_MAX_RMA_RAILS`, usually 1).
fn devices(machine: &Machine, named: &str, near: &[String], rails: usize) -> Vec<String> {
    let cards = if named.is_empty() { near.to_vec() } else { vec![named.to_owned()] };
    let ports = cards.iter().flat_map(|card| machine.usable_port_names(card));
    ports.take(rails.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use headwater_inventory::trees::{DGX_H100, unpack};

    use super::*;

    #[test]
    fn ucx_opens_as_many_of_the_near_cards_as_it_has_rails() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = unpack(DGX_H100, folder.path()).expect("a tree");
        let near = ["mlx5_3", "mlx5_4"].map(str::to_owned);
        let of = |device: &str, rails| devices(&machine, device, &near, rails);
        assert_eq!(of("", 1), ["mlx5_3:1"]);
        assert_eq!(of("", 2), ["mlx5_3:1", "mlx5_4:1"]);
        assert_eq!(
            (of("mlx5_4", 4), of("mlx5_4:1", 0)),
            (vec!["mlx5_4:1".into()], vec!["mlx5_4:1".into()])
        );
        assert_eq!(of("mlx5_2", 1), [""; 0], "it is down");
    }
}
