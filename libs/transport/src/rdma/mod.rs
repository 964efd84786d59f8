//! One-sided writes: the receiver's slots are registered with its network card once, the worker
//! renders in registered memory, and its card puts each region of a part in its place. The last
//! write carries the lease's number, which the receiver awaits as a completion. No byte is copied
//! on either side, and the receiver's processor sees none.
//!
//! Queue pairs are exchanged over the control stream, which knows who is who ([`Exchange`]);
//! permissions, withdrawals and goodbyes are messages over the first pair, so that they keep the
//! order of what is written. The formats are in docs/wire-format.md, what machines need in
//! docs/rdma.md.
//!
//! **What a receiver can know.** The key of a slot lets a worker write all of it: a permission
//! binds an honest worker only, as over `shm`. A dead worker may show nothing here (a card sends
//! again for seconds, and says nothing while there is nothing to send): the control stream's
//! heartbeats decide, and `drop_peer` stops the pairs, waits for what they flush and destroys
//! them. After that no card writes on their behalf, whatever the worker does: `Gone` says so.
//!
//! **Order.** Within one pair parts arrive as they were committed. With several, a part committed
//! after another was delivered comes after it; parts under way at one time may change places.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::contract::{Arrival, LinkError, LinkKind, ReceiverLink, SessionKey, WorkerLink};

mod adapter;
mod connection;
#[cfg(test)]
mod detection;
#[allow(unsafe_code)] // Posts what it owns.
mod lane;
mod ledger;
mod locked;
mod permissions;
mod reach;
mod receiver;
mod rendering;
mod session;
pub mod ucx;
mod verbs;
pub(crate) mod wire;
mod worker;

pub use adapter::RdmaPort;
pub(crate) use locked::registration_failure;
pub(crate) use rendering::Rendering;
pub(crate) use verbs::{MemoryRegion, ProtectionDomain, Writers};
pub use wire::QUEUE_PAIRS_MAX;

use adapter::Adapter;
use connection::Connection;
use receiver::RdmaReceiver;
use worker::RdmaWorker;

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
    /// Queue pairs that parts are spread over; at most [`QUEUE_PAIRS_MAX`].
    pub queue_pairs: u32,
    /// Bytes that one buffer is thought to need: the limit of locked memory is compared with it.
    pub part_bytes: u64,
}

/// The port that a choice leads to.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// `mlx5_0`.
    pub device: String,
    /// Number of the port, from 1.
    pub port: u8,
    /// Index of its address.
    pub gid_index: u8,
}

/// The control stream, as far as a connecting worker needs it: passes a request to the receiver's
/// [`ReceiverLink::answer`] and its answer back.
#[async_trait]
pub trait Exchange: Send + Sync {
    /// # Errors
    /// The control stream is gone.
    async fn exchange(&self, request: Vec<u8>) -> Result<Vec<u8>, LinkError>;
}

/// Opens the receiver's end. What happens on it is told on `arrivals`, at most two per admission
/// and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: what is missing here (library, device, active port, address), with the
/// remedy.
pub async fn listen(
    config: &RdmaListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    Ok(Arc::new(RdmaReceiver::listen(config, arrivals)?))
}

/// Connects a worker to a receiver: pairs ready to send, and a probe write over each that the
/// receiver has found in its memory.
///
/// # Errors
/// [`LinkError::Setup`]: as for [`listen`], or the probe did not get through.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    key: &SessionKey,
    config: &RdmaConnect,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(RdmaWorker::connect(key, config, exchange).await?))
}

/// Whether this machine has what the link needs, and which port it would take.
///
/// # Errors
/// As for [`listen`].
pub fn detect(port: &RdmaPort) -> Result<String, LinkError> {
    let adapter = Adapter::open(port).map_err(setup)?;
    Connection::try_out(&adapter).map_err(setup)?;
    Ok(adapter.describe())
}

/// The port that the link would take.
///
/// # Errors
/// As for [`listen`].
pub fn chosen(port: &RdmaPort) -> Result<Chosen, LinkError> {
    let adapter = Adapter::open(port).map_err(setup)?;
    let device = adapter.domain.device().name().to_owned();
    Ok(Chosen { device, port: adapter.path.port, gid_index: adapter.path.gid_index })
}

fn setup(reason: String) -> LinkError {
    LinkError::Setup { kind: LinkKind::Rdma, reason }
}

/// What the worker writes over a pair and the receiver looks for: the session's key, turned by
/// the pair's number.
fn probe_pattern(key: &[u8; 32], pair: usize) -> Vec<u8> {
    key.iter().map(|byte| byte ^ pair as u8 ^ 0x5a).collect()
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
