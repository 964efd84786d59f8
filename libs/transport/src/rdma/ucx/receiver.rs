//! The receiver's end: a door where workers knock, and a port and a thread for each that is let in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headwater_core::Region;
use tokio::sync::{mpsc, oneshot};

use super::context::{Context, Registration};
use super::ledger::{self, Ledger};
use super::path::{Line, Outgoing, Path, Side};
use super::port::{Bell, Endpoint, Port, Request};
use super::wire::{Knock, ToReceiver, ToWorker, VERSION, encode_offer};
use super::{UcxListen, probe_pattern, setup};
use crate::contract::{
    Arrival, LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, PeerId, ReceiverLink, SessionKey,
    SlotId, Withdrawal,
};
use crate::metrics;
use crate::slot::SlotMemory;

/// Longest address that fits a receiver's offer.
const ADDRESS_MAX_BYTES: usize = 4096;
/// Time for a refusal to reach whoever knocked.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// Time for refusals to be broken off when the door closes.
const END_LIMIT: Duration = Duration::from_secs(1);
/// Longest sleep of the door.
const NAP: Duration = Duration::from_millis(500);

/// A receiver. Dropping it ends every path.
#[derive(Debug)]
pub(super) struct UcxReceiver {
    ledger: Arc<Ledger>,
    address: Vec<u8>,
    bell: Bell,
    closing: Arc<AtomicBool>,
}

/// The thread that hears workers knock.
struct Door {
    port: Port,
    ledger: Arc<Ledger>,
    probe_limit: Duration,
    closing: Arc<AtomicBool>,
    refusals: Vec<Refusal>,
}

/// A refusal on its way.
struct Refusal {
    endpoint: Endpoint,
    requests: Vec<Request>,
    _bytes: Vec<u8>,
    until: Instant,
    is_closing: bool,
}

/// One peer's thread.
struct Guest {
    peer: PeerId,
    ledger: Arc<Ledger>,
    key: [u8; 32],
    probe: Registration,
    stands: bool,
}

// === impl UcxReceiver ===

impl UcxReceiver {
    pub(super) async fn listen(
        config: &UcxListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Self, LinkError> {
        let context = super::open(config.rdma_only)?;
        let ledger = Arc::new(Ledger::new(context, arrivals));
        let closing = Arc::new(AtomicBool::new(false));
        let (ready, opened) = oneshot::channel();
        let (in_thread, closing_there) = (Arc::clone(&ledger), Arc::clone(&closing));
        let probe_limit = config.handshake_timeout;
        let opening = move || {
            let made = Port::new(&in_thread.context).and_then(|port| {
                let address = port.address()?;
                Ok((port, address))
            });
            match made {
                Err(error) => drop(ready.send(Err(error))),
                Ok((port, address)) => {
                    if ready.send(Ok((port.bell(), address))).is_ok() {
                        let (ledger, closing) = (in_thread, closing_there);
                        Door { port, ledger, probe_limit, closing, refusals: Vec::new() }.run();
                    }
                }
            }
        };
        spawn("ucx-door", opening)?;
        let opened = opened.await.map_err(|_| setup("its thread has ended".into()))?;
        let (bell, address) = opened.map_err(setup)?;
        if encode_offer(&address).len() > ADDRESS_MAX_BYTES {
            let len = address.len();
            return Err(setup(format!(
                "the address of all its devices has {len} bytes, more than {ADDRESS_MAX_BYTES}: \
                 choose some with UCX_NET_DEVICES"
            )));
        }
        Ok(Self { ledger, address, bell, closing })
    }
}

impl ReceiverLink for UcxReceiver {
    fn kind(&self) -> LinkKind {
        LinkKind::Ucx
    }

    fn offer(&self) -> LinkOffer {
        LinkOffer { kind: LinkKind::Ucx, address: encode_offer(&self.address) }
    }

    fn add_slot(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        self.ledger.add_slot(slot, memory)
    }

    fn remove_slot(&self, slot: SlotId) {
        self.ledger.remove_slot(slot);
    }

    fn admit(&self, peer: PeerId, key: SessionKey) {
        self.ledger.admit(peer, key);
    }

    fn expect(&self, peer: PeerId, place: PartPlace) {
        debug_assert!(place.regions.iter().all(|r: &Region| r.len_bytes < u64::MAX));
        self.ledger.expect(peer, &place);
    }

    fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal {
        self.ledger.withdraw(peer, lease)
    }

    fn drop_peer(&self, peer: PeerId) {
        self.ledger.drop_peer(peer);
    }
}

impl Drop for UcxReceiver {
    fn drop(&mut self) {
        self.ledger.shut();
        self.closing.store(true, Ordering::Release);
        self.bell.ring();
    }
}

// === impl Door ===

impl Door {
    fn run(mut self) {
        while !self.closing.load(Ordering::Acquire) {
            for message in self.port.progress() {
                self.hear(&message);
            }
            self.settle(Instant::now());
            let nap = if self.refusals.is_empty() { NAP } else { Duration::from_millis(10) };
            self.port.wait(nap);
        }
        let limit = Instant::now() + END_LIMIT;
        while !self.refusals.is_empty() && Instant::now() < limit {
            self.port.progress();
            self.settle(Instant::now() + REFUSAL_LIMIT); // All are past their time.
            self.port.wait(Duration::from_millis(10));
        }
    }

