//! Parts that have come, to the slot or to its twin on a GPU, and batches that are whole.

use std::sync::Arc;

use headwater_transport::{LinkKind, PartPlace};

use super::{Driver, Outcome};
use crate::batch::{Batch, Home};
use crate::error::ReceiverError;
use crate::ledger::{FinishedBatch, Landing};

impl Driver {
    /// Where the parts of a link come to.
    pub(super) fn landing(&self, kind: LinkKind) -> Landing {
        match self.slots.is_written_on_device(kind) {
            true => Landing::Device,
            false => Landing::Host,
        }
    }

    /// Has a part compared with its checksum.
    pub(super) fn verify(
        &mut self,
        place: &PartPlace,
        landing: Landing,
        samples: usize,
        checksum: u64,
    ) {
        let lease = place.lease;
        let slot = self.slots.slot(place.slot);
        let memory = Arc::clone(&slot.memory);
        let twin = slot.device.clone().filter(|_| landing == Landing::Device);
        let regions = Arc::clone(&place.regions);
        self.start(move || {
            let found = match twin {
                Some(twin) => twin.checksum(&regions, samples),
                None => Ok(memory.checksum(&regions, samples)),
            };
            Outcome::Verified(lease, found.map(|found| found == checksum))
        });
    }

    pub(super) fn deliver(&mut self, finished: FinishedBatch) -> Result<(), ReceiverError> {
        let slot = self.slots.slot(finished.order.slot);
        let memory = Arc::clone(&slot.memory);
        let device = match (self.slots.twins(), &slot.device) {
            (Some(twins), Some(twin)) => {
                Some(twins.upload(twin, &finished.order.layout, &finished.on_host)?)
            }
            _ => None,
        };
        self.stats.on_batch(finished.order.samples.len());
        let home = Home { memory, device, release: self.releases.clone(), _tie: None };
        self.mailbox.put(Batch::new(finished, home, self.masking.clone()));
        Ok(())
    }
}
