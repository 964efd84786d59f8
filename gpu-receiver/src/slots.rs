//! The receiver's slots: which are free, which are in use, which a late writer or a copy still holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_cuda::{CudaError, DeviceSlot};
use headwater_transport::{DeviceWindow, LinkError, LinkKind, ReceiverLink, SlotId, SlotMemory};

use crate::config::GpuDirect;
use crate::device::DeviceSlots;
use crate::error::ReceiverError;
use crate::ledger::Ledger;
use crate::metrics;

/// A slot that could not be made anew is not tried again for so long.
const MISSING_PAUSE: Duration = Duration::from_millis(500);

/// All slots of a receiver. A slot is free, in use (being filled or held by the trainer), or
/// quarantined: given back, but somebody may still write to it, it is still copied to a GPU, or a GPU
/// still reads its twin, to which cards or other processes write. A tainted slot is never free again: when it could
/// be, it is given up, and another may be made under a new number.
pub(crate) struct SlotPool {
    slots: BTreeMap<SlotId, Slot>,
    free: Vec<SlotId>,
    quarantined: Vec<SlotId>,
    /// A worker that was killed had leases on these over a link whose GPU may write on; its name.
    tainted: BTreeMap<SlotId, String>,
    /// Slots that were given up, and that none has taken the place of.
    missing: usize,
    /// The workers of those.
    lost_workers: BTreeSet<String>,
    /// The last try to make one in the place of those, which failed.
    unmade: Option<Unmade>,
    /// Number of the next one: none is used twice.
    next: u32,
    links: Vec<Arc<dyn ReceiverLink>>,
    /// Workers may have heard of the links.
    offered: bool,
    make: SlotMaker,
    /// The links that write to twins, in the place of slots.
    on_device: Vec<LinkKind>,
    /// The GPU could not say whether a slot is free.
    failed: Option<CudaError>,
    limit: usize,
}

/// A try to make a slot in the place of one that was given up, which failed.
struct Unmade {
    /// Until when none is made.
    until: Instant,
    error: String,
}

/// Slots that were given up and cannot be made anew.
pub(crate) struct MissingSlots {
    pub(crate) count: usize,
    /// Names of the lost workers.
    pub(crate) workers: String,
    /// Why the last try failed.
    pub(crate) reason: String,
}

/// A slot, with its twin where batches go to a GPU.
pub(crate) struct Slot {
    pub(crate) memory: Arc<SlotMemory>,
    pub(crate) device: Option<Arc<DeviceSlot>>,
}

/// How slots are made.
pub(crate) struct SlotMaker {
    pub(crate) len_bytes: u64,
    pub(crate) shared: bool,
    pub(crate) huge_pages: bool,
    pub(crate) twins: Option<DeviceSlots>,
    /// Whether workers import twins.
    pub(crate) exportable: bool,
    /// Whether cards write to twins.
    pub(crate) gpudirect: GpuDirect,
}

// === impl SlotMaker ===

impl SlotMaker {
    /// `may_refuse`: where twins cannot be exported, workers import none.
    fn make(&mut self, may_refuse: bool) -> Result<Slot, ReceiverError> {
        let made = if self.shared {
            SlotMemory::shared(self.len_bytes, self.huge_pages)
        } else {
            SlotMemory::private(self.len_bytes, self.huge_pages)
        };
        let memory = Arc::new(made.map_err(LinkError::from)?);
        let Some(twins) = &self.twins else { return Ok(Slot { memory, device: None }) };
        if self.exportable {
            match twins.exportable(Arc::clone(&memory)) {
                Err(error) if may_refuse => {
                    tracing::warn!(%error, "slots cannot be exported: no worker imports them");
                    self.exportable = false;
                }
                made => return Ok(Slot { memory, device: Some(made?) }),
            }
        }
        let device = Some(twins.of(Arc::clone(&memory))?);
        Ok(Slot { memory, device })
    }
}

// === impl Slot ===

impl Slot {
    /// Whether nothing reads it to copy it; where cards write to the twin, nothing that either.
    fn is_done_with(&self, direct: bool) -> Result<bool, CudaError> {
        match &self.device {
            None => Ok(true),
            Some(device) if direct => device.is_unused(),
            Some(device) => device.is_uploaded(),
        }
    }
}

// === impl SlotPool ===

impl SlotPool {
    pub(crate) fn new(make: SlotMaker, links: Vec<Arc<dyn ReceiverLink>>, limit: usize) -> Self {
        let (slots, free, quarantined) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (tainted, missing, unmade, next) = (BTreeMap::new(), 0, None, 0);
        let (offered, on_device, failed) = (false, Vec::new(), None);
        Self {
            slots,
            free,
            quarantined,
            tainted,
            missing,
            lost_workers: BTreeSet::new(),
            unmade,
            next,
            links,
            offered,
            make,
            on_device,
            failed,
            limit,
        }
    }

