//! Orders batches while there is room in the window and a slot to make them in.

use std::sync::Arc;

use headwater_core::Layout;

use super::{Driver, lock};
use crate::ReceiverError;
use crate::ledger::{BatchOrder, Serial};
use crate::mailbox::Position;

impl Driver {
    /// Orders what may be ordered now.
    ///
    /// # Errors
    /// The order of samples or a slot cannot be had.
    pub(super) fn fill(&mut self) -> Result<(), ReceiverError> {
        while self.ledger.open_batches() + self.mailbox.ready() < self.window_batches {
            let Position { epoch, step } = self.state.fill;
            let far = epoch > self.mailbox.position().epoch.saturating_add(self.epochs_ahead);
            if far || (self.epochs > 0 && epoch >= self.epochs) {
                break;
            }
            if step >= lock(&self.sampler).steps_per_epoch(epoch) {
                self.state.fill = Position { epoch: epoch + 1, step: 0 };
                continue;
            }
            // Not before the trainer has taken what the scales follow from.
            let Some(fp8_scales) = self.scaling.scales(self.state.fill) else { break };
            let Some(slot) = self.slots.take()? else { break };
            let plan = lock(&self.sampler).batch(epoch, step)?;
            let layout = self.layout(plan.samples.len() as u32);
            let serial = Serial(self.state.next_serial);
            let samples = plan.samples;
            let order = BatchOrder { serial, epoch, step, slot, layout, samples, fp8_scales };
            self.ledger.order(order);
            self.state.next_serial += 1;
            self.state.fill.step += 1;
            self.ordered.send_replace(self.state.fill);
        }
        Ok(())
    }

    fn layout(&mut self, samples: u32) -> Arc<Layout> {
        let make = || Arc::new(Layout::new(&self.recipe, samples));
        Arc::clone(self.state.layouts.entry(samples).or_insert_with(make))
    }
}
