//! Which batch is ordered next: its place in the stream, its samples, its scales, its layout.
//!
//! What the sampler is asked for is CPU work: it is given back to be started, and nothing is drawn until it
//! has answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_core::sampler::{Restored, SamplerError, State, Term};
use headwater_core::{Layout, Recipe};
use headwater_trace::{Span, Tier};
use headwater_transport::SlotId;
use tokio::sync::{oneshot, watch};

use super::{CpuWork, Outcome};
use crate::config::ReceiverConfig;
use crate::error::ReceiverError;
use crate::ledger::{BatchOrder, Serial};
use crate::position::Position;
use crate::sample_order::{Plan, SampleOrder};
use crate::scaling::Scaling;
use crate::stats::Stats;

/// The order of batches, up to the one that is ordered next.
pub(super) struct Sequencer {
    order: Arc<SampleOrder>,
    recipe: Recipe,
    scaling: Arc<Scaling>,
    stats: Arc<Stats>,
    /// Batches that may be ordered and not taken.
    window_batches: usize,
    /// Epochs beyond the trainer's own that are begun early.
    epochs_ahead: u32,
    /// Number of epochs; 0: without end.
    epochs: u32,
    /// The place that is ordered or asked for next. Workers hear of it. There is no second copy: one that stood
    /// still would hold back all other receivers of the stream.
    ordered: watch::Sender<Position>,
    /// By samples and bucket.
    layouts: BTreeMap<(u32, u32), Arc<Layout>>,
    next_serial: Serial,
    /// The batch whose samples are being drawn.
    drawing: Option<Serial>,
    /// The batch that is ordered next.
    drawn: Option<(Serial, Result<Plan, SamplerError>)>,
    /// The order of samples is being changed: nothing is drawn meanwhile.
    reordering: bool,
}

/// A batch that may be ordered.
pub(super) struct NextBatch {
    pub(super) serial: Serial,
    pub(super) plan: Plan,
    /// Number of the size of its tensors.
    pub(super) bucket: u32,
    pub(super) fp8_scales: Vec<f32>,
}

// === impl Sequencer ===

impl Sequencer {
    pub(super) fn new(
        config: &ReceiverConfig,
        start: Position,
        order: Arc<SampleOrder>,
        recipe: Recipe,
        scaling: Arc<Scaling>,
        stats: Arc<Stats>,
    ) -> Self {
        Self {
            order,
            recipe,
            scaling,
            stats,
            window_batches: config.window.window_batches as usize,
            epochs_ahead: u32::from(config.window.prefetch_next_epoch),
            epochs: config.epochs,
            ordered: watch::Sender::new(start),
            layouts: BTreeMap::new(),
            next_serial: Serial(0),
            drawing: None,
            drawn: None,
            reordering: false,
        }
    }

    /// The place that is ordered next, as it changes.
    pub(super) fn ordered(&self) -> watch::Receiver<Position> {
        self.ordered.subscribe()
    }

    /// The place that is ordered next.
    pub(super) fn place(&self) -> Position {
        *self.ordered.borrow()
    }

    /// The step of that place, counted over epochs.
    pub(super) fn job_step(&self) -> u64 {
        let Position { epoch, step } = self.place();
        self.order.job_step(epoch, step)
    }

    /// The serial of the batch that is drawn next.
    pub(super) fn next_serial(&self) -> Serial {
        self.next_serial
    }

    /// Whether a batch is drawn, and there is room for it in the window beside `open` others.
    pub(super) fn has_next(&self, open: usize) -> bool {
        open < self.window_batches && self.drawn.is_some()
    }

    /// Takes the batch that is drawn, if it may be ordered while the trainer is at this place.
    ///
    /// # Errors
    /// The order of samples is not available.
    pub(super) fn take_next(
        &mut self,
        trainer: Position,
    ) -> Result<Option<NextBatch>, ReceiverError> {
        let Some((serial, plan)) = self.drawn.take() else { return Ok(None) };
        let plan = plan?;
        let far = plan.at.epoch > trainer.epoch.saturating_add(self.epochs_ahead);
        let waits = far || self.is_over(plan.at);
        // Not before the trainer has taken what the scales follow from.
        let scales = if waits { None } else { self.scaling.scales(plan.at) };
        let Some(fp8_scales) = scales else {
            self.drawn = Some((serial, Ok(plan)));
            return Ok(None);
        };
        let bucket = self.recipe.bucket_of(plan.group);
        Ok(Some(NextBatch { serial, plan, bucket, fp8_scales }))
    }

