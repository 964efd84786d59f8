//! The receiver's end: registered slots, and a task for each peer's queue pairs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_core::Region;
use tokio::sync::{Notify, mpsc};

use super::adapter::Adapter;
use super::connection::Connection;
use super::lane::Event;
use super::ledger::Ledger;
use super::verbs::{MemoryRegion, Writers};
use super::wire::{
    Answer, Endpoint, MESSAGE_MAX_BYTES, QUEUE_PAIRS_MAX, RemoteMemory, Request, ToReceiver,
    ToWorker, VERSION,
};
use super::{RdmaListen, probe_pattern};
use super::{locked, reach};
use crate::contract::{
    Arrival, LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, PeerId, ReceiverLink, SessionKey,
    SlotId, Withdrawal,
};
use crate::metrics;
use crate::slot::SlotMemory;
use crate::window::DeviceWindow;

/// Time for a goodbye to reach a worker that is to be dropped; a dead one takes none.
const GOODBYE_LIMIT: Duration = Duration::from_millis(100);
/// Time for stopped queue pairs to give back what they hold.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// A receiver. Dropping it tears every path down.
#[derive(Debug)]
pub(super) struct RdmaReceiver {
    ledger: Arc<Ledger>,
    config: RdmaListen,
    runtime: tokio::runtime::Handle,
    /// A write to a GPU's memory was seen to come there.
    reaches_gpu: AtomicBool,
}

/// A peer's queue pairs, from its request to its end.
struct Session {
    peer: PeerId,
    ledger: Arc<Ledger>,
    connection: Arc<Connection>,
    leave: Arc<Notify>,
    key: [u8; 32],
    pairs: usize,
}

// === impl RdmaReceiver ===

impl RdmaReceiver {
    pub(super) fn listen(
        config: &RdmaListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Self, LinkError> {
        let adapter = Adapter::open(&config.port).map_err(super::setup)?;
        locked::check(config.slots_bytes).map_err(super::setup)?;
        Connection::try_out(&adapter).map_err(super::setup)?;
        tracing::info!(adapter = adapter.describe(), "rdma link listens");
        let ledger = Arc::new(Ledger::new(adapter, arrivals));
        let runtime = tokio::runtime::Handle::current();
        Ok(Self { ledger, config: config.clone(), runtime, reaches_gpu: AtomicBool::new(false) })
    }

    /// Makes and connects the pairs that a worker asks for.
    fn let_in(&self, request: &[u8]) -> Result<(Endpoint, RemoteMemory), String> {
        let request = match Request::decode(request) {
            Some(Ok(request)) => request,
            Some(Err(version)) => {
                return Err(format!("rdma link version {version}; this receiver speaks {VERSION}"));
            }
            None => return Err("not a worker of this protocol".into()),
        };
        let leave = Arc::new(Notify::new());
        let peer = self.ledger.knock(&request.key, &leave)?;
        let made = self.connect(&request).inspect_err(|reason| {
            self.ledger.turned_away(peer, reason);
        })?;
        let (connection, probe) = made;
        let address = probe.memory().as_ptr() as u64;
        let len_bytes = probe.memory().len_bytes();
        let target = RemoteMemory { address, len_bytes, key: probe.remote_key() };
        let endpoint = connection.endpoint();
        let session = Session {
            peer,
            ledger: Arc::clone(&self.ledger),
            connection,
            leave,
            key: request.key,
            pairs: request.endpoint.pairs.len(),
        };
        self.runtime.spawn(session.run(probe, self.config.handshake_timeout));
        Ok((endpoint, target))
    }

    fn connect(
        &self,
        request: &Request,
    ) -> Result<(Arc<Connection>, MemoryRegion<Arc<SlotMemory>>), String> {
        let adapter = self.ledger.adapter();
        let layers = (request.endpoint.path.ethernet, adapter.path.ethernet);
        if layers.0 != layers.1 {
            return Err("one port is Ethernet (RoCE), the other InfiniBand".into());
        }
        let failed = |error: std::io::Error| format!("the receiver has no queue pairs: {error}");
        let pairs = request.endpoint.pairs.len() as u32;
        let connection = Connection::new(adapter, pairs, true).map_err(failed)?;
        let probe_bytes = u64::from(QUEUE_PAIRS_MAX) * MESSAGE_MAX_BYTES as u64;
        let probe = SlotMemory::private(probe_bytes, false).map_err(|e| e.to_string())?;
        let probe =
            MemoryRegion::new(&adapter.domain, Arc::new(probe), Writers::Peers).map_err(failed)?;
        metrics::registered(LinkKind::Rdma, probe_bytes);
        connection.connect(&request.endpoint).map_err(failed)?;
        Ok((Arc::new(connection), probe))
    }
}

impl ReceiverLink for RdmaReceiver {
    fn kind(&self) -> LinkKind {
        LinkKind::Rdma
    }

