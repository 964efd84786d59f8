//! The receiver's slots: which are free, which are in use, which a late writer still holds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use headwater_transport::{LinkError, LinkKind, ReceiverLink, SlotId, SlotMemory};

use crate::ledger::Ledger;

/// All slots of a receiver. A slot is free, in use (being filled or held by the trainer), or
/// quarantined: given back, but somebody may still write to it.
pub(crate) struct SlotPool {
    memory: BTreeMap<SlotId, Arc<SlotMemory>>,
    free: Vec<SlotId>,
    quarantined: Vec<SlotId>,
    links: Vec<Arc<dyn ReceiverLink>>,
    make: SlotMaker,
    limit: usize,
}

/// How slots are made.
pub(crate) struct SlotMaker {
    pub(crate) len_bytes: u64,
    pub(crate) shm_dir: PathBuf,
    pub(crate) shared: bool,
    pub(crate) huge_pages: bool,
}

// === impl SlotMaker ===

impl SlotMaker {
    fn make(&self) -> Result<Arc<SlotMemory>, LinkError> {
        let made = if self.shared {
            SlotMemory::shared(&self.shm_dir, self.len_bytes, self.huge_pages)
        } else {
            SlotMemory::private(self.len_bytes, self.huge_pages)
        };
        let kind = if self.shared { LinkKind::Shm } else { LinkKind::Tcp };
        made.map(Arc::new).map_err(|e| LinkError::Setup { kind, reason: e.to_string() })
    }
}

// === impl SlotPool ===

impl SlotPool {
    pub(crate) fn new(make: SlotMaker, links: Vec<Arc<dyn ReceiverLink>>, limit: usize) -> Self {
        let (memory, free, quarantined) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { memory, free, quarantined, links, make, limit }
    }

    /// A free slot, a new one if there may be more; `None` where all are in use.
    ///
    /// # Errors
    /// The memory cannot be had or registered.
    pub(crate) fn take(&mut self) -> Result<Option<SlotId>, LinkError> {
        if let Some(slot) = self.free.pop() {
            return Ok(Some(slot));
        }
        if self.memory.len() >= self.limit {
            return Ok(None);
        }
        self.add().map(Some)
    }

    /// Makes slots until there are `count`, so that the lack of memory shows at the start.
    ///
    /// # Errors
    /// As for [`SlotPool::take`].
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), LinkError> {
        while self.memory.len() < count.min(self.limit) {
            let slot = self.add()?;
            self.free.push(slot);
        }
        Ok(())
    }

    fn add(&mut self) -> Result<SlotId, LinkError> {
        let memory = self.make.make()?;
        let slot = SlotId(self.memory.len() as u32);
        for link in &self.links {
            link.add_slot(slot, Arc::clone(&memory))?;
        }
        self.memory.insert(slot, memory);
        Ok(slot)
    }

    /// Takes a slot back that nobody reads any more.
    pub(crate) fn give_back(&mut self, slot: SlotId, ledger: &Ledger) {
        if ledger.slot_is_quiet(slot) {
            self.free.push(slot);
        } else {
            self.quarantined.push(slot);
        }
    }

    /// Frees the quarantined slots whose last writer has ended.
    pub(crate) fn settle(&mut self, ledger: &Ledger) {
        let (quiet, open): (Vec<_>, Vec<_>) =
            self.quarantined.drain(..).partition(|&slot| ledger.slot_is_quiet(slot));
        self.free.extend(quiet);
        self.quarantined = open;
    }

    pub(crate) fn memory(&self, slot: SlotId) -> &Arc<SlotMemory> {
        &self.memory[&slot]
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether every slot there may be is in somebody's hands.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.is_empty() && self.memory.len() >= self.limit
    }

    pub(crate) fn quarantined(&self) -> usize {
        self.quarantined.len()
    }
}
