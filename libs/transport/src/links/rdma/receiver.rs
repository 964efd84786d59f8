//! The receiver's end: registered slots, and a task for each peer's queue pairs.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::Region;
use tokio::sync::{Notify, mpsc};

use super::choices::RdmaListen;
use super::connection::Connection;
use super::lane::{Event, ProbeMemory};
use super::path::Path;
use super::probe::PROBE_BYTES;
use super::receiver_port::ReceiverPort;
use super::verbs::{MemoryRegion, Writers};
use super::wire::{Answer, Endpoint, RemoteMemory, Request, VERSION, low_half};
use super::{locked, probe};
use crate::link::contract::{AnswersRequests, ReceiverLink, TakesDeviceSlots};
use crate::link::messages::{ToReceiver, ToWorker};
use crate::link::receiver_permits::ReceiverPermits;
use crate::link::receiving_end::{ReceiverPath, ReceivingEnd};
use crate::link::terms::{Arrival, LinkError, LinkKind, PeerId};
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
use crate::memory::window::DeviceWindow;
use crate::metrics;

/// Time for a goodbye to reach a worker that will be dropped; a dead one takes none.
const GOODBYE_LIMIT: Duration = Duration::from_millis(100);
/// Time for stopped queue pairs to give back what they hold.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// The port, and what makes queue pairs on it.
#[derive(Debug)]
pub(super) struct RdmaReceiver {
    permits: Arc<ReceiverPermits<Path>>,
    port: Arc<ReceiverPort>,
    config: RdmaListen,
    runtime: tokio::runtime::Handle,
}

/// A peer's queue pairs, from its request to its end.
struct Session {
    peer: PeerId,
    permits: Arc<ReceiverPermits<Path>>,
    path: Path,
    key: [u8; 32],
    pairs: usize,
}

// === impl RdmaReceiver ===

impl RdmaReceiver {
    pub(super) fn listen(
        config: &RdmaListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let permits = Arc::new(ReceiverPermits::new(LinkKind::Rdma, false, arrivals));
        let port = ReceiverPort::open(&config.port, Arc::clone(&permits)).map_err(setup)?;
        locked::check(config.slots_bytes).map_err(setup)?;
        tracing::info!(adapter = port.describe(), "rdma link listens");
        let (port, runtime) = (Arc::new(port), tokio::runtime::Handle::current());
        let path = Self { permits: Arc::clone(&permits), port, config: config.clone(), runtime };
        Ok(ReceivingEnd::link(permits, path))
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
        let peer = self.permits.knock(&request.key)?;
        let made = self.connect(&request);
        let (path, probe) = made.inspect_err(|reason| self.permits.gone(peer, reason))?;
        let session = Session {
            peer,
            permits: Arc::clone(&self.permits),
            path,
            key: request.key,
            pairs: request.endpoint.pairs.len(),
        };
        if !self.permits.reached(peer, &session.path) {
            let reason = "dropped before it connected";
            if session.path.connection.destroy() {
                self.permits.gone(peer, reason);
            }
            return Err(reason.into());
        }
        let address = probe.memory().as_ptr() as u64;
        let len_bytes = probe.memory().len_bytes();
        let target = RemoteMemory { address, len_bytes, key: probe.remote_key() };
        let endpoint = session.path.connection.endpoint();
        self.runtime.spawn(session.run(probe, self.config.handshake_timeout));
        Ok((endpoint, target))
    }

    fn connect(&self, request: &Request) -> Result<(Path, ProbeMemory), String> {
        let adapter = &self.port.usable();
        let failed = |error: std::io::Error| format!("the receiver has no queue pairs: {error}");
        let pairs = request.endpoint.pairs.len() as u32;
        let towards = Some(&request.endpoint.path.gid);
        let connection = Connection::new(adapter, pairs, true, towards).map_err(failed)?;
        connection.endpoint().path.check_reach(&request.endpoint.path)?;
        let probe_bytes = u64::from(pairs) * PROBE_BYTES as u64;
        let probe = SlotMemory::private(probe_bytes, false).map_err(|e| e.to_string())?;
        let probe =
            MemoryRegion::new(&adapter.domain, Arc::new(probe), Writers::Peers).map_err(failed)?;
        metrics::registered(LinkKind::Rdma, probe_bytes);
        connection.connect(&request.endpoint).map_err(failed)?;
        let path = Path { connection: Arc::new(connection), leave: Arc::new(Notify::new()) };
        Ok((path, probe))
    }
}

impl ReceiverPath for RdmaReceiver {
    const KIND: LinkKind = LinkKind::Rdma;

    type Channel = Path;

