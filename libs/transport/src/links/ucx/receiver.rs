//! The receiver's end: a door where workers knock, and a port and a thread for each that is let in.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headwater_core::Region;
use tokio::sync::{mpsc, oneshot};

use super::choices::UcxListen;
use super::context::{Context, Registration};
use super::path::{Channel, Order, Outgoing, Path, Side};
use super::port::{Endpoint, EventFd, Port, Request};
use super::threads::{self, spawn};
use super::wire::{Greeting, Knock, PROBED, VERSION, encode_offer};
use super::{detect, probe};
use crate::link::contract::{AnswersRequests, ReceiverLink, TakesDeviceSlots};
use crate::link::messages::{ToReceiver, ToWorker};
use crate::link::receiver_permits::{ChannelToWorker, ReceiverPermits};
use crate::link::receiving_end::{ReceiverPath, ReceivingEnd};
use crate::link::terms::{Arrival, LinkError, LinkKind, PeerId};
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
use crate::metrics;

/// Longest address that fits a receiver's offer, as headwater-proto's `LINK_ADDRESS_MAX_BYTES` says.
const ADDRESS_MAX_BYTES: usize = 64 << 10;
/// Time for a refusal to reach whoever knocked.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// Time for refusals to be broken off when the door closes.
const END_LIMIT: Duration = Duration::from_secs(1);
/// Longest sleep of the door.
const NAP: Duration = Duration::from_millis(500);

/// The thread that hears workers knock. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct UcxReceiver {
    shared: Arc<Shared>,
    address: Vec<u8>,
    bell: EventFd,
    closing: Arc<AtomicBool>,
}

/// What the threads of a receiver share.
#[derive(Debug)]
struct Shared {
    permits: Arc<ReceiverPermits<Channel>>,
    context: Arc<Context>,
}

/// The thread that hears workers knock.
struct Acceptor {
    port: Port,
    shared: Arc<Shared>,
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
struct WorkerPeer {
    peer: PeerId,
    shared: Arc<Shared>,
    key: [u8; 32],
    probe: Registration,
    stands: bool,
}

// === impl UcxReceiver ===

impl UcxReceiver {
    pub(super) async fn listen(
        config: &UcxListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let context = detect::open(config.rdma_only, &config.devices)?;
        // Over sockets only, this host's processor moves what arrives.
        let copies = !context.has_rdma();
        let permits = Arc::new(ReceiverPermits::new(LinkKind::Ucx, copies, arrivals));
        let shared = Arc::new(Shared { permits: Arc::clone(&permits), context });
        let closing = Arc::new(AtomicBool::new(false));
        let (ready, opened) = oneshot::channel();
        let (in_thread, closing_there) = (Arc::clone(&shared), Arc::clone(&closing));
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
                        let (shared, closing) = (in_thread, closing_there);
                        Acceptor { port, shared, probe_limit, closing, refusals: Vec::new() }.run();
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
        Ok(ReceivingEnd::link(permits, Self { shared, address, bell, closing }))
    }
}

impl ReceiverPath for UcxReceiver {
    const KIND: LinkKind = LinkKind::Ucx;

    type Channel = Channel;

    fn address(&self, _: IpAddr) -> Vec<u8> {
        encode_offer(&self.address)
    }

    fn add_slot(
        &self,
        permits: &ReceiverPermits<Channel>,
        slot: SlotId,
        memory: Arc<SlotMemory>,
    ) -> Result<(), LinkError> {
        let len_bytes = memory.len_bytes();
        let registration = Registration::new(&self.shared.context, memory).map_err(|error| {
            setup(format!(
                "slot {} of {len_bytes} bytes cannot be registered ({error}): raise the limit of \
                 locked memory (ulimit -l, LimitMEMLOCK=infinity)",
                slot.0
            ))
        })?;
        permits.add_slot(slot, registration);
        Ok(())
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        None // Workers knock at the offered address.
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        None
    }
}

impl Drop for UcxReceiver {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        self.bell.ring();
    }
}