    fn hear(&mut self, message: &[u8]) {
        let Some(knock) = message.get(4..).and_then(Knock::decode) else {
            metrics::refused(LinkKind::Ucx);
            return tracing::warn!("something else than a worker knocks at the ucx link");
        };
        let peer = if knock.version == VERSION {
            self.ledger.knock(&knock.key)
        } else {
            let theirs = knock.version;
            Err(format!("ucx link version {theirs}; this receiver speaks {VERSION}"))
        };
        match peer {
            Ok(peer) => self.let_in(peer, knock),
            Err(reason) => {
                metrics::refused(LinkKind::Ucx);
                if let Err(error) = self.refuse(&knock, reason) {
                    tracing::debug!(error, "a refusal cannot be sent");
                }
            }
        }
    }

    fn let_in(&self, peer: PeerId, knock: Knock) {
        let (ledger, limit) = (Arc::clone(&self.ledger), self.probe_limit);
        let serving = move || {
            let served = serve(peer, &ledger, &knock, Instant::now() + limit);
            let (reason, stood) = match served {
                Ok(ended) => ended,
                Err(reason) => (reason, false),
            };
            ledger.gone(peer, reason, stood);
        };
        if let Err(error) = spawn("ucx-peer", serving) {
            self.ledger.gone(peer, error.to_string(), false);
        }
    }

    fn refuse(&mut self, knock: &Knock, reason: String) -> Result<(), String> {
        let endpoint = self.port.endpoint(&knock.address)?;
        let bytes = [&[0; 4][..], &ToWorker::Refused { reason }.encode()].concat();
        let mut requests = Vec::new();
        requests.extend(self.port.send(&endpoint, &bytes)?);
        requests.extend(self.port.flush(&endpoint)?);
        let until = Instant::now() + REFUSAL_LIMIT;
        let refusal = Refusal { endpoint, requests, _bytes: bytes, until, is_closing: false };
        self.refusals.push(refusal);
        Ok(())
    }

    fn settle(&mut self, now: Instant) {
        let port = &self.port;
        self.refusals.retain_mut(|refusal| {
            refusal.requests.retain(|request| port.poll(request).is_none());
            let through = refusal.requests.is_empty();
            if !refusal.is_closing && (through || now >= refusal.until) {
                refusal.is_closing = true;
                refusal.requests.extend(port.close(&refusal.endpoint));
            }
            !refusal.is_closing || !refusal.requests.is_empty()
        });
    }
}

/// From a knock to the end of the path: why it ended, and whether it stood.
fn serve(
    peer: PeerId,
    ledger: &Arc<Ledger>,
    knock: &Knock,
    until: Instant,
) -> Result<(String, bool), String> {
    let probe = SlotMemory::private(knock.key.len() as u64, false).map_err(|e| e.to_string())?;
    let probe = Registration::new(&ledger.context, Arc::new(probe))?;
    let port = Port::new(&ledger.context)?;
    let endpoint = port.endpoint(&knock.address)?;
    let (line, orders) = Line::new(port.bell());
    let mut path = Path::new(port, endpoint, orders);
    let mut guest =
        Guest { peer, ledger: Arc::clone(ledger), key: knock.key, probe, stands: false };
    let ended = guest.welcome(&line, &mut path, until);
    let reason = ended.unwrap_or_else(|reason| reason);
    path.end(&mut guest, &reason);
    Ok((reason, guest.stands))
}

// === impl Guest ===

impl Guest {
    fn welcome(&mut self, line: &Line, path: &mut Path, until: Instant) -> Result<String, String> {
        if !self.ledger.reached(self.peer, line) {
            return Err("dropped before it connected".into());
        }
        let (address, probe) = (path.address()?, ledger::remote(&self.probe));
        path.send(&ToWorker::Welcome { address, probe }.encode())?;
        // A tick at a time, until the probe is there; then as long as it lasts.
        while !self.stands {
            if let Some(reason) = path.run(self, Some(Instant::now() + Duration::from_millis(20))) {
                return Err(reason);
            }
            if Instant::now() >= until && !self.stands {
                return Err("the worker wrote no probe in time".into());
            }
        }
        Ok(path.run(self, None).unwrap_or_default())
    }

    fn probed(&mut self) -> Result<(), String> {
        let memory = self.probe.memory();
        let written = memory.read(Region { offset_bytes: 0, len_bytes: memory.len_bytes() });
        if written != probe_pattern(&self.key) {
            return Err("the probe write is not in memory: UCX cannot write here".into());
        }
        if !self.ledger.stands(self.peer) {
            return Err("dropped before it connected".into());
        }
        self.stands = true;
        Ok(())
    }
}

impl Side for Guest {
    fn hear(&mut self, message: &[u8], _path: &mut Path) -> Result<(), String> {
        match ToReceiver::decode(message) {
            Some(ToReceiver::Bye) => Err("the worker left".into()),
            Some(ToReceiver::Probed) if !self.stands => self.probed(),
            Some(message) if self.stands => {
                self.ledger.hear(self.peer, message);
                Ok(())
            }
            _ => Err("the worker sent no known message".into()),
        }
    }

    fn delivered(&mut self, _outgoing: Outgoing, _outcome: Result<(), String>) {
        debug_assert!(false, "a receiver delivers nothing");
    }
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LinkError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(drop).map_err(|error| setup(format!("no thread for it: {error}")))
}

/// Opens a context on the way to a link.
impl Context {
    pub(super) fn describe(&self) -> String {
        format!("UCX {}: {}", self.library.version, self.transports().join(" "))
    }
}
