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

use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkKind, LinkOffer, SessionKey};

mod adapter;
mod address;
mod choices;
mod connection;
#[cfg(test)]
mod detection;
#[allow(unsafe_code)] // Posts what it owns.
mod lane;
mod locked;
mod path;
mod probe;
mod reach;
mod receiver;
mod receiver_port;
mod session;
mod slot;
mod verbs;
pub(crate) mod wire;
mod worker;

pub use adapter::RdmaPort;
pub use choices::{
    Chosen, DEFAULT_HANDSHAKE_TIMEOUT, DEFAULT_STAGING_BUFFERS, RdmaConnect, RdmaListen,
};
pub use wire::QUEUE_PAIRS_MAX;

use adapter::Adapter;
use connection::Connection;

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
    receiver::RdmaReceiver::listen(config, arrivals)
}

/// Connects a worker to a receiver: pairs ready to send, and a probe write over each that the
/// receiver has found in its memory.
///
/// # Errors
/// [`LinkError::Setup`]: as for [`listen`], or the probe did not get through.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    config: &RdmaConnect,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    Ok(Arc::new(worker::RdmaWorker::connect(offer, key, config, exchange).await?))
}

/// Whether this machine has what the link needs, and which port it would take.
///
/// # Errors
/// As for [`listen`].
pub fn detect(port: &RdmaPort) -> Result<String, LinkError> {
    Ok(opened(port)?.describe())
}

/// The port that the link would take.
///
/// # Errors
/// As for [`listen`].
pub fn chosen(port: &RdmaPort) -> Result<Chosen, LinkError> {
    let adapter = opened(port)?;
    let route = adapter.route(None).map_err(|reason| LinkKind::Rdma.setup(reason))?;
    let device = adapter.device().name().to_owned();
    Ok(Chosen { device, port: adapter.port, gid_index: route.path.gid_index })
}

fn opened(port: &RdmaPort) -> Result<Arc<Adapter>, LinkError> {
    let found = Adapter::open(port, None, Connection::try_out);
    found.map_err(|reason| LinkKind::Rdma.setup(reason))
}
