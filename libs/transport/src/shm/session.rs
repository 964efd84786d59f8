//! The worker's side of one shm socket: what it may render, what it is rendering.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_core::Region;
use tokio::sync::{Notify, OnceCell};

use super::channel::Channel;
use super::rendering::Rendering;
use super::socket::Packet;
use super::wire::{ToReceiver, ToWorker};
use crate::contract::{LeaseId, LinkError, LinkKind, PartPlace, SlotId};
use crate::mapping::Mapping;
use crate::place;
use crate::recent::Recent;

/// Withdrawn leases that are remembered, for a `begin` that comes after the withdrawal. One that
/// is forgotten is still not permitted.
const REMEMBERED_WITHDRAWALS: usize = 4096;

/// Lives as long as anything of this process may write into the receiver's slots.
#[derive(Debug)]
pub(super) struct Session {
    // Before the channel: fields drop in order, so mappings go before the socket closes.
    state: Mutex<State>,
    changed: Notify,
    channel: Channel,
}

#[derive(Debug)]
struct State {
    slots: HashMap<SlotId, Arc<Slot>>,
    permitted: HashSet<LeaseId>,
    rendering: HashMap<LeaseId, Busy>,
    withdrawn: Recent,
    closed: Option<String>,
}

/// A slot that was announced; mapped when it is first needed.
#[derive(Debug)]
struct Slot {
    file: OwnedFd,
    len_bytes: u64,
    mapping: OnceCell<Arc<Mapping>>,
}

/// A buffer that is out.
#[derive(Debug)]
struct Busy {
    slot: SlotId,
    regions: Arc<[Region]>,
    /// The receiver has withdrawn the lease and waits to hear that the buffer is gone.
    answer_due: bool,
}

// === impl Session ===

impl Session {
    pub(super) fn new(channel: Channel) -> Self {
        let state = State {
            slots: HashMap::new(),
            permitted: HashSet::new(),
            rendering: HashMap::new(),
            withdrawn: Recent::new(REMEMBERED_WITHDRAWALS),
            closed: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new(), channel }
    }

