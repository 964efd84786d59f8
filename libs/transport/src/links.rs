//! Which link: the one place that knows every kind.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkKind, LinkOffer, SessionKey};
use crate::metrics;
use crate::rdma::{self, RdmaConnect, RdmaListen};
use crate::shm::{self, ShmConnect, ShmListen};
use crate::tcp::{self, TcpConnect, TcpListen};
use crate::ucx::{self, UcxConnect, UcxListen};

/// The receiver's choices for each kind.
#[derive(Clone, Debug, Default)]
pub struct ListenChoices {
    /// What leaves the host must be encrypted: kinds that cannot are refused.
    pub encrypted_only: bool,
    /// For `shm`.
    pub shm: ShmListen,
    /// For `tcp`.
    pub tcp: TcpListen,
    /// For `rdma`.
    pub rdma: RdmaListen,
    /// For `ucx`.
    pub ucx: UcxListen,
}

/// The worker's choices for each kind. Where `tcp` takes encrypted connections only, kinds that leave
/// the host and cannot encrypt are refused.
#[derive(Clone, Debug, Default)]
pub struct ConnectChoices {
    /// For `shm`.
    pub shm: ShmConnect,
    /// For `tcp`.
    pub tcp: TcpConnect,
    /// For `rdma`.
    pub rdma: RdmaConnect,
    /// For `ucx`.
    pub ucx: UcxConnect,
}

/// Opens the receiver's end of one kind. What happens on it is told on `arrivals`, at most two per
/// admission and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: what is missing here, with the remedy.
pub async fn listen(
    kind: LinkKind,
    choices: &ListenChoices,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    metrics::describe();
    check_encryption(kind, choices.encrypted_only)?;
    match kind {
        LinkKind::Shm => shm::listen(&choices.shm, arrivals).await,
        LinkKind::Tcp => tcp::listen(&choices.tcp, arrivals).await,
        LinkKind::Ucx => ucx::listen(&choices.ucx, arrivals).await,
        LinkKind::Rdma => rdma::listen(&choices.rdma, arrivals).await,
    }
}

/// Connects a worker to the receiver's end that is offered. `exchange` is the control stream of both,
/// which `rdma` begins over.
///
/// # Errors
/// [`LinkError::Setup`]: the link cannot be had here, or does not get through.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    choices: &ConnectChoices,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    metrics::describe();
    check_encryption(offer.kind, choices.tcp.encrypted_only)?;
    match offer.kind {
        LinkKind::Shm => shm::connect(offer, key, &choices.shm).await,
        LinkKind::Tcp => tcp::connect(offer, key, &choices.tcp).await,
        LinkKind::Ucx => ucx::connect(offer, key, &choices.ucx).await,
        LinkKind::Rdma => rdma::connect(offer, key, &choices.rdma, exchange).await,
    }
}

/// Whether this machine has what a kind needs, before anybody is connected.
///
/// # Errors
/// [`LinkError::Setup`]: what is missing, with the remedy.
pub fn check(kind: LinkKind, choices: &ConnectChoices) -> Result<(), LinkError> {
    match kind {
        LinkKind::Shm | LinkKind::Tcp => Ok(()),
        LinkKind::Ucx => ucx::detect(choices.ucx.rdma_only).map(drop),
        LinkKind::Rdma => rdma::detect(&choices.rdma.port).map(drop),
    }
}

/// Memory of the host is nobody else's to read; what leaves it may have to be encrypted.
fn check_encryption(kind: LinkKind, wanted: bool) -> Result<(), LinkError> {
    match kind {
        LinkKind::Rdma | LinkKind::Ucx if wanted => {
            Err(kind.setup("it does not encrypt, and the configuration asks for it"))
        }
        _ => Ok(()),
    }
}
