//! What may be chosen of the ucx link.

use std::time::Duration;

/// Time for a path to be made and probed.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Parts a worker holds for one receiver: being rendered, being written.
pub const DEFAULT_STAGING_BUFFERS: usize = 6;

/// The receiver's choices. Which transports UCX takes, `UCX_*` in the environment says.
#[derive(Clone, Debug)]
pub struct UcxListen {
    /// Time for a worker that knocked to write its probe.
    pub handshake_timeout: Duration,
    /// Refuses a UCX that has no transport over an RDMA card.
    pub rdma_only: bool,
    /// As [`UcxConnect::devices`].
    pub devices: Vec<String>,
}

/// The worker's choices.
#[derive(Clone, Debug)]
pub struct UcxConnect {
    /// Time for the receiver to answer and to see the probe.
    pub handshake_timeout: Duration,
    /// Buffers of this link: `begin` waits when all are in use.
    pub staging_buffers: usize,
    /// Refuses a UCX that has no transport over an RDMA card.
    pub rdma_only: bool,
    /// Ports of RDMA cards that UCX opens, as in `mlx5_0:1`. Empty, or with `UCX_NET_DEVICES` in the environment: as
    /// UCX chooses, which is all.
    pub devices: Vec<String>,
}

// === impl UcxListen ===

impl Default for UcxListen {
    fn default() -> Self {
        let (handshake_timeout, devices) = (DEFAULT_HANDSHAKE_TIMEOUT, Vec::new());
        Self { handshake_timeout, rdma_only: false, devices }
    }
}

// === impl UcxConnect ===

impl Default for UcxConnect {
    fn default() -> Self {
        Self {
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            staging_buffers: DEFAULT_STAGING_BUFFERS,
            rdma_only: false,
            devices: Vec::new(),
        }
    }
}