    /// Takes a batch back that cannot be ordered yet.
    pub(super) fn put_back(&mut self, next: NextBatch) {
        self.drawn = Some((next.serial, Ok(next.plan)));
    }

    /// The batch of this place is ordered or asked for.
    pub(super) fn on_ordered(&self, at: Position) {
        self.ordered.send_replace(Position { step: at.step + 1, ..at });
    }

    /// The order of a batch that is made in this slot.
    pub(super) fn order_of(&mut self, next: NextBatch, slot: SlotId) -> BatchOrder {
        let NextBatch { serial, plan, bucket, fp8_scales } = next;
        let Plan { at: Position { epoch, step }, group, samples } = plan;
        let job_step = self.order.job_step(epoch, step);
        let layout = self.layout(samples.len() as u32, bucket);
        BatchOrder {
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
        }
    }

    fn layout(&mut self, samples: u32, bucket: u32) -> Arc<Layout> {
        let make = || Arc::new(Layout::new(&self.recipe.in_bucket(bucket), samples));
        Arc::clone(self.layouts.entry((samples, bucket)).or_insert_with(make))
    }

    /// Draws the next batch's samples, unless they are there or on their way.
    pub(super) fn draw(&mut self) -> Option<CpuWork> {
        let busy = self.reordering || self.drawing.is_some() || self.drawn.is_some();
        let at = self.place();
        if busy || self.is_over(at) {
            return None;
        }
        let serial = self.next_serial;
        self.next_serial = Serial(serial.0 + 1);
        self.drawing = Some(serial);
        let (order, stats) = (Arc::clone(&self.order), Arc::clone(&self.stats));
        Some(Box::new(move || {
            let mut drawing = Span::on_thread(Tier::Receiver, "draw samples");
            drawing.arg("epoch", at.epoch);
            drawing.arg("step", at.step);
            stats.show_weights(&order.weights(at));
            Outcome::Drawn(serial, order.plan(at))
        }))
    }

    /// Samples were drawn; those of a batch that nobody wants any more are dropped.
    pub(super) fn on_drawn(&mut self, serial: Serial, plan: Result<Plan, SamplerError>) {
        if self.drawing == Some(serial) {
            self.drawing = None;
            self.drawn = Some((serial, plan));
        }
    }

    /// Goes on at another place: what was drawn is dropped.
    pub(super) fn go_on_at(&mut self, place: Position) {
        self.forget_drawn();
        self.ordered.send_replace(place);
    }

    fn forget_drawn(&mut self) {
        self.drawing = None;
        self.drawn = None;
    }

    /// Has scales go on at a place within the same order of samples.
    ///
    /// # Errors
    /// The place lies within an epoch, and scales are delayed.
    pub(super) fn seek(&self, to: Position) -> Result<(), ReceiverError> {
        self.scaling.go_on(to, None)
    }

    /// Sets the datasets' weights from a place on.
    pub(super) fn set_weights(
        &mut self,
        from: Position,
        weights: Vec<f64>,
        reply: oneshot::Sender<Result<(), SamplerError>>,
    ) -> CpuWork {
        self.begin_reordering();
        let order = Arc::clone(&self.order);
        Box::new(move || Outcome::Reweighed(order.set_weights(from, &weights), reply))
    }

    /// Takes over a state.
    pub(super) fn restore(
        &mut self,
        state: Box<State>,
        allow: Vec<Term>,
        reply: oneshot::Sender<Result<Restored, ReceiverError>>,
    ) -> CpuWork {
        self.begin_reordering();
        let (order, scaling) = (Arc::clone(&self.order), Arc::clone(&self.scaling));
        Box::new(move || {
            let agree = |position| scaling.go_on(position, state.fp8.as_ref());
            Outcome::Restored(order.restore(&state, &allow, agree), reply)
        })
    }

    fn begin_reordering(&mut self) {
        self.reordering = true;
        // It may be of the order that is given up.
        self.forget_drawn();
    }

    /// The order of samples is what it was to become, or what it was.
    pub(super) fn on_reordered(&mut self) {
        self.reordering = false;
    }

    /// Whether a trainer at this place has taken the last batch that there is.
    pub(super) fn has_ended(&self, trainer: Position) -> bool {
        let Position { epoch, step } = trainer;
        let is_at_end = step >= self.order.steps_per_epoch(epoch);
        self.epochs > 0 && epoch.saturating_add(is_at_end.into()) >= self.epochs
    }

    fn is_over(&self, at: Position) -> bool {
        self.epochs > 0 && at.epoch >= self.epochs || self.order.is_at_end(at)
    }
}
