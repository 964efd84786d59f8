//! What may be chosen of the cuda link.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::window::DeviceImports;

/// Time a connecting worker and a receiver give each other for each step of the beginning.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a worker has to let go of the slots after the receiver has dropped it.
const DEFAULT_LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The receiver's choices.
#[derive(Clone, Debug)]
pub struct CudaListen {
    /// Directory for the socket. `None`: a name in the abstract namespace.
    pub socket_dir: Option<PathBuf>,
    /// Users whose workers are let in, beside the receiver's own and root.
    pub allow_uids: Vec<u32>,
    /// Time for a new connection to present its key, and again to show that it reaches the GPU.
    pub handshake_timeout: Duration,
    /// Time for a worker to let go after it was dropped. One that hangs for longer counts as gone, as one that was
    /// killed: slots that it had leases on are made anew.
    pub leave_timeout: Duration,
}

/// The worker's choices.
#[derive(Clone)]
pub struct CudaConnect {
    /// Users whose receivers are connected to, beside the worker's own and root.
    pub allow_uids: Vec<u32>,
    /// Time for the receiver to answer.
    pub handshake_timeout: Duration,
    /// Buffers: `begin` waits when all are in use.
    pub staging_buffers: usize,
    /// What takes the receiver's memory.
    pub imports: Arc<dyn DeviceImports>,
}

// === impl CudaListen ===

impl Default for CudaListen {
    fn default() -> Self {
        let handshake_timeout = DEFAULT_HANDSHAKE_TIMEOUT;
        let leave_timeout = DEFAULT_LEAVE_TIMEOUT;
        Self { socket_dir: None, allow_uids: Vec::new(), handshake_timeout, leave_timeout }
    }
}

// === impl CudaConnect ===

impl fmt::Debug for CudaConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaConnect").field("imports", &self.imports).finish_non_exhaustive()
    }
}