    /// What kind of port it is and where: the worker takes one that is near. What it needs to write comes
    /// in the answer.
    fn address(&self, route: IpAddr) -> Vec<u8> {
        match self.port.offer(route) {
            Ok(offer) => offer.encode(),
            // A port that has gone down: it is looked after meanwhile, and the worker hears why when it asks.
            Err(reason) => {
                let port = Arc::clone(&self.port);
                self.runtime.spawn_blocking(move || drop(port.usable()));
                reason.into_bytes()
            }
        }
    }

    fn add_slot(
        &self,
        _: &ReceiverPermits<Path>,
        slot: SlotId,
        memory: Arc<SlotMemory>,
    ) -> Result<(), LinkError> {
        // Under the port's lock: its slots may have to go over to another one.
        self.port.add(slot, memory)
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        Some(self)
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        Some(self)
    }
}

impl AnswersRequests for RdmaReceiver {
    /// Makes queue pairs.
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
}

impl TakesDeviceSlots for RdmaReceiver {
    fn add_device_slot(
        &self,
        slot: SlotId,
        window: Arc<dyn DeviceWindow>,
    ) -> Result<(), LinkError> {
        self.port.add_device(slot, window)
    }
}

fn setup(reason: String) -> LinkError {
    LinkKind::Rdma.setup(reason)
}

// === impl Session ===

impl Session {
    async fn run(self, probe: ProbeMemory, limit: Duration) {
        let probed = tokio::select! {
            probed = tokio::time::timeout(limit, self.probed(&probe)) => {
                probed.unwrap_or_else(|_| Err(format!(
                    "its probe of {PROBE_BYTES} bytes a pair did not come in time"
                )))
            }
            () = self.path.leave.notified() => Err("dropped by the receiver".into()),
        };
        let stood = probed.is_ok() && self.permits.stands(self.peer);
        let reason = match probed {
            Err(reason) => reason,
            Ok(()) if !stood => "dropped by the receiver".into(),
            Ok(()) => self.serve().await,
        };
        if self.end().await {
            drop(probe);
            self.permits.gone(self.peer, &reason);
        } else {
            // It is never said to be gone: the slots of its leases stay out of use.
            std::mem::forget(probe);
        }
    }

    /// Waits for the probe over every pair and looks whether it is where it belongs.
    async fn probed(&self, probe: &ProbeMemory) -> Result<(), String> {
        let mut missing: Vec<u32> = (0..self.pairs as u32).collect();
        while !missing.is_empty() {
            for event in self.path.connection.events().await {
                match event {
                    Event::Written(number) => missing.retain(|pair| *pair != number),
                    Event::Broken(reason) => return Err(reason),
                    Event::Message(_) => return Err("a message came ahead of the probe".into()),
                    Event::Ended(..) => {}
                }
            }
        }
        for pair in 0..self.pairs {
            let wanted = probe::pattern(&self.key, pair);
            let (offset_bytes, len_bytes) = ((pair * wanted.len()) as u64, wanted.len() as u64);
            if probe.memory().read(Region { offset_bytes, len_bytes }) != wanted {
                return Err(format!("the probe over pair {pair} is not what was written"));
            }
        }
        Ok(())
    }

    /// Hears the worker until it leaves, breaks, or must be dropped.
    async fn serve(&self) -> String {
        loop {
            let events = tokio::select! {
                biased;
                () = self.path.leave.notified() => return "dropped by the receiver".into(),
                events = self.path.connection.events() => events,
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
            Event::Written(number) => {
                let is = |lease| low_half(lease) == number;
                self.permits.written(self.peer, is, |_, _| true);
            }
            Event::Message(bytes) => match ToReceiver::decode(&bytes) {
                Some(ToReceiver::Bye) => return Some("the worker left".into()),
                Some(message) => self.permits.on_message(self.peer, message),
                None => return Some("the worker sent no known message".into()),
            },
            Event::Broken(reason) => return Some(reason),
            Event::Ended(..) => {}
        }
        None
    }

    /// Says goodbye to a worker that will be dropped, stops the pairs, takes what they give back,
    /// and destroys them. `false`: one cannot be destroyed, and the worker may still be writing.
    async fn end(&self) -> bool {
        if self.permits.is_leaving(self.peer) {
            self.say_goodbye().await;
        }
        self.path.connection.fail();
        self.path
            .connection
            .drain(DRAIN_LIMIT, |event| {
                self.hear(event);
            })
            .await;
        self.path.connection.destroy()
    }

    async fn say_goodbye(&self) {
        self.path.connection.send(ToWorker::<RemoteMemory>::Bye.encode());
        let said = async {
            while !self.path.connection.is_idle() {
                for event in self.path.connection.events().await {
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