    /// Serves the socket to its end and says why it ended.
    pub(super) async fn run(&self) -> String {
        let reason = loop {
            match self.channel.receive().await {
                Ok(Some(packet)) => {
                    if let Err(reason) = self.receive(packet) {
                        break reason;
                    }
                }
                Ok(None) => break "the receiver has closed the link".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        // Not `end_sending`: the receiver takes the end of this stream as proof that no buffer of
        // this process is left, and some may be.
        self.channel.discard_queued();
        let slots = {
            let mut state = self.lock();
            state.closed = Some(reason.clone());
            std::mem::take(&mut state.slots)
        };
        drop(slots); // Unmaps what is not being rendered in, outside the lock.
        self.changed.notify_waiters();
        reason
    }

    /// Waits for slot and permission, maps the slot and takes note of the buffer.
    pub(super) async fn begin(self: &Arc<Self>, place: &PartPlace) -> Result<Rendering, LinkError> {
        let slot = self.permitted_slot(place).await?;
        place::check(place, slot.len_bytes)?;
        let mapping = Arc::clone(slot.mapping.get_or_try_init(|| self.map(&slot)).await?);
        let mut state = self.lock();
        state.check_open(place.lease)?;
        if !state.permitted.contains(&place.lease) {
            return Err(LinkError::Withdrawn { lease: place.lease });
        }
        if let Some(lease) = state.in_the_way_of(place) {
            return Err(LinkError::Place {
                reason: format!(
                    "lease {} is for bytes of slot {} that lease {} is being rendered in",
                    place.lease.0, place.slot.0, lease.0
                ),
            });
        }
        let busy =
            Busy { slot: place.slot, regions: Arc::clone(&place.regions), answer_due: false };
        state.rendering.insert(place.lease, busy);
        drop(state);
        Ok(Rendering::new(mapping, Arc::clone(self), place.lease))
    }

    /// Tells the receiver that the lease's bytes are there.
    pub(super) async fn commit(&self, place: &PartPlace) -> Result<(), LinkError> {
        {
            let mut state = self.lock();
            state.check_open(place.lease)?;
            state.permitted.remove(&place.lease);
            // The receiver reads the slot after the packet that says so.
            fence(Ordering::Release);
            let fingerprint = place::fingerprint(place);
            // Under the lock, so that no answer to a withdrawal of this lease gets ahead of it.
            let message = ToReceiver::Commit { lease: place.lease, fingerprint };
            if self.channel.post(message.encode(), None) {
                return Ok(());
            }
        }
        self.channel.flushed().await;
        self.lock().check_connected()
    }

    /// The control stream's word that the lease is withdrawn.
    pub(super) fn withdraw(&self, lease: LeaseId) {
        self.lock().withdrawn.insert(lease);
        self.changed.notify_waiters();
    }

    /// The lease's buffer is gone from this process.
    pub(super) fn rendered(&self, lease: LeaseId) {
        let mut state = self.lock();
        if state.rendering.remove(&lease).is_some_and(|busy| busy.answer_due) {
            self.channel.post(ToReceiver::Quiet { lease }.encode(), None);
        }
    }

    async fn permitted_slot(&self, place: &PartPlace) -> Result<Arc<Slot>, LinkError> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                state.check_open(place.lease)?;
                if state.permitted.contains(&place.lease) {
                    // Slots are announced ahead of the leases on them.
                    return state.slots.get(&place.slot).cloned().ok_or_else(|| LinkError::Place {
                        reason: format!("slot {} is not known here", place.slot.0),
                    });
                }
            }
            changed.await;
        }
    }

    /// Maps a slot and faults its pages in, off the async threads.
    async fn map(&self, slot: &Arc<Slot>) -> Result<Arc<Mapping>, LinkError> {
        let slot = Arc::clone(slot);
        let mapped = tokio::task::spawn_blocking(move || slot.map()).await;
        let mapped = mapped.unwrap_or_else(|error| Err(error.to_string()));
        mapped.map(Arc::new).map_err(|reason| LinkError::Setup { kind: LinkKind::Shm, reason })
    }

    fn receive(&self, packet: Packet) -> Result<(), String> {
        let message =
            ToWorker::decode(&packet.bytes).ok_or("the receiver sent no known message")?;
        let mut state = self.lock();
        match message {
            ToWorker::Slot { slot, len_bytes } => {
                let file = packet.fd.ok_or("a slot came without its file")?;
                let slot_file = Slot { file, len_bytes, mapping: OnceCell::new() };
                state.slots.insert(slot, Arc::new(slot_file));
            }
            ToWorker::Forget { slot } => {
                state.slots.remove(&slot);
            }
            ToWorker::Expect { lease } => {
                state.permitted.insert(lease);
            }
            ToWorker::Withdraw { lease } => {
                state.permitted.remove(&lease);
                state.withdrawn.insert(lease);
                match state.rendering.get_mut(&lease) {
                    Some(busy) => busy.answer_due = true,
                    None => {
                        self.channel.post(ToReceiver::Quiet { lease }.encode(), None);
                    }
                }
            }
            ToWorker::Accepted | ToWorker::Refused { .. } => {
                return Err("the receiver answered a hello twice".to_owned());
            }
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn check_connected(&self) -> Result<(), LinkError> {
        match &self.closed {
            Some(reason) => Err(LinkError::Closed { kind: LinkKind::Shm, reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// A lease whose buffer is out and has bytes of this place.
    fn in_the_way_of(&self, place: &PartPlace) -> Option<LeaseId> {
        let in_the_way = |lease: LeaseId, busy: &Busy| {
            lease == place.lease
                || (busy.slot == place.slot && place::overlap(&busy.regions, &place.regions))
        };
        self.rendering
            .iter()
            .find(|(lease, busy)| in_the_way(**lease, busy))
            .map(|(lease, _)| *lease)
    }

    fn check_open(&self, lease: LeaseId) -> Result<(), LinkError> {
        self.check_connected()?;
        if self.withdrawn.contains(lease) {
            return Err(LinkError::Withdrawn { lease });
        }
        Ok(())
    }
}

// === impl Slot ===

impl Slot {
    fn map(&self) -> Result<Mapping, String> {
        let stat = rustix::fs::fstat(&self.file).map_err(|error| error.to_string())?;
        // A shorter file would kill this process with SIGBUS in the middle of a part.
        if u64::try_from(stat.st_size).is_ok_and(|size| size < self.len_bytes) {
            let (have, want) = (stat.st_size, self.len_bytes);
            return Err(format!("the slot's file has {have} bytes, not the {want} announced"));
        }
        let mapping = Mapping::of_file(&self.file, self.len_bytes)
            .map_err(|error| format!("cannot map a slot of {} bytes: {error}", self.len_bytes))?;
        mapping.populate();
        Ok(mapping)
    }
}