    /// The links that have all slots, to be offered to workers: from here on none is withdrawn.
    pub(crate) fn offer(&mut self) -> Vec<Arc<dyn ReceiverLink>> {
        self.offered = true;
        self.links.clone()
    }

    /// A free slot, a new one if there may be more; `None` where all are in use. Where a link cannot have
    /// a further one, there are no more than those.
    ///
    /// # Errors
    /// The memory is not available, or not even one slot registered, or the GPU that has twins
    /// fails.
    pub(crate) fn take(&mut self) -> Result<Option<SlotId>, ReceiverError> {
        if let Some(error) = self.failed.clone() {
            return Err(error.into());
        }
        if let Some(slot) = self.free.pop() {
            return Ok(Some(slot));
        }
        if self.slots.len() >= self.limit
            || self.unmade.as_ref().is_some_and(|unmade| Instant::now() < unmade.until)
        {
            return Ok(None);
        }
        match self.add() {
            Ok(slot) => {
                self.missing = self.missing.saturating_sub(1);
                if self.missing == 0 {
                    self.lost_workers.clear();
                }
                self.unmade = None;
                Ok(Some(slot))
            }
            // The memory of a slot that was given up is free when the last process that has it mapped lets go of it.
            Err(error @ (ReceiverError::Link(_) | ReceiverError::Device(_)))
                if self.missing > 0 =>
            {
                if self.unmade.is_none() {
                    let slots = self.slots.len();
                    tracing::warn!(%error, slots, "a slot that was given up is not replaced yet: tried again");
                }
                let until = Instant::now() + MISSING_PAUSE;
                self.unmade = Some(Unmade { until, error: error.to_string() });
                Ok(None)
            }
            Err(ReceiverError::Link(error)) if !self.slots.is_empty() => {
                self.limit = self.slots.len();
                tracing::warn!(%error, slots = self.limit, "no further slot can be had: no more are made");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes slots until there are `count`, so that the lack of memory shows at the start; all that may
    /// exist where a card writes to twins, since a card may take less of a GPU's memory than there is.
    /// Must be called before any worker knows of a slot.
    ///
    /// # Errors
    /// As for [`SlotPool::take`].
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), ReceiverError> {
        while self.slots.len() < self.limit
            && (self.slots.len() < count || !self.on_device.is_empty())
        {
            let slot = self.add()?;
            self.free.push(slot);
        }
        if self.make.huge_pages {
            self.tell_of_huge_pages();
        }
        Ok(())
    }

    /// Says how much of the slots got huge pages, which the kernel may not have.
    fn tell_of_huge_pages(&self) {
        let wanted: u64 = self.slots.values().map(|slot| slot.memory.len_bytes()).sum();
        let huge = self.slots.values().map(|slot| slot.memory.huge_bytes()).sum::<Option<u64>>();
        match huge {
            Some(huge) if huge >= wanted / 2 => {
                tracing::info!(huge, bytes = wanted, "slots are in huge pages");
            }
            huge => tracing::warn!(
                huge = huge.unwrap_or(0),
                bytes = wanted,
                "slots did not get the huge pages of receiver.huge_pages: see `headwater doctor`"
            ),
        }
    }

    fn add(&mut self) -> Result<SlotId, ReceiverError> {
        let may_refuse = !self.offered && self.slots.is_empty() && self.links.len() > 1;
        let slot = self.make.make(may_refuse)?;
        let number = SlotId(self.next);
        self.next += 1;
        let mut given = Vec::new();
        for link in self.links.clone() {
            let added = match self.add_twin(&*link, number, &slot) {
                Ok(false) => link.add_slot(number, Arc::clone(&slot.memory)).map_err(Into::into),
                other => other.map(drop),
            };
            match added {
                Ok(()) => given.push(link),
                Err(ReceiverError::Link(error)) if self.may_withdraw(&link) => {
                    self.withdraw(link.kind(), &error);
                }
                Err(error) => {
                    given.iter().for_each(|link| link.remove_slot(number));
                    return Err(error);
                }
            }
        }
        self.slots.insert(number, slot);
        Ok(number)
    }

    /// Whether the receiver can do without a link that cannot have its slots. No worker knows of it yet,
    /// others are there, and nobody has asked that cards write to the GPU.
    fn may_withdraw(&self, link: &Arc<dyn ReceiverLink>) -> bool {
        let by_card = link.kind().facts().writes_by_card();
        let demanded = self.make.gpudirect == GpuDirect::On && by_card;
        !self.offered && self.links.len() > 1 && !demanded
    }

    /// Ends a link, and with it what was registered for it.
    fn withdraw(&mut self, kind: LinkKind, error: &LinkError) {
        tracing::warn!(%error, "the {kind} link is not offered: it cannot have the slots");
        self.links.retain(|link| link.kind() != kind);
        self.on_device.retain(|on_device| *on_device != kind);
    }

    /// Lets the link's card, or its workers' GPUs, write to the slot's twin; `false`: the link is to write to the slot.
    /// Where a card cannot write to all twins it writes to none.
    fn add_twin(
        &mut self,
        link: &dyn ReceiverLink,
        number: SlotId,
        slot: &Slot,
    ) -> Result<bool, ReceiverError> {
        let takes = link.takes_device_slots();
        let (Some(takes), Some(twins), Some(twin)) = (takes, &self.make.twins, &slot.device) else {
            return Ok(false);
        };
        let kind = link.kind();
        let by_card = kind.facts().writes_by_card();
        if by_card && self.make.gpudirect == GpuDirect::Off {
            return Ok(false);
        }
        let checked = if by_card { twins.check_peer_writes() } else { Ok(()) };
        let added = checked.map_err(ReceiverError::from).and_then(|()| {
            Ok(takes.add_device_slot(number, Arc::clone(twin) as Arc<dyn DeviceWindow>)?)
        });
        match added {
            Ok(()) if self.on_device.contains(&kind) => {}
            Ok(()) => self.on_device.push(kind),
            // Later workers know of the slots, and what has arrived in twins must be found there.
            Err(error) if by_card && self.make.gpudirect == GpuDirect::Auto && !self.offered => {
                tracing::info!(%error, "the {kind} link writes to the host's memory");
                self.make.gpudirect = GpuDirect::Off;
                self.on_device.retain(|on_device| *on_device != kind);
                for (&number, slot) in &self.slots {
                    link.remove_slot(number);
                    link.add_slot(number, Arc::clone(&slot.memory))?;
                }
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Whether parts of this link come to twins.
    pub(crate) fn is_written_on_device(&self, link: LinkKind) -> bool {
        self.on_device.contains(&link)
    }

    /// Takes a slot back that nobody reads any more.
    pub(crate) fn give_back(&mut self, slot: SlotId, ledger: &Ledger) {
        if !self.is_free(slot, ledger) {
            self.quarantined.push(slot);
        } else if let Some(worker) = self.tainted.remove(&slot) {
            self.give_up(slot, worker);
        } else {
            self.free.push(slot);
        }
    }

    /// A worker is gone that may write on, by its GPU, to slots that it had leases on.
    pub(crate) fn taint(&mut self, slots: impl IntoIterator<Item = SlotId>, worker: &str) {
        // None of them is free: somebody could write to it until now.
        self.tainted.extend(slots.into_iter().map(|slot| (slot, worker.to_owned())));
    }

    /// Lets go of a slot for good. Its memory stays as long as a process that is gone has it mapped; no other slot has it.
    fn give_up(&mut self, slot: SlotId, worker: String) {
        tracing::warn!(
            slot = slot.0,
            worker,
            "a worker was lost while it could write to this slot by its GPU: the slot is made anew"
        );
        metrics::slot_given_up();
        self.missing += 1;
        self.lost_workers.insert(worker);
        self.links.iter().for_each(|link| link.remove_slot(slot));
        self.slots.remove(&slot);
    }

    /// Frees the quarantined slots whose last writer and copy have ended, and the last reader of a twin
    /// that a card writes to.
    pub(crate) fn settle(&mut self, ledger: &Ledger) {
        let quarantined = std::mem::take(&mut self.quarantined);
        quarantined.into_iter().for_each(|slot| self.give_back(slot, ledger));
    }

    /// If the GPU cannot tell whether a slot is free, the slot counts as busy, and the stream ends
    /// when a slot is wanted.
    fn is_free(&mut self, slot: SlotId, ledger: &Ledger) -> bool {
        let direct = !self.on_device.is_empty();
        let done = ledger.slot_is_quiet(slot).then(|| self.slots[&slot].is_done_with(direct));
        match done.transpose() {
            Ok(done) => done.unwrap_or(false),
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }

    pub(crate) fn slot(&self, slot: SlotId) -> &Slot {
        &self.slots[&slot]
    }

    /// The same; `None`: it was given up.
    pub(crate) fn slot_still(&self, slot: SlotId) -> Option<&Slot> {
        self.slots.get(&slot)
    }

    /// What copies slots to a GPU.
    pub(crate) fn twins(&self) -> Option<&DeviceSlots> {
        self.make.twins.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether every slot that can be made now is in somebody's hands.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.is_empty() && (self.slots.len() >= self.limit || self.unmade.is_some())
    }

    /// The slots that were given up, if the last try to make one in their place failed.
    pub(crate) fn missing(&self) -> Option<MissingSlots> {
        let reason = self.unmade.as_ref()?.error.clone();
        let workers: Vec<&str> = self.lost_workers.iter().map(String::as_str).collect();
        Some(MissingSlots { count: self.missing, workers: workers.join(", "), reason })
    }

    pub(crate) fn quarantined(&self) -> usize {
        self.quarantined.len()
    }
}

#[cfg(test)]
mod tests;