    /// Where the port is, for the worker's log: what it needs comes in the answer.
    fn offer(&self) -> LinkOffer {
        let address = self.ledger.adapter().describe().into_bytes();
        LinkOffer { kind: LinkKind::Rdma, address }
    }

    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let answer = match self.let_in(request) {
            Ok((endpoint, probe)) => Answer::Accepted { endpoint, probe },
            Err(reason) => {
                metrics::refused(LinkKind::Rdma);
                tracing::warn!(reason, "rdma link refused a worker");
                Answer::Refused { reason }
            }
        };
        answer.encode()
    }

    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        self.ledger.add_slot(slot, memory)
    }

    fn add_device_slot(
        &self,
        slot: SlotId,
        window: Arc<dyn DeviceWindow>,
    ) -> Result<(), LinkError> {
        let adapter = self.ledger.adapter();
        let name = adapter.domain.device().name();
        let refused = |why: String| super::setup(format!("{name} cannot write to the GPU: {why}"));
        let (region, way) = MemoryRegion::of_window(&adapter.domain, window).map_err(refused)?;
        if !self.reaches_gpu.load(Ordering::Relaxed) {
            reach::check(adapter, &region).map_err(refused)?;
            self.reaches_gpu.store(true, Ordering::Relaxed);
            tracing::info!(device = name, way, "rdma link writes to the GPU's memory");
        }
        self.ledger.add_window(slot, region);
        Ok(())
    }

    fn remove_slot(&self, slot: SlotId) {
        self.ledger.remove_slot(slot);
    }

    fn admit(&self, peer: PeerId, key: SessionKey) {
        self.ledger.admit(peer, key);
    }

    fn expect(&self, peer: PeerId, place: PartPlace) {
        self.ledger.expect(peer, &place);
    }

    fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal {
        self.ledger.withdraw(peer, lease)
    }

    fn drop_peer(&self, peer: PeerId) {
        self.ledger.drop_peer(peer);
    }
}

impl Drop for RdmaReceiver {
    fn drop(&mut self) {
        self.ledger.drop_all();
    }
}

// === impl Session ===

impl Session {
    async fn run(self, probe: MemoryRegion<Arc<SlotMemory>>, limit: Duration) {
        let probed = tokio::select! {
            probed = tokio::time::timeout(limit, self.probed(&probe)) => {
                probed.unwrap_or_else(|_| Err("its probe did not come in time".into()))
            }
            () = self.leave.notified() => Err("dropped by the receiver".into()),
        };
        let stood = probed.is_ok() && self.ledger.stands(self.peer, &self.connection);
        let reason = match probed {
            Err(reason) => reason,
            Ok(()) if !stood => "dropped by the receiver".into(),
            Ok(()) => self.serve().await,
        };
        self.end().await;
        drop(probe);
        self.ledger.gone(self.peer, reason, stood);
    }

    /// Waits for the probe over every pair and looks whether it is where it belongs.
    async fn probed(&self, probe: &MemoryRegion<Arc<SlotMemory>>) -> Result<(), String> {
        let mut missing: Vec<u32> = (0..self.pairs as u32).collect();
        while !missing.is_empty() {
            for event in self.connection.events().await {
                match event {
                    Event::Written(number) => missing.retain(|pair| *pair != number),
                    Event::Broken(reason) => return Err(reason),
                    Event::Message(_) => return Err("a message came ahead of the probe".into()),
                    Event::Ended(..) => {}
                }
            }
        }
        for pair in 0..self.pairs {
            let wanted = probe_pattern(&self.key, pair);
            let (offset_bytes, len_bytes) = ((pair * wanted.len()) as u64, wanted.len() as u64);
            if probe.memory().read(Region { offset_bytes, len_bytes }) != wanted {
                return Err(format!("the probe over pair {pair} is not what was written"));
            }
        }
        Ok(())
    }

    /// Hears the worker until it leaves, breaks, or is to be dropped.
    async fn serve(&self) -> String {
        loop {
            let events = tokio::select! {
                biased;
                () = self.leave.notified() => return "dropped by the receiver".into(),
                events = self.connection.events() => events,
            };
            // All are heard: parts that came with a goodbye have arrived.
            let ends: Vec<String> =
                events.into_iter().filter_map(|event| self.hear(event)).collect();
            if let Some(reason) = ends.into_iter().next() {
                return reason;
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Why the path ends, if it does.
    fn hear(&self, event: Event) -> Option<String> {
        match event {
            Event::Written(number) => self.ledger.written(self.peer, number),
            Event::Message(bytes) => match ToReceiver::decode(&bytes) {
                Some(ToReceiver::Bye) => return Some("the worker left".into()),
                Some(message) => self.ledger.hear(self.peer, &message),
                None => return Some("the worker sent no known message".into()),
            },
            Event::Broken(reason) => return Some(reason),
            Event::Ended(..) => {}
        }
        None
    }

    /// Says goodbye to a worker that is to be dropped, stops the pairs, takes what they give back,
    /// and destroys them.
    async fn end(&self) {
        if self.ledger.is_leaving(self.peer) {
            self.say_goodbye().await;
        }
        self.connection.fail();
        self.connection
            .drain(DRAIN_LIMIT, |event| {
                self.hear(event);
            })
            .await;
        self.connection.destroy();
    }

    async fn say_goodbye(&self) {
        self.connection.send(ToWorker::Bye.encode());
        let said = async {
            while !self.connection.is_idle() {
                for event in self.connection.events().await {
                    if matches!(event, Event::Broken(_)) {
                        return;
                    }
                    self.hear(event);
                }
            }
        };
        tokio::time::timeout(GOODBYE_LIMIT, said).await.ok();
    }
}
