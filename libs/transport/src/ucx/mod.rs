//! One-sided writes by UCX, which finds its own way over whatever transports a machine has: several
//! ports at once, RDMA by verbs, and sockets. The library is opened while the program runs.
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

use tokio::sync::mpsc;

use crate::link::contract::{ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkOffer, SessionKey};

#[allow(unsafe_code)] // Calls the library's functions.
mod abi;
mod choices;
#[allow(unsafe_code)] // Opens the library.
mod context;
mod detect;
#[cfg(test)]
mod layout;
#[allow(unsafe_code)] // Opens the library.
mod library;
mod path;
#[allow(unsafe_code)] // Calls the library, and is called by it.
mod port;
mod probe;
mod receiver;
mod session;
#[allow(unsafe_code)] // Asks to be called when the process exits.
mod threads;
pub(crate) mod wire;
mod worker;

pub use choices::{DEFAULT_HANDSHAKE_TIMEOUT, DEFAULT_STAGING_BUFFERS, UcxConnect, UcxListen};
pub use detect::{detect, transports_chosen};

use receiver::UcxReceiver;
use worker::UcxWorker;

/// Opens the receiver's end. What happens on it is told on `arrivals`, at most two per admission
/// and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: UCX is not there or has no transport, with the remedy.
pub async fn listen(
    config: &UcxListen,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    UcxReceiver::listen(config, arrivals).await
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
