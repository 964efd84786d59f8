//! What may be chosen of the tcp link.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::tls::{ConnectTls, ListenTls};

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
    /// Address to listen on; port 0 takes a free one. `[::]` is all addresses, IPv4 too.
    pub bind: SocketAddr,
    /// Host that workers connect to. `None`: the bound address; where that is a wildcard, the
    /// address over which each worker is reached.
    pub advertise_host: Option<String>,
    /// Time for a new connection to present its key.
    pub handshake_timeout: Duration,
    /// Time a worker whose connection broke has to come back before it is `Gone`.
    pub reconnect_grace: Duration,
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
    /// Used where the receiver encrypts.
    pub tls: Option<ConnectTls>,
    /// Takes no offer of a receiver that does not encrypt.
    pub encrypted_only: bool,
}

// === impl TcpListen ===

impl Default for TcpListen {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            advertise_host: None,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            reconnect_grace: DEFAULT_RECONNECT_GRACE,
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
            tls: None,
            encrypted_only: false,
        }
    }
}
