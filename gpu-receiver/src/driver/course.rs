//! Changes of course: another place, other weights, a state taken over.
//!
//! What the sampler is asked for is CPU work: nothing is drawn until it has answered.

use std::sync::Arc;

use headwater_core::sampler::{Restored, SamplerError, State, Term};
use tokio::sync::oneshot;

use super::{Driver, Outcome};
use crate::error::ReceiverError;
use crate::position::Position;

impl Driver {
    pub(super) fn seek(&mut self, position: Position) -> Result<(), ReceiverError> {
        self.scaling.go_on(position, None)?;
        self.change_course(Some(position));
        Ok(())
    }

    pub(super) fn set_weights(
        &mut self,
        weights: Vec<f64>,
        reply: oneshot::Sender<Result<(), SamplerError>>,
    ) {
        // The course first: it fixes the batch that the trainer takes next.
        let from = self.change_course(None);
        let order = Arc::clone(&self.order);
        self.reorder(move || Outcome::Reweighed(order.set_weights(from, &weights), reply));
    }

    pub(super) fn restore(
        &mut self,
        state: Box<State>,
        allow: Vec<Term>,
        reply: oneshot::Sender<Result<Restored, ReceiverError>>,
    ) {
        let (order, scaling) = (Arc::clone(&self.order), Arc::clone(&self.scaling));
        self.reorder(move || {
            let agree = |position| scaling.go_on(position, state.fp8.as_ref());
            Outcome::Restored(order.restore(&state, &allow, agree), reply)
        });
    }

    fn reorder(&mut self, work: impl FnOnce() -> Outcome + Send + 'static) {
        self.state.reordering = true;
        // It may be of the order that is given up.
        self.forget_drawn();
        self.start(work);
    }

    pub(super) fn on_reweighed(
        &mut self,
        result: Result<(), SamplerError>,
        reply: oneshot::Sender<Result<(), SamplerError>>,
    ) {
        self.state.reordering = false;
        let _ = reply.send(result);
    }

    pub(super) fn on_restored(
        &mut self,
        result: Result<Restored, ReceiverError>,
        reply: oneshot::Sender<Result<Restored, ReceiverError>>,
    ) {
        self.state.reordering = false;
        if let Ok(Restored { epoch, step, .. }) = result {
            self.change_course(Some(Position { epoch, step }));
        }
        let _ = reply.send(result);
    }

    /// Drops everything that is made, drawn or on its way, and goes on at `to`, or where the trainer
    /// is. Returns the place.
    fn change_course(&mut self, to: Option<Position>) -> Position {
        let position = self.mailbox.change_course(self.state.next_serial, to);
        for slot in self.ledger.forget_batches() {
            self.slots.give_back(slot, &self.ledger);
        }
        self.forget_drawn();
        self.forget_asked();
        self.spans.forget();
        self.go_on_at(position);
        position
    }
}