// === impl Acceptor ===

impl Acceptor {
    fn run(mut self) {
        while !self.closing.load(Ordering::Acquire) && !threads::are_ending() {
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
            self.shared.permits.knock(&knock.key)
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
        let (shared, limit) = (Arc::clone(&self.shared), self.probe_limit);
        let serving = move || {
            let served = serve(peer, &shared, &knock, Instant::now() + limit);
            let reason = served.unwrap_or_else(|reason| reason);
            shared.permits.gone(peer, &reason);
        };
        if let Err(error) = spawn("ucx-peer", serving) {
            self.shared.permits.gone(peer, &error.to_string());
        }
    }

    fn refuse(&mut self, knock: &Knock, reason: String) -> Result<(), String> {
        let endpoint = self.port.endpoint(&knock.address)?;
        let bytes = [&[0; 4][..], &Greeting::Refused { reason }.encode()].concat();
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

/// From a knock to the end of the path: why it ended. When this returns, the port and all that led to
/// it are gone.
fn serve(
    peer: PeerId,
    shared: &Arc<Shared>,
    knock: &Knock,
    until: Instant,
) -> Result<String, String> {
    let probe = SlotMemory::private(knock.key.len() as u64, false).map_err(|e| e.to_string())?;
    let probe = Registration::new(&shared.context, Arc::new(probe))?;
    let port = Port::new(&shared.context)?;
    let endpoint = port.endpoint(&knock.address)?;
    let (channel, orders) = Channel::new(port.bell());
    let mut path = Path::new(port, endpoint, orders);
    let mut guest =
        WorkerPeer { peer, shared: Arc::clone(shared), key: knock.key, probe, stands: false };
    let ended = guest.welcome(&channel, &mut path, until);
    let reason = ended.unwrap_or_else(|reason| reason);
    path.end(&mut guest, &reason);
    Ok(reason)
}

// === impl WorkerPeer ===

impl WorkerPeer {
    fn welcome(
        &mut self,
        channel: &Channel,
        path: &mut Path,
        until: Instant,
    ) -> Result<String, String> {
        if !self.shared.permits.reached(self.peer, channel) {
            return Err("dropped before it connected".into());
        }
        let (address, probe) = (path.address()?, self.probe.terms());
        path.send(&Greeting::Welcome { address, probe }.encode())?;
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
        if written != probe::pattern(&self.key) {
            return Err("the probe write is not in memory: UCX cannot write here".into());
        }
        if !self.shared.permits.stands(self.peer) {
            return Err("dropped before it connected".into());
        }
        self.stands = true;
        Ok(())
    }
}

impl Side for WorkerPeer {
    fn hear(&mut self, message: &[u8], _path: &mut Path) -> Result<(), String> {
        match ToReceiver::decode(message) {
            Some(ToReceiver::Bye) => Err("the worker left".into()),
            Some(message) if self.stands => {
                self.shared.permits.on_message(self.peer, message);
                Ok(())
            }
            None if message == PROBED && !self.stands => self.probed(),
            _ => Err("the worker sent no known message".into()),
        }
    }

    fn delivered(&mut self, _outgoing: Outgoing, _outcome: Result<(), String>) {
        debug_assert!(false, "a receiver delivers nothing");
    }
}

fn setup(reason: String) -> LinkError {
    LinkKind::Ucx.setup(reason)
}

// === impl Channel ===

impl ChannelToWorker for Channel {
    type Slot = Registration;

    const WRITTEN_HERE: bool = false;

    fn slot_bytes(slot: &Registration) -> u64 {
        slot.memory().len_bytes()
    }

    fn send(&self, message: ToWorker<&Registration>) {
        let leaves = matches!(message, ToWorker::Bye);
        let message = message.map(Registration::terms).encode();
        self.order(if leaves { Order::Leave(message) } else { Order::Send(message) });
    }
}
