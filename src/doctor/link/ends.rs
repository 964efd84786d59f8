//! Opening the two ends of links.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_config::Config;
use headwater_inventory::Machine;
use headwater_transport::links::{
    self, CardPort, ConnectOptions, Demand, LinksConfig, ListenOptions,
};
use headwater_transport::{
    Arrival, Exchange, LinkError, LinkKind, LinkOffer, PeerId, ReceiverLink, SessionKey,
    SlotMemory, WorkerLink,
};
use tokio::sync::{Mutex, mpsc};

use super::control::{Answered, Control, Rates};
use super::{PART_BYTES, PARTS_AT_ONCE, SLOT};

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
    // Slots of this are in the host's memory.
    for kind in LinkKind::ALL.into_iter().filter(|kind| !kind.facts().imports_slots) {
        let supersedes =
            |opened: &&Opened| kind.facts().superseded_by.contains(&opened.link.kind());
        if let Some(better) = opened.iter().find(supersedes).filter(|_| !named(kind)) {
            // A receiver does not offer it either; and it may take its time over a card.
            let better = better.link.kind();
            closed.push(format!(
                "{kind} is left out beside {better}: name it in receiver.links there"
            ));
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
    // A poor one says nothing of the machine, but to who has chosen it.
    let chosen = config.receiver.links.iter().any(|link| link == kind.name());
    let options = ListenOptions {
        // Where the control connection came in, data can too.
        config: config.links.clone().listening_on(local),
        demand: if chosen { Demand::Measured } else { Demand::AmongOthers },
        slots_bytes: memory.len_bytes(),
        near_cards: config.receiver.near_cards(),
        ..ListenOptions::default()
    };
    let link = links::listen(kind, &options, sender).await?;
    let setup = |error: std::io::Error| LinkError::Setup { kind, reason: error.to_string() };
    link.add_slot(SLOT, Arc::clone(memory))?;
    let mut admitted = Vec::new();
    // One for each number that is tried, and for the one that the other side is configured to have.
    let sessions = kind.facts().tuned.as_ref().map_or(1, |tuned| tuned.tried.len() + 1);
    for number in 0..sessions {
        let (peer, key) = (PeerId(number as u64), SessionKey::random().map_err(setup)?);
        link.admit(peer, key.clone());
        admitted.push((peer, key));
    }
    Ok(Opened { link, admitted, arrivals })
}

/// The worker's end. `number` is the offer's place in the other side's list.
pub(super) async fn connect(
    config: LinksConfig,
    offer: &LinkOffer,
    key: &SessionKey,
    number: usize,
    control: &mut Control,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    let options = ConnectOptions {
        config,
        demand: Demand::Measured,
        staging_buffers: PARTS_AT_ONCE as usize + 2,
        part_bytes: PART_BYTES,
        ..ConnectOptions::default()
    };
    let control = Mutex::new(control);
    links::connect(offer, key, &options, &Conversation { control, number }).await
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
        let closed =
            |error: anyhow::Error| LinkError::Closed { kind, reason: format!("{error:#}") };
        let Answered(answer) = control.ask(self.number, request).await.map_err(closed)?;
        Ok(answer)
    }
}

/// Rates of this host's ports on the way to `peer`: of cards the port that a link takes.
pub(super) fn rates(machine: &Machine, peer: IpAddr, options: &ListenOptions) -> Rates {
    let devices = machine.rdma_devices();
    let chosen = links::card_port(options);
    let is_chosen = |device: &str, port: u32| {
        let this = |chosen: &CardPort| chosen.device == device && u32::from(chosen.port) == port;
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
