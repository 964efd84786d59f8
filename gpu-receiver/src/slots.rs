//! The receiver's slots: which are free, which are in use, which a late writer or a copy still holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_cuda::{CudaError, DeviceSlot};
use headwater_transport::{DeviceWindow, LinkError, LinkKind, ReceiverLink, SlotId, SlotMemory};

use crate::config::GpuDirect;
use crate::device::DeviceSlots;
use crate::error::ReceiverError;
use crate::ledger::Ledger;

/// All slots of a receiver. A slot is free, in use (being filled or held by the trainer), or
/// quarantined: given back, but somebody may still write to it, it is still copied to a GPU, or a GPU
/// still reads its twin, to which cards write.
pub(crate) struct SlotPool {
    slots: BTreeMap<SlotId, Slot>,
    free: Vec<SlotId>,
    quarantined: Vec<SlotId>,
    links: Vec<Arc<dyn ReceiverLink>>,
    /// Workers may have heard of the links.
    offered: bool,
    make: SlotMaker,
    /// The link that writes to twins, in the place of slots.
    on_device: Option<LinkKind>,
    /// The GPU could not say whether a slot is free.
    failed: Option<CudaError>,
    limit: usize,
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
    /// Whether cards write to twins.
    pub(crate) gpudirect: GpuDirect,
}

// === impl SlotMaker ===

impl SlotMaker {
    fn make(&self) -> Result<Slot, ReceiverError> {
        let made = if self.shared {
            SlotMemory::shared(self.len_bytes, self.huge_pages)
        } else {
            SlotMemory::private(self.len_bytes, self.huge_pages)
        };
        let memory = Arc::new(made.map_err(LinkError::from)?);
        let twin = |twins: &DeviceSlots| twins.of(Arc::clone(&memory));
        let device = self.twins.as_ref().map(twin).transpose()?;
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
        let (offered, on_device, failed) = (false, None, None);
        Self { slots, free, quarantined, links, offered, make, on_device, failed, limit }
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
        if self.slots.len() >= self.limit {
            return Ok(None);
        }
        match self.add() {
            Ok(slot) => Ok(Some(slot)),
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
            && (self.slots.len() < count || self.on_device.is_some())
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
        let slot = self.make.make()?;
        let number = SlotId(self.slots.len() as u32);
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
        let demanded = self.make.gpudirect == GpuDirect::On && link.takes_device_slots().is_some();
        !self.offered && self.links.len() > 1 && !demanded
    }

    /// Ends a link, and with it what was registered for it.
    fn withdraw(&mut self, kind: LinkKind, error: &LinkError) {
        tracing::warn!(%error, "the {kind} link is not offered: it cannot have the slots");
        self.links.retain(|link| link.kind() != kind);
        if self.on_device == Some(kind) {
            self.on_device = None;
        }
    }

    /// Lets the link's card write to the slot's twin; `false`: it is to write to the slot. Where it cannot
    /// write to all twins it writes to none.
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
        if self.make.gpudirect == GpuDirect::Off {
            return Ok(false);
        }
        let added = twins.check_peer_writes().map_err(ReceiverError::from).and_then(|()| {
            Ok(takes.add_device_slot(number, Arc::clone(twin) as Arc<dyn DeviceWindow>)?)
        });
        match added {
            Ok(()) => self.on_device = Some(link.kind()),
            Err(error) if self.make.gpudirect == GpuDirect::Auto => {
                tracing::info!(%error, "the {} link writes to the host's memory", link.kind());
                self.make.gpudirect = GpuDirect::Off;
                self.on_device = None;
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
        self.on_device == Some(link)
    }

    /// Takes a slot back that nobody reads any more.
    pub(crate) fn give_back(&mut self, slot: SlotId, ledger: &Ledger) {
        if self.is_free(slot, ledger) {
            self.free.push(slot);
        } else {
            self.quarantined.push(slot);
        }
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
        let direct = self.on_device.is_some();
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

    /// What copies slots to a GPU.
    pub(crate) fn twins(&self) -> Option<&DeviceSlots> {
        self.make.twins.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether every slot there may be is in somebody's hands.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= self.limit
    }

    pub(crate) fn quarantined(&self) -> usize {
        self.quarantined.len()
    }
}

#[cfg(test)]
mod tests;
