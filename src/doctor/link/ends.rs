//! Opening the two ends of links.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use headwater_inventory::Machine;
use headwater_transport::rdma::ucx::{self, UcxConnect, UcxListen};
use headwater_transport::rdma::{self, Exchange, RdmaConnect, RdmaListen};
use headwater_transport::shm::{self, ShmConnect, ShmListen};
use headwater_transport::tcp::{self, TcpConnect, TcpListen};
use headwater_transport::{
    Arrival, LinkError, LinkKind, LinkOffer, ReceiverLink, SessionKey, SlotMemory, WorkerLink,
};
use tokio::sync::{Mutex, mpsc};

use super::control::{Answered, Ask, Control, Rates};
use super::{PART_BYTES, PARTS_AT_ONCE, PEER, SLOT};
use crate::config::Config;

/// A receiver's end.
pub(super) struct Opened {
    pub(super) link: Arc<dyn ReceiverLink>,
    pub(super) key: SessionKey,
    pub(super) arrivals: mpsc::UnboundedReceiver<Arrival>,
}

/// Opens every link that can be had, with one slot for all; and a sentence on each that cannot.
pub(super) async fn open(config: &Config, local: IpAddr) -> (Vec<Opened>, Vec<String>) {
    let receiver = &config.receiver;
    let bytes = PART_BYTES * PARTS_AT_ONCE;
    let memory = match SlotMemory::shared(&receiver.shm_dir, bytes, false) {
        Ok(memory) => Arc::new(memory),
        Err(error) => return (Vec::new(), vec![error.to_string()]),
    };
    let (mut opened, mut closed) = (Vec::new(), Vec::new());
    let named = |kind: LinkKind| receiver.links.iter().any(|link| link == kind.name());
    for kind in [LinkKind::Shm, LinkKind::Rdma, LinkKind::Ucx, LinkKind::Tcp] {
        let has_rdma = opened.iter().any(|opened: &Opened| opened.link.kind() == LinkKind::Rdma);
        if kind == LinkKind::Ucx && has_rdma && !named(kind) {
            // A receiver does not offer it either; and UCX may take its time over a card.
            closed.push("ucx is left out beside rdma: name it in receiver.links there".to_owned());
            continue;
        }
        match open_one(config, kind, local, &memory).await {
            Ok(link) => opened.push(link),
            Err(error) => closed.push(error.to_string()),
        }
    }
    (opened, closed)
}

async fn open_one(
    config: &Config,
    kind: LinkKind,
    local: IpAddr,
    memory: &Arc<SlotMemory>,
) -> Result<Opened, LinkError> {
    let (sender, arrivals) = mpsc::unbounded_channel();
    let link = match kind {
        LinkKind::Shm => {
            let dir = &config.receiver.shm_socket_dir;
            let socket_dir = (!dir.as_os_str().is_empty()).then(|| dir.clone());
            shm::listen(&ShmListen { socket_dir, ..ShmListen::default() }, sender).await?
        }
        LinkKind::Tcp => {
            // Where the control connection came in, data can too.
            let bind = SocketAddr::new(local, 0);
            tcp::listen(&TcpListen { bind, ..TcpListen::default() }, sender).await?
        }
        LinkKind::Ucx => {
            // Over sockets it says nothing of the machine, but to who has chosen it.
            let chosen = config.receiver.links.iter().any(|link| link == kind.name());
            let choices = UcxListen { rdma_only: !chosen, ..UcxListen::default() };
            ucx::listen(&choices, sender).await?
        }
        LinkKind::Rdma => {
            let (port, slots_bytes) = (config.receiver.rdma_port(), memory.len_bytes());
            rdma::listen(&RdmaListen { port, slots_bytes, ..RdmaListen::default() }, sender).await?
        }
    };
    let setup = |error: std::io::Error| LinkError::Setup { kind, reason: error.to_string() };
    let key = SessionKey::random().map_err(setup)?;
    link.add_slot(SLOT, Arc::clone(memory))?;
    link.admit(PEER, key.clone());
    Ok(Opened { link, key, arrivals })
}

/// The worker's end. `number` is the link's place in the other side's list.
pub(super) async fn connect(
    config: &Config,
    offer: &LinkOffer,
    key: &SessionKey,
    number: usize,
    control: &mut Control,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    let staging_buffers = PARTS_AT_ONCE as usize + 2;
    match offer.kind {
        LinkKind::Shm => shm::connect(offer, key, &ShmConnect::default()).await,
        LinkKind::Tcp => {
            tcp::connect(offer, key, &TcpConnect { staging_buffers, ..TcpConnect::default() }).await
        }
        LinkKind::Ucx => {
            ucx::connect(offer, key, &UcxConnect { staging_buffers, ..UcxConnect::default() }).await
        }
        LinkKind::Rdma => {
            let augment = &config.augment;
            let choices = RdmaConnect {
                port: augment.rdma_port(),
                staging_buffers,
                queue_pairs: augment.rdma_queue_pairs,
                part_bytes: PART_BYTES,
                ..RdmaConnect::default()
            };
            let control = Mutex::new(control);
            rdma::connect(key, &choices, &Conversation { control, number }).await
        }
    }
}

/// A connecting link's way to the other end of it.
struct Conversation<'a> {
    control: Mutex<&'a mut Control>,
    number: usize,
}

#[async_trait]
impl Exchange for Conversation<'_> {
    async fn exchange(&self, request: Vec<u8>) -> Result<Vec<u8>, LinkError> {
        let mut control = self.control.lock().await;
        let asked = async {
            control.say(&Ask::Link { link: self.number, request }).await?;
            control.heard().await
        };
        let closed = |error: anyhow::Error| LinkError::Closed {
            kind: LinkKind::Rdma,
            reason: format!("{error:#}"),
        };
        let Answered(answer) = asked.await.map_err(closed)?;
        Ok(answer)
    }
}

/// Rates of this host's ports on the way to `peer`.
pub(super) fn rates(machine: &Machine, peer: IpAddr) -> Rates {
    let devices = machine.rdma_devices();
    let ports = devices.iter().flat_map(|device| device.usable_ports());
    let rdma = ports.filter_map(|port| port.rate_gbit).max_by(f64::total_cmp);
    let tcp = machine.interface_to(peer).and_then(|interface| interface.rate_gbit);
    Rates { tcp, rdma }
}

/// A word for this host and this boot of it.
pub(super) fn host() -> String {
    headwater_storage_client::host_id().to_owned()
}
