//! Framed byte stream: the worker renders in staging memory and pushes; the receiver reads the
//! payload straight into the slot; where connections are encrypted, through a buffer that is
//! deciphered. The frames are in docs/wire-format.md.
//!
//! Every part is acknowledged: the worker keeps its bytes until then, so a connection that breaks
//! is made again and unfinished parts are sent again. The receiver reads into a slot only under
//! the lease's own lock, so a withdrawal or `drop_peer` is quiet at once, also in mid-part.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::link::contract::{ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkOffer, SessionKey};

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

/// Opens the receiver's end. What happens on it is told on `arrivals`, at most two per admission
/// and two per lease, so the channel holds no more than the receiver asked for.
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
