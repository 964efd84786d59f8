//! Parts that have come, to the slot or to its twin on a GPU, and batches that are whole.

use std::sync::Arc;

use headwater_transport::{LinkKind, PartPlace, PeerId};

use super::{Driver, Event};
use crate::batch::{Batch, Home};
use crate::config::Verify;
use crate::error::ReceiverError;
use crate::ledger::{FinishedBatch, Landing, Serial};

impl Driver {
    /// Where the parts of a link come to.
    pub(super) fn landing(&self, kind: LinkKind) -> Landing {
        match self.slots.is_written_on_device(kind) {
            true => Landing::Device,
            false => Landing::Host,
        }
    }

    /// Has a part compared with its checksum, where that is asked for.
    pub(super) fn verify(
        &mut self,
        peer: PeerId,
        place: &PartPlace,
        landing: Landing,
        samples: usize,
        checksum: u64,
    ) {
        let kind = self.state.sessions.get(&peer).map(|session| session.link.kind());
        let bytes: u64 = place.regions.iter().map(|region| region.len_bytes).sum();
        self.stats.part_arrived(kind, landing, bytes);
        let wanted = match self.verify {
            Verify::All => true,
            Verify::Network => kind != Some(LinkKind::Shm),
            Verify::Off => false,
        };
        let lease = place.lease;
        if !wanted {
            self.ledger.verified(lease, true, self.now());
            return;
        }
        let slot = self.slots.slot(place.slot);
        let memory = Arc::clone(&slot.memory);
        let twin = slot.device.clone().filter(|_| landing == Landing::Device);
        let regions = Arc::clone(&place.regions);
        let events = self.sessions_shared.events.clone();
        self.state.tasks.spawn_blocking(move || {
            let found = match twin {
                Some(twin) => twin.checksum(&regions, samples),
                None => Ok(memory.checksum(&regions, samples)),
            };
            let equal = found.map(|found| found == checksum);
            let _ = events.send(Event::Verified { lease, equal });
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
        self.stats.batch_ready(finished.order.samples.len());
        let course = match finished.order.serial >= Serial(self.state.first_serial_of_course) {
            true => self.state.course,
            false => self.state.course.wrapping_sub(1),
        };
        let home = Home { memory, device, release: self.releases.clone() };
        let batch = Batch::new(finished, home, self.masking.clone());
        self.mailbox.put(course, batch);
        Ok(())
    }
}
