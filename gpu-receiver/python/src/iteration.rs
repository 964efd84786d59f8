//! One pass over a loader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_receiver::ReceiverError;
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::detached::{Detached, detached};
use crate::errors::{BusyError, raised};
use crate::pace::Ticket;
use crate::profiler::Range;
use crate::shared::Shared;

/// Time between two checks for signals such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Name of the wait for a batch in a PyTorch profile.
const NEXT: &str = "headwater.Iteration.__next__";

/// An iterator over the batches of one epoch, or over the rest of it.
#[pyclass(frozen, module = "headwater")]
pub(crate) struct Iteration {
    shared: Arc<Shared>,
    ticket: Ticket,
    finished: AtomicBool,
    /// A thread is in `__next__`.
    waiting: AtomicBool,
}

enum Taken {
    Batch(Batch),
    End,
    Nothing,
}

/// Lets the next thread in when dropped.
struct InNext<'a>(&'a AtomicBool);

// === impl Iteration ===

impl Iteration {
    pub(crate) fn new(shared: Arc<Shared>, ticket: Ticket) -> Self {
        Self { shared, ticket, finished: false.into(), waiting: false.into() }
    }

    fn take(&self, detached: &Detached) -> PyResult<Taken> {
        let receiver = self.shared.receiver(detached)?;
        // Held while it waits: another iteration that begins meanwhile loses no batch to this one.
        let pace = self.shared.pace(detached)?;
        if !pace.runs(self.ticket) {
            return Err(BusyError::new_err(
                "this iteration is over: since it began, another one over the same loader has, or \
                 the loader was moved elsewhere",
            ));
        }
        let found = receiver.next_within(SIGNALS_EVERY);
        let nothing_comes = match &found {
            Ok(found) => found.is_none(),
            Err(error) => matches!(
                error,
                ReceiverError::NoWorker { .. }
                    | ReceiverError::SlotsHeld { .. }
                    | ReceiverError::SlotsKept { .. }
                    | ReceiverError::Closed { .. }
            ),
        };
        if nothing_comes {
            // They know why. What the trainer's own functions raised is the trainer's to see.
            self.shared.check_services(detached)?;
        }
        match found.map_err(raised)? {
            None => Ok(Taken::Nothing),
            Some(None) => {
                self.end();
                Ok(Taken::End)
            }
            Some(Some(received)) => {
                let Shared { manifests, recipe, .. } = &*self.shared;
                let batch = Batch::new(received, Arc::clone(manifests), Arc::clone(recipe));
                Ok(Taken::Batch(batch))
            }
        }
    }

    fn end(&self) {
        self.finished.store(true, Ordering::Relaxed);
        self.shared.running.end(self.ticket);
    }
}

#[pymethods]
impl Iteration {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let _turn = InNext::take(&self.waiting)?;
        let range = Range::begin(py, NEXT)?;
        while !self.finished.load(Ordering::Relaxed) {
            match detached(py, |detached| self.take(detached))? {
                Taken::Batch(batch) => {
                    range.end()?;
                    return Ok(Some(batch));
                }
                Taken::End => break,
                Taken::Nothing => {
                    py.check_signals()?;
                    self.shared.check_following(py)?;
                }
            }
        }
        Ok(None)
    }

    /// Ends the iteration before its end; the loader may then be iterated again.
    fn close(&self) {
        self.end();
    }
}

impl Drop for Iteration {
    fn drop(&mut self) {
        self.end();
    }
}

// === impl InNext ===

impl<'a> InNext<'a> {
    fn take(taken: &'a AtomicBool) -> PyResult<Self> {
        match taken.swap(true, Ordering::Acquire) {
            false => Ok(Self(taken)),
            true => Err(BusyError::new_err("another thread waits for this iteration's next batch")),
        }
    }
}

impl Drop for InNext<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
