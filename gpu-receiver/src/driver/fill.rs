//! Orders batches while there is room in the window and a slot to make them in.

use std::sync::Arc;

use headwater_core::Layout;
use headwater_core::sampler::SamplerError;
use headwater_trace::{Span, Tier};
use headwater_transport::SlotId;

use super::{Driver, Outcome};
use crate::error::ReceiverError;
use crate::ledger::{BatchOrder, Serial};
use crate::position::Position;
use crate::sample_order::Plan;

impl Driver {
    /// Orders what may be ordered now, and has the samples of the batch after it drawn, so that they
    /// are there when there is room for it.
    ///
    /// # Errors
    /// The order of samples or a slot is not available.
    pub(super) fn fill(&mut self) -> Result<(), ReceiverError> {
        let room = self.ledger.open_batches() + self.mailbox.ready() < self.window_batches;
        if room
            && self.state.drawn.is_some()
            && !self.is_too_far_ahead()
            && let Some((serial, plan)) = self.state.drawn.take()
        {
            let plan = plan?;
            if let Some(plan) = self.order_next(serial, plan)? {
                self.state.drawn = Some((serial, Ok(plan)));
            }
        }
        self.draw();
        Ok(())
    }

    /// Orders a batch of this host's service, or of the workers; gives it back where that cannot be yet.
    fn order_next(&mut self, serial: Serial, plan: Plan) -> Result<Option<Plan>, ReceiverError> {
        let at = plan.at;
        let far = at.epoch > self.mailbox.position().epoch.saturating_add(self.epochs_ahead);
        if far || self.is_over(at) {
            return Ok(Some(plan));
        }
        // Not before the trainer has taken what the scales follow from.
        let Some(scales) = self.scaling.scales(at) else { return Ok(Some(plan)) };
        if self.host_has(at) {
            return Ok(self.ask_host(serial, plan, scales));
        }
        match self.slots.take()? {
            Some(slot) => {
                self.order_batch(serial, plan, slot, scales);
                Ok(None)
            }
            None => Ok(Some(plan)),
        }
    }

    fn order_batch(&mut self, serial: Serial, plan: Plan, slot: SlotId, fp8_scales: Vec<f32>) {
        let Plan { at: Position { epoch, step }, group, samples } = plan;
        let job_step = self.order.job_step(epoch, step);
        self.spans.on_ordered(serial, Position { epoch, step }, samples.len());
        let bucket = self.recipe.bucket_of(group);
        let layout = self.layout(samples.len() as u32, bucket);
        self.ledger.order(BatchOrder {
            serial,
            epoch,
            step,
            job_step,
            slot,
            layout,
            group,
            bucket,
            samples,
            fp8_scales,
        });
        self.go_on_at(Position { epoch, step: step + 1 });
    }

    /// Has the next batch's samples drawn, unless they are there or on their way.
    fn draw(&mut self) {
        let state = &self.state;
        let busy = state.reordering || state.drawing.is_some() || state.drawn.is_some();
        if busy || self.is_over(self.place()) {
            return;
        }
        let at = self.place();
        let state = &mut self.state;
        let serial = state.next_serial;
        state.next_serial = Serial(serial.0 + 1);
        state.drawing = Some(serial);
        let (order, stats) = (Arc::clone(&self.order), Arc::clone(&self.stats));
        self.start(move || {
            let mut drawing = Span::on_thread(Tier::Receiver, "draw samples");
            drawing.arg("epoch", at.epoch);
            drawing.arg("step", at.step);
            stats.show_weights(&order.weights(at));
            Outcome::Drawn(serial, order.plan(at))
        });
    }

    /// Samples were drawn; those of a batch that nobody wants any more are dropped.
    pub(super) fn on_drawn(&mut self, serial: Serial, plan: Result<Plan, SamplerError>) {
        if self.state.drawing == Some(serial) {
            self.state.drawing = None;
            self.state.drawn = Some((serial, plan));
        }
    }

    pub(super) fn forget_drawn(&mut self) {
        self.state.drawing = None;
        self.state.drawn = None;
    }

    fn is_over(&self, at: Position) -> bool {
        self.epochs > 0 && at.epoch >= self.epochs || self.order.is_at_end(at)
    }

    pub(super) fn layout(&mut self, samples: u32, bucket: u32) -> Arc<Layout> {
        let make = || Arc::new(Layout::new(&self.recipe.in_bucket(bucket), samples));
        Arc::clone(self.state.layouts.entry((samples, bucket)).or_insert_with(make))
    }
}
