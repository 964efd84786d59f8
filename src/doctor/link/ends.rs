//! Opening the two ends of links.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use headwater_config::Config;
use headwater_inventory::Machine;
use headwater_transport::links::{self, ConnectChoices, ListenChoices};
use headwater_transport::rdma::{self, RdmaConnect, RdmaListen, RdmaPort};
use headwater_transport::shm::{ShmConnect, ShmListen};
use headwater_transport::tcp::{TcpConnect, TcpListen};
use headwater_transport::ucx::{UcxConnect, UcxListen};
use headwater_transport::{
    Arrival, Exchange, LinkError, LinkKind, LinkOffer, PeerId, ReceiverLink, SessionKey,
    SlotMemory, WorkerLink,
};
use tokio::sync::{Mutex, mpsc};

use super::control::{Answered, Ask, Control, Rates};
use super::{PART_BYTES, PARTS_AT_ONCE, QUEUE_PAIRS, SLOT};

/// A receiver's end.
pub(super) struct Opened {
    pub(super) link: Arc<dyn ReceiverLink>,
    /// Who may connect, one after the other.
    pub(super) admitted: Vec<(PeerId, SessionKey)>,
    pub(super) arrivals: mpsc::UnboundedReceiver<Arrival>,
}

/// Opens every available link, with one slot for all of them. Returns a sentence for each link
/// that is not available.
pub(super) async fn open(config: &Config, local: IpAddr) -> (Vec<Opened>, Vec<String>) {
    let receiver = &config.receiver;
    let bytes = PART_BYTES * PARTS_AT_ONCE;
    let memory = match SlotMemory::shared(bytes, false) {
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
    let receiver = &config.receiver;
    let dir = &receiver.shm_socket_dir;
    let socket_dir = (!dir.as_os_str().is_empty()).then(|| dir.clone());
    // Over sockets ucx says nothing of the machine, but to who has chosen it.
    let chosen = receiver.links.iter().any(|link| link == LinkKind::Ucx.name());
    let (port, slots_bytes) = (receiver.rdma_port(), memory.len_bytes());
    let choices = ListenChoices {
        shm: ShmListen {
            socket_dir,
            allow_uids: receiver.shm_allow_uids.clone(),
            ..ShmListen::default()
        },
        // Where the control connection came in, data can too.
        tcp: TcpListen { bind: SocketAddr::new(local, 0), ..TcpListen::default() },
        ucx: UcxListen {
            rdma_only: !chosen,
            devices: receiver.ucx_devices(),
            ..UcxListen::default()
        },
        rdma: RdmaListen { port, slots_bytes, ..RdmaListen::default() },
        ..ListenChoices::default()
    };
    let link = links::listen(kind, &choices, sender).await?;
    let setup = |error: std::io::Error| LinkError::Setup { kind, reason: error.to_string() };
    link.add_slot(SLOT, Arc::clone(memory))?;
    let mut admitted = Vec::new();
    // Those of the list, and those that the other side is configured to have.
    let sessions = if kind == LinkKind::Rdma { QUEUE_PAIRS.len() + 1 } else { 1 };
    for number in 0..sessions {
        let (peer, key) = (PeerId(number as u64), SessionKey::random().map_err(setup)?);
        link.admit(peer, key.clone());
        admitted.push((peer, key));
    }
    Ok(Opened { link, admitted, arrivals })
}

/// The worker's end, of so many queue pairs where it is of `rdma`. `number` is the offer's place in the other side's
/// list.
pub(super) async fn connect(
    config: &Config,
    offer: &LinkOffer,
    key: &SessionKey,
    number: usize,
    queue_pairs: u32,
    control: &mut Control,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    let staging_buffers = PARTS_AT_ONCE as usize + 2;
    let augment = &config.augment;
    let choices = ConnectChoices {
        shm: ShmConnect { allow_uids: augment.shm_allow_uids.clone(), ..ShmConnect::default() },
        tcp: TcpConnect { staging_buffers, ..TcpConnect::default() },
        ucx: UcxConnect {
            staging_buffers,
            devices: augment.ucx_devices(),
            ..UcxConnect::default()
        },
        rdma: RdmaConnect {
            port: augment.rdma_port(),
            staging_buffers,
            queue_pairs,
            part_bytes: PART_BYTES,
            ..RdmaConnect::default()
        },
    };
    let control = Mutex::new(control);
    links::connect(offer, key, &choices, &Conversation { control, number }).await
}

/// A connecting link's way to the other end of it.
struct Conversation<'a> {
    control: Mutex<&'a mut Control>,
    number: usize,
}

#[async_trait]
impl Exchange for Conversation<'_> {
    async fn exchange(&self, kind: LinkKind, request: Vec<u8>) -> Result<Vec<u8>, LinkError> {
        let mut control = self.control.lock().await;
        let asked = async {
            control.say(&Ask::Link { link: self.number, request }).await?;
            control.heard().await
        };
        let closed =
            |error: anyhow::Error| LinkError::Closed { kind, reason: format!("{error:#}") };
        let Answered(answer) = asked.await.map_err(closed)?;
        Ok(answer)
    }
}

/// Rates of this host's ports on the way to `peer`: of RDMA the port that the link takes.
pub(super) fn rates(machine: &Machine, peer: IpAddr, choice: &RdmaPort) -> Rates {
    let devices = machine.rdma_devices();
    let chosen = rdma::chosen(choice).ok();
    let is_chosen = |device: &str, port: u32| {
        let this =
            |chosen: &rdma::Chosen| chosen.device == device && u32::from(chosen.port) == port;
        chosen.as_ref().is_none_or(this)
    };
    let ports = devices.iter().flat_map(|device| {
        let ports = device.usable_ports();
        ports.map(move |port| (device, port))
    });
    let rdma = ports
        .filter(|(device, port)| is_chosen(&device.name, port.number))
        .filter_map(|(_, port)| port.rate_gbit)
        .max_by(f64::total_cmp);
    let tcp = machine.interface_to(peer).and_then(|interface| interface.rate_gbit);
    Rates { tcp, rdma }
}

/// A word that identifies this host and its current boot.
pub(super) fn host() -> String {
    headwater_storage_client::host_id().to_owned()
}
