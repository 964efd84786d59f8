//! Framed byte stream: the worker renders in staging memory and pushes; the receiver reads the
//! payload straight into the slot; where connections are encrypted, through a buffer that is
//! deciphered. The frames are in docs/wire-format.md.
//!
//! Every part is acknowledged: the worker keeps its bytes until then, so a connection that breaks
//! is made again and unfinished parts are sent again. The receiver reads into a slot only under
//! the lease's own lock, so a withdrawal or `drop_peer` is quiet at once, also in mid-part.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::contract::{Arrival, LinkError, LinkOffer, ReceiverLink, SessionKey, WorkerLink};

mod gate;
mod ledger;
mod outbox;
mod receiver;
mod stream;
mod target;
mod tls;
pub(crate) mod wire;
mod worker;

pub use tls::{ConnectTls, ListenTls};

/// The locks of [`gate`], which a test replaces.
mod sync {
    pub(super) use std::sync::Mutex;
}

use receiver::TcpReceiver;
use worker::TcpWorker;

/// Time a connecting worker and a receiver give each other to exchange hello and answer.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time a receiver waits for a worker whose connection broke.
pub const DEFAULT_RECONNECT_GRACE: Duration = Duration::from_secs(10);
/// Times a worker tries to connect again before the link is closed.
pub const DEFAULT_RECONNECT_TRIES: u32 = 6;
/// Pause before the second try to connect again; doubles with each further one.
pub const DEFAULT_RECONNECT_BACKOFF: Duration = Duration::from_millis(100);
/// Parts a worker holds for one receiver: being rendered, being sent, not yet acknowledged.
pub const DEFAULT_STAGING_BUFFERS: usize = 6;

/// The receiver's choices.
#[derive(Clone, Debug)]
pub struct TcpListen {
    /// Address to listen on; port 0 takes a free one.
    pub bind: SocketAddr,
    /// Host that workers are told to connect to. `None`: the bound address, or this host's name
    /// where that is a wildcard.
    pub advertise_host: Option<String>,
    /// Time for a new connection to present its key.
    pub handshake_timeout: Duration,
    /// Time a worker whose connection broke has to come back before it is `Gone`.
    pub reconnect_grace: Duration,
    /// Size of the socket's buffer. `None` leaves it to the kernel, which grows it as needed up
    /// to `net.ipv4.tcp_rmem`; a number is capped by `net.core.rmem_max`.
    pub socket_buffer_bytes: Option<usize>,
    /// Encrypts every connection. `None`: bytes travel as they are.
    pub tls: Option<ListenTls>,
}

/// The worker's choices.
#[derive(Clone, Debug)]
pub struct TcpConnect {
    /// Time for the receiver to answer.
    pub handshake_timeout: Duration,
    /// Buffers of this link: `begin` waits when all are in use.
    pub staging_buffers: usize,
    /// Tries to connect again after a break.
    pub reconnect_tries: u32,
    /// Pause before the second try; doubles with each further one.
    pub reconnect_backoff: Duration,
    /// Size of the socket's buffer; see [`TcpListen::socket_buffer_bytes`], with `wmem`.
    pub socket_buffer_bytes: Option<usize>,
    /// Used where the receiver encrypts.
    pub tls: Option<ConnectTls>,
    /// Takes no offer of a receiver that does not encrypt.
    pub encrypted_only: bool,
}

/// Opens the receiver's end. What happens on it is told on `arrivals`, at most two per admission
/// and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: the address cannot be bound.
pub async fn listen(
    config: &TcpListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    Ok(Arc::new(TcpReceiver::listen(config, arrivals).await?))
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

// === impl TcpListen ===

impl Default for TcpListen {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([0, 0, 0, 0], 0)),
            advertise_host: None,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            reconnect_grace: DEFAULT_RECONNECT_GRACE,
            socket_buffer_bytes: None,
            tls: None,
        }
    }
}

// === impl TcpConnect ===

impl Default for TcpConnect {
    fn default() -> Self {
        Self {
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            staging_buffers: DEFAULT_STAGING_BUFFERS,
            reconnect_tries: DEFAULT_RECONNECT_TRIES,
            reconnect_backoff: DEFAULT_RECONNECT_BACKOFF,
            socket_buffer_bytes: None,
            tls: None,
            encrypted_only: false,
        }
    }
}
