//! Shared memory on one host: the worker maps the receiver's slots and renders in them.
//!
//! Bytes do not travel; a Unix socket (SOCK_SEQPACKET, one packet a message) carries the slots'
//! file descriptors, permissions, withdrawals and commits. Its messages are in
//! docs/wire-format.md.
//!
//! **What a worker can know.** A receiver chooses the memory that a worker writes to. So a worker
//! connects only to receivers of its own user, of root and of the configured users, and takes memory
//! that is sealed against being made shorter: a write to memory that is gone would kill the process.
//!
//! **What a receiver can know.** A worker maps whole slots, so a permission binds an honest worker
//! only: whoever may connect (right user, right key) is trusted with the slots. The socket is the
//! proof of life: the worker closes it after its last mapping is gone, and the kernel closes it
//! only when the last thread of a dead worker has left its memory. So the end of the stream means
//! that no byte can be written any more, and nothing less does: a stopped (SIGSTOP) worker stays
//! open until it goes on or dies, and `drop_peer`, which cannot take a mapping away from another
//! process, asks the worker to leave and reports `Gone` when it has. Until then the receiver
//! keeps the slots of its open leases out of use.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkOffer, SessionKey};
use crate::links::{
    CardPort, ConnectOptions, Link, LinkFacts, LinksConfig, ListenOptions, Reference,
};

mod choices;
mod receiver;
mod slot;
pub(crate) mod wire;
mod worker;

pub use choices::{DEFAULT_HANDSHAKE_TIMEOUT, ShmConnect, ShmListen};

use receiver::ShmReceiver;
use worker::ShmWorker;

/// Opens the receiver's end. What happens on it is reported on `arrivals`, at most two per
/// admission and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: the socket cannot be made.
pub async fn listen(
    config: &ShmListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    ShmReceiver::listen(config, arrivals)
}

/// Connects a worker to a receiver of this host.
///
/// # Errors
/// [`LinkError::Setup`]: no such socket here (another host or namespace).
/// [`LinkError::Refused`]: wrong key, version or user.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    config: &ShmConnect,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(ShmWorker::connect(offer, key, config).await?))
}

/// The link, as the table has it.
pub(super) struct Shm;

const FACTS: LinkFacts = LinkFacts {
    is_usual: true,
    is_everywhere: true,
    // A worker with a limit of its address space maps no slot.
    is_fallback: false,
    is_within_host: true,
    keeps_private: true,
    renders_in_slot: true,
    needs_shared_slots: true,
    takes_device_slots: false,
    imports_slots: false,
    may_write_after_gone: false,
    needs_card: false,
    superseded_by: &[],
    port: None,
    library: None,
    tuned: None,
};

// === impl Shm ===

#[async_trait]
impl Link for Shm {
    fn facts(&self) -> &'static LinkFacts {
        &FACTS
    }

    fn references(&self) -> &'static [Reference] {
        &[]
    }

    fn check(&self, _: &ConnectOptions) -> Result<(), LinkError> {
        Ok(())
    }

    async fn listen(
        &self,
        options: &ListenOptions,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let LinksConfig { shm_socket_dir: dir, shm_allow_uids, .. } = &options.config;
        let socket_dir = (!dir.as_os_str().is_empty()).then(|| dir.clone());
        let allow_uids = shm_allow_uids.clone();
        listen(&ShmListen { socket_dir, allow_uids, ..ShmListen::default() }, arrivals).await
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
        options: &ConnectOptions,
        _: &dyn Exchange,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        let choices = ShmConnect {
            allow_uids: options.config.shm_allow_uids.clone(),
            handshake_timeout: options.timeout.unwrap_or(DEFAULT_HANDSHAKE_TIMEOUT),
        };
        connect(offer, key, &choices).await
    }

    fn card_port(&self, _: &ListenOptions) -> Option<CardPort> {
        None
    }

    #[cfg(feature = "conformance")]
    fn take_any(&self, bytes: &[u8]) {
        wire::take_any(bytes);
    }
}
