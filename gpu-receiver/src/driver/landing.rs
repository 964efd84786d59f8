//! Parts that have come, to the slot or to its twin on a GPU, and batches that are whole.

use std::sync::Arc;
use std::time::Duration;

use headwater_trace::{Span, Tier};
use headwater_transport::{LinkKind, PartPlace};
use tokio::time::Instant;

use super::{Driver, Outcome};
use crate::batch::{Batch, Hold, Home};
use crate::error::ReceiverError;
use crate::ledger::{FinishedBatch, Landing};
use crate::stall::History;

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
            let mut checking = Span::on_thread(Tier::Receiver, "verify part");
            checking.arg("lease", lease.0);
            checking.arg("samples", samples);
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
        let sending = Instant::now();
        let device = match (self.slots.twins(), &slot.device) {
            (Some(twins), Some(twin)) => {
                let _copying = Span::on_thread(Tier::Receiver, "start copy to GPU");
                Some(twins.upload(twin, &finished.order.layout, &finished.on_host)?)
            }
            _ => None,
        };
        let device_time = if device.is_some() { sending.elapsed() } else { Duration::ZERO };
        let history = History::of(&finished.last, device_time, self.state.started);
        self.stats.on_batch(finished.order.samples.len());
        let (serial, epoch, step) =
            (finished.order.serial, finished.order.epoch, finished.order.step);
        let spans = self.spans.on_finished(serial, epoch, step);
        let home = Home { memory, device, hold: Hold::Slot(self.releases.clone()), spans };
        self.mailbox.put(Batch::new(finished, home, self.masking.clone(), history));
        Ok(())
    }
}
