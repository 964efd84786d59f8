//! Which slots somebody may still write to.

use std::collections::BTreeMap;

use headwater_transport::SlotId;

/// Open writers of each slot; a slot without any is quiet.
#[derive(Default)]
pub(super) struct WriterCounts {
    open: BTreeMap<SlotId, u32>,
}

impl WriterCounts {
    pub(super) fn opened(&mut self, slot: SlotId) {
        *self.open.entry(slot).or_default() += 1;
    }

    pub(super) fn closed(&mut self, slot: SlotId) {
        let left = self.open.get_mut(&slot).map(|count| {
            *count -= 1;
            *count
        });
        debug_assert!(left.is_some(), "a writer of slot {} was closed twice", slot.0);
        if left == Some(0) {
            self.open.remove(&slot);
        }
    }

    pub(super) fn is_quiet(&self, slot: SlotId) -> bool {
        !self.open.contains_key(&slot)
    }

    pub(super) fn slots(&self) -> usize {
        self.open.len()
    }
}
