//! One-sided writes by UCX, which finds its own way over whatever transports a machine has: several
//! ports at once, EFA, RDMA by verbs, and sockets. The library is opened while the program runs.
//!
//! The worker puts each region of a part to its place, waits for UCX's flush (the bytes are in the
//! receiver's memory), and then says so in an active message. Addresses are exchanged as UCX's own:
//! the receiver's stands in its offer, which goes over the control stream; a worker knocks there
//! with its session's key, and gets a port of its own. The messages are in docs/wire-format.md.
//!
//! **What a receiver can know.** The key of a slot lets a worker write all of it: a permission binds
//! an honest worker only, as over `shm`. `Gone` is said when the peer's port (its sockets and queue
//! pairs here) is destroyed: nothing gets in through it any more, whatever the worker does.
//!
//! **Threads.** Each port has one, since UCX's workers are of one thread; it sleeps on UCX's event
//! descriptor. Both ends choose error handling for lost peers, which switches UCX's shared memory
//! off; the `shm` link is for that.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::contract::{
    Arrival, LinkError, LinkKind, LinkOffer, ReceiverLink, SessionKey, WorkerLink,
};

#[allow(unsafe_code)] // Calls the library's functions.
mod abi;
#[allow(unsafe_code)] // Opens the library.
mod context;
#[cfg(test)]
mod layout;
mod ledger;
#[allow(unsafe_code)] // Opens the library.
mod library;
mod path;
#[allow(unsafe_code)] // Calls the library, and is called by it.
mod port;
mod receiver;
mod session;
pub(crate) mod wire;
mod worker;

use context::Context;
use receiver::UcxReceiver;
pub(crate) use session::Rendering;
use worker::UcxWorker;

/// Time for a path to be made and probed.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Where Linux lists RDMA devices, EFA's among them.
const RDMA_DEVICES: &str = "/sys/class/infiniband";
const SOCKETS: &str = "UCX's own sockets are no substitute: they end a receiver's process when a \
                       worker dies in mid-write. Take the tcp link, or name UCX_TLS=tcp and the \
                       ucx link alone to try them all the same";
/// Parts a worker holds for one receiver: being rendered, being written.
pub const DEFAULT_STAGING_BUFFERS: usize = 6;

/// The receiver's choices. Which transports and devices UCX takes, `UCX_*` in the environment says.
#[derive(Clone, Debug)]
pub struct UcxListen {
    /// Time for a worker that knocked to write its probe.
    pub handshake_timeout: Duration,
    /// Refuses a UCX that has no transport over an RDMA card.
    pub rdma_only: bool,
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
}

/// Opens the receiver's end. What happens on it is told on `arrivals`, at most two per admission
/// and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: UCX is not there or has no transport, with the remedy.
pub async fn listen(
    config: &UcxListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    Ok(Arc::new(UcxReceiver::listen(config, arrivals).await?))
}

/// Connects a worker to a receiver: a probe write that the receiver has found in its memory.
///
/// # Errors
/// [`LinkError::Setup`]: as for [`listen`], or the probe did not get through.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    config: &UcxConnect,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(UcxWorker::connect(offer, key, config).await?))
}

/// Whether this machine has UCX, and which transports it would take.
///
/// # Errors
/// As for [`listen`].
pub fn detect(rdma_only: bool) -> Result<String, LinkError> {
    open(rdma_only).map(|context| context.describe())
}

/// Whether `UCX_TLS` names the transports to take. Over its sockets UCX emulates one-sided writes,
/// and the emulation ends the process that is written to when its peer dies in mid-write (seen with
/// 1.13.1: `ucp_progress_rma_cmpl` hands an error to `ucp_request_send`, which calls that fatal):
/// nobody is to get that who has not chosen it.
#[must_use]
pub fn transports_chosen() -> bool {
    std::env::var_os("UCX_TLS").is_some_and(|names| !names.is_empty())
}

fn open(rdma_only: bool) -> Result<Arc<Context>, LinkError> {
    let devices = || std::fs::read_dir(RDMA_DEVICES).into_iter().flatten();
    if rdma_only && devices().next().is_none() {
        // UCX stays in the process once it is loaded: not for nothing.
        return Err(setup(format!("no RDMA device in {RDMA_DEVICES}; {SOCKETS}")));
    }
    let context = Context::open().map_err(setup)?;
    if rdma_only && !context.has_rdma() {
        let found = context.describe();
        return Err(setup(format!(
            "no transport over an RDMA card ({found}): install UCX with ib, and look at UCX_TLS, \
             UCX_NET_DEVICES and the card's port; {SOCKETS}"
        )));
    }
    tracing::debug!(found = context.describe(), "UCX is there");
    Ok(context)
}

fn setup(reason: String) -> LinkError {
    LinkError::Setup { kind: LinkKind::Ucx, reason }
}

/// What the worker writes and the receiver looks for: the session's key, turned.
fn probe_pattern(key: &[u8; 32]) -> Vec<u8> {
    key.iter().map(|byte| byte ^ 0x5a).collect()
}

// === impl UcxListen ===

impl Default for UcxListen {
    fn default() -> Self {
        Self { handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT, rdma_only: false }
    }
}

// === impl UcxConnect ===

impl Default for UcxConnect {
    fn default() -> Self {
        Self {
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            staging_buffers: DEFAULT_STAGING_BUFFERS,
            rdma_only: false,
        }
    }
}
