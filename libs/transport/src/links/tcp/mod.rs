//! Framed byte stream: the worker renders in staging memory and pushes; the receiver reads the
//! payload straight into the slot; where connections are encrypted, through a buffer that is
//! deciphered. The frames are in docs/wire-format.md.
//!
//! Every part is acknowledged: the worker keeps its bytes until then, so a connection that breaks
//! is made again and unfinished parts are sent again. The receiver reads into a slot only under
//! the lease's own lock, so a withdrawal or `drop_peer` is quiet at once, also in mid-part.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkKind, LinkOffer, SessionKey};
use crate::links::{CardPort, ConnectOptions, Link, LinkFacts, ListenOptions, PortKind, Reference};

mod channel;
mod choices;
mod gate;
mod listening;
mod outbox;
mod receiver;
mod stream;
mod target;
mod tls;
pub(crate) mod wire;
mod worker;

pub use choices::{
    DEFAULT_HANDSHAKE_TIMEOUT, DEFAULT_RECONNECT_BACKOFF, DEFAULT_RECONNECT_GRACE,
    DEFAULT_RECONNECT_TRIES, DEFAULT_STAGING_BUFFERS, TcpConnect, TcpListen,
};
pub use tls::{ConnectTls, ListenTls};

/// The locks of [`gate`], which a test replaces.
mod sync {
    pub(super) use std::sync::Mutex;
}

use receiver::TcpReceiver;
use worker::TcpWorker;

/// Opens the receiver's end. What happens on it is reported on `arrivals`, at most two per
/// admission and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: the address cannot be bound.
pub async fn listen(
    config: &TcpListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    TcpReceiver::listen(config, arrivals)
}

/// Connects a worker to a receiver.
///
/// # Errors
/// [`LinkError::Setup`]: nothing answers at the address.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    config: &TcpConnect,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(TcpWorker::connect(offer, key, config).await?))
}

/// The link, as the table has it.
pub(super) struct Tcp;

const FACTS: LinkFacts = LinkFacts {
    is_usual: true,
    is_everywhere: true,
    is_fallback: true,
    is_within_host: false,
    keeps_private: true,
    renders_in_slot: false,
    needs_shared_slots: false,
    takes_device_slots: false,
    imports_slots: false,
    may_write_after_gone: false,
    needs_card: false,
    superseded_by: &[],
    port: Some(PortKind::Interface),
    library: None,
    tuned: None,
};

// === impl Tcp ===

#[async_trait]
impl Link for Tcp {
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
        let config = &options.config;
        let bind = config.tcp_address().map_err(|error| LinkKind::Tcp.setup(error.to_string()))?;
        let host = &config.tcp_advertise;
        let advertise_host = (!host.is_empty()).then(|| host.clone());
        let tls = options.tls.clone();
        listen(&TcpListen { bind, advertise_host, tls, ..TcpListen::default() }, arrivals).await
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
        options: &ConnectOptions,
        _: &dyn Exchange,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        let choices = TcpConnect {
            tls: options.tls.clone(),
            encrypted_only: options.encrypted_only,
            handshake_timeout: options.timeout.unwrap_or(DEFAULT_HANDSHAKE_TIMEOUT),
            staging_buffers: options.staging_buffers,
            ..TcpConnect::default()
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
