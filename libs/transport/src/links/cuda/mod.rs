//! GPU to GPU on one node: the receiver exports its slots, the worker's GPU copies rows there.
//!
//! Bytes of views do not touch the host. A Unix socket (as of the shm link) carries the slots' handles, permissions,
//! withdrawals and commits; its messages are in docs/wire-format.md.
//!
//! **What is written.** Rows stay in the worker's GPU until it is known that they are final; then each is copied once.
//! What the processor made (labels, fields) lies in a buffer of the host and is copied when the part is committed. The
//! receiver hears of a part when an event behind the copies was reached.
//!
//! **What the end of the socket does not prove.** That a process has ended does not say that its GPU has stopped: copies
//! that were queued may still run. So a slot with a lease that was open at `Gone` must not be used again
//! (`LinkFacts::may_write_after_gone`): the receiver drops it and makes another under another number. The old pages
//! stay until the dead process's mapping of them is gone. A late write changes nothing for whoever still reads the old
//! slot: it has the bytes that are there.
//!
//! **What a failure of the GPU proves.** Nothing: the link is in doubt, ends, and says of no lease that it is quiet.
//!
//! Deliberately absent: CUDA. Windows and what imports them come from whoever knows GPUs.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkKind, LinkOffer, SessionKey};
use crate::links::{
    CardPort, ConnectOptions, Link, LinkFacts, LinksConfig, ListenOptions, Reference,
};

mod choices;
mod proof;
mod receiver;
pub(crate) mod wire;
mod worker;

pub use choices::{CudaConnect, CudaListen, DEFAULT_HANDSHAKE_TIMEOUT};

use receiver::CudaReceiver;
use worker::CudaWorker;

/// Opens the receiver's end; as the shm link's.
///
/// # Errors
/// [`LinkError::Setup`]: the socket cannot be made.
pub async fn listen(
    config: &CudaListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    CudaReceiver::listen(config, arrivals)
}

/// Connects a worker to a receiver of this host.
///
/// # Errors
/// [`LinkError::Setup`]: no such socket here, or this worker's GPU does not reach the receiver's.
/// [`LinkError::Refused`]: wrong key, version or user.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    config: &CudaConnect,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(CudaWorker::connect(offer, key, config).await?))
}

/// The link, as the table has it.
pub(super) struct Cuda;

const FACTS: LinkFacts = LinkFacts {
    // Until it has run on a real GPU it must be asked for.
    is_usual: false,
    is_everywhere: false,
    is_fallback: false,
    is_within_host: true,
    keeps_private: true,
    renders_in_slot: false,
    needs_shared_slots: false,
    takes_device_slots: true,
    imports_slots: true,
    may_write_after_gone: true,
    needs_card: false,
    superseded_by: &[],
    port: None,
    library: None,
    tuned: None,
};

// === impl Cuda ===

#[async_trait]
impl Link for Cuda {
    fn facts(&self) -> &'static LinkFacts {
        &FACTS
    }

    fn references(&self) -> &'static [Reference] {
        &[]
    }

    fn check(&self, options: &ConnectOptions) -> Result<(), LinkError> {
        match &options.imports {
            Some(_) => Ok(()),
            None => Err(LinkKind::Cuda.setup(
                "this worker renders on no GPU: set augment.backend = \"cuda\", or name other links",
            )),
        }
    }

    async fn listen(
        &self,
        options: &ListenOptions,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let LinksConfig { shm_socket_dir: dir, shm_allow_uids, .. } = &options.config;
        let socket_dir = (!dir.as_os_str().is_empty()).then(|| dir.clone());
        let allow_uids = shm_allow_uids.clone();
        listen(&CudaListen { socket_dir, allow_uids, ..CudaListen::default() }, arrivals).await
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
        options: &ConnectOptions,
        _: &dyn Exchange,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        self.check(options)?;
        let Some(imports) = options.imports.clone() else {
            return Err(LinkKind::Cuda.setup("this worker renders on no GPU"));
        };
        let choices = CudaConnect {
            allow_uids: options.config.shm_allow_uids.clone(),
            handshake_timeout: options.timeout.unwrap_or(DEFAULT_HANDSHAKE_TIMEOUT),
            staging_buffers: options.staging_buffers,
            imports,
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
