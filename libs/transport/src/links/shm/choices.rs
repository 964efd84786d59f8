//! What may be chosen of the shm link.

use std::path::PathBuf;
use std::time::Duration;

/// Time a connecting worker and a receiver give each other to exchange hello and answer.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The receiver's choices.
#[derive(Clone, Debug)]
pub struct ShmListen {
    /// Directory for the socket. `None`: a name in the abstract namespace, which leaves no file but
    /// is only seen within one network namespace; containers need a shared directory.
    pub socket_dir: Option<PathBuf>,
    /// Users whose workers are let in, beside the receiver's own and root.
    pub allow_uids: Vec<u32>,
    /// Time for a new connection to present its key.
    pub handshake_timeout: Duration,
}

/// The worker's choices.
#[derive(Clone, Debug)]
pub struct ShmConnect {
    /// Users whose receivers are connected to, beside the worker's own and root: a receiver chooses
    /// the memory that this process writes to.
    pub allow_uids: Vec<u32>,
    /// Time for the receiver to answer.
    pub handshake_timeout: Duration,
}

// === impl ShmListen ===

impl Default for ShmListen {
    fn default() -> Self {
        Self {
            socket_dir: None,
            allow_uids: Vec::new(),
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
        }
    }
}

// === impl ShmConnect ===

impl Default for ShmConnect {
    fn default() -> Self {
        Self { allow_uids: Vec::new(), handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT }
    }
}
