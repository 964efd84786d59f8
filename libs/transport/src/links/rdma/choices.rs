//! What may be chosen of the rdma link.

use std::time::Duration;

use super::adapter::RdmaPort;

/// Time for a path to be made and probed.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Parts a worker holds for one receiver: being rendered, being written.
pub const DEFAULT_STAGING_BUFFERS: usize = 6;

/// The receiver's choices.
#[derive(Clone, Debug)]
pub struct RdmaListen {
    /// Which port.
    pub port: RdmaPort,
    /// Time for a worker that asked to write its probe.
    pub handshake_timeout: Duration,
    /// Bytes of all slots that will be added: the limit of locked memory is compared with it.
    pub slots_bytes: u64,
}

/// The worker's choices.
#[derive(Clone, Debug)]
pub struct RdmaConnect {
    /// Which port.
    pub port: RdmaPort,
    /// Time for the receiver to answer and to see the probe.
    pub handshake_timeout: Duration,
    /// Buffers of this link: `begin` waits when all are in use.
    pub staging_buffers: usize,
    /// Queue pairs that parts are spread over; at most `QUEUE_PAIRS_MAX`.
    pub queue_pairs: u32,
    /// Bytes that one buffer is thought to need: the limit of locked memory is compared with it.
    pub part_bytes: u64,
}

// === impl RdmaListen ===

impl Default for RdmaListen {
    fn default() -> Self {
        Self {
            port: RdmaPort::default(),
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            slots_bytes: 0,
        }
    }
}

// === impl RdmaConnect ===

impl Default for RdmaConnect {
    fn default() -> Self {
        Self {
            port: RdmaPort::default(),
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            staging_buffers: DEFAULT_STAGING_BUFFERS,
            queue_pairs: 1,
            part_bytes: 0,
        }
    }
}
