//! Between the driver and the trainer: ready batches in order, and the trainer's place.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_core::sampler::next_epoch;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::batch::Batch;
use crate::error::ReceiverError;
use crate::ledger::Serial;
use crate::position::Position;

/// Shared by the driver, which fills it, and the trainer's thread, which empties it.
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    position: Position,
    /// The first batch of the generation: batches ordered before it are not put in any more.
    first: Serial,
    ready: VecDeque<Batch>,
    /// Passing trouble and when it was seen, reported to whoever waited then.
    trouble: Option<(Instant, ReceiverError)>,
    /// Set once: nothing comes after what is ready.
    ended: Option<Ended>,
}

enum Ended {
    Error(Option<ReceiverError>, String),
    Closed,
}

/// What is there for the trainer.
pub(crate) enum Found {
    /// The next batch.
    Batch(Batch),
    /// The epoch is over; the position is at the start of the next.
    EpochEnd,
    /// Nothing yet.
    Nothing,
}

// === impl State ===

impl State {
    fn end(&mut self, error: Option<ReceiverError>) {
        self.ended.get_or_insert_with(|| match error {
            Some(error) => {
                let text = error.to_string();
                Ended::Error(Some(error), text)
            }
            None => Ended::Closed,
        });
    }
}

// === impl Mailbox ===

impl Mailbox {
    pub(crate) fn new(position: Position) -> Self {
        let state = State {
            position,
            first: Serial(0),
            ready: VecDeque::new(),
            trouble: None,
            ended: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change below is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a finished batch in, unless another generation has begun since it was ordered.
    pub(crate) fn put(&self, batch: Batch) {
        let mut state = self.lock();
        if batch.serial() >= state.first && state.ended.is_none() {
            state.ready.push_back(batch);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Takes what comes next for one who waits since `asked`; `steps` is the number of steps of
    /// the position's epoch.
    ///
    /// # Errors
    /// Trouble, the end of the stream, and the end of the last epoch that has a number.
    pub(crate) fn take(
        &self,
        asked: Instant,
        steps: impl FnOnce(u32) -> u64,
    ) -> Result<Found, ReceiverError> {
        let mut state = self.lock();
        let Position { epoch, step } = state.position;
        if step >= steps(epoch) {
            state.position = Position { epoch: next_epoch(epoch)?, step: 0 };
            return Ok(Found::EpochEnd);
        }
        if let Some(batch) = state.ready.pop_front() {
            let (of_epoch, of_step) = (batch.epoch(), batch.step());
            // Every batch after it would stand in the wrong place, too.
            if (of_epoch, of_step) != (epoch, step) {
                let reason = format!(
                    "the batch of epoch {of_epoch}, step {of_step} came in the place of epoch {epoch}, step {step}: this \
                     is a fault of Headwater, please report it"
                );
                drop(state);
                self.cut(ReceiverError::Closed { reason: reason.clone() });
                return Err(ReceiverError::Closed { reason });
            }
            state.position.step += 1;
            state.trouble = None;
            return Ok(Found::Batch(batch));
        }
        // Trouble of before the question may be over: what lasts is reported again.
        if let Some((seen, trouble)) = state.trouble.take()
            && seen >= asked
        {
            return Err(trouble);
        }
        match &mut state.ended {
            None => Ok(Found::Nothing),
            Some(Ended::Error(error, text)) => {
                Err(error.take().unwrap_or_else(|| ReceiverError::Closed { reason: text.clone() }))
            }
            Some(Ended::Closed) => Err(ReceiverError::Closed { reason: "it was stopped".into() }),
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.lock().position
    }

    /// Whether nothing comes after what is ready.
    pub(crate) fn is_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    pub(crate) fn ready(&self) -> usize {
        self.lock().ready.len()
    }

    /// Begins a generation of the stream: drops what is ready and goes on at `to`, or where the trainer is,
    /// with the batch `first`. Returns the place.
    pub(crate) fn begin_generation(&self, first: Serial, to: Option<Position>) -> Position {
        let mut state = self.lock();
        state.first = first;
        if let Some(position) = to {
            state.position = position;
        }
        let dropped = std::mem::take(&mut state.ready);
        let position = state.position;
        drop(state);
        drop(dropped);
        position
    }

    /// Reports trouble that may pass, as it was at `seen`; replaced by later trouble, forgotten
    /// with the next batch.
    pub(crate) fn report(&self, seen: Instant, trouble: ReceiverError) {
        self.lock().trouble = Some((seen, trouble));
        self.changed.notify_waiters();
    }

    /// Ends the stream after what is ready.
    pub(crate) fn end(&self, error: Option<ReceiverError>) {
        self.lock().end(error);
        self.changed.notify_waiters();
    }

    /// Ends the stream here: what is ready is dropped.
    pub(crate) fn cut(&self, error: ReceiverError) {
        let mut state = self.lock();
        let dropped = std::mem::take(&mut state.ready);
        state.end(Some(error));
        drop(state);
        drop(dropped);
        self.changed.notify_waiters();
    }

    /// Resolves at the next change after it was made. Make it before looking.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }
}
