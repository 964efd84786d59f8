//! One pass over a loader.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_receiver::{Position, ReceiverError};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::detached::{Detached, detached};
use crate::errors::{BusyError, raised};
use crate::group::check_group;
use crate::pace::LateTicket;
use crate::profiler::Range;
use crate::shared::{Shared, before_state, check_epoch};

/// Time between two checks for signals such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Name of the wait for a batch in a PyTorch profile.
const NEXT: &str = "headwater.Iteration.__next__";

/// An iterator over the batches of one epoch, or over the rest of it. It begins with its first batch: until then
/// the loader's place may be set.
#[pyclass(frozen, module = "headwater")]
pub(crate) struct Iteration {
    shared: Arc<Shared>,
    /// None until it has begun.
    ticket: LateTicket,
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
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            ticket: LateTicket::default(),
            finished: false.into(),
            waiting: false.into(),
        }
    }

    /// Begins, unless it has. Returns what it has left unfinished, if it is the first to do so.
    fn begin(&self, detached: &Detached) -> PyResult<Option<Position>> {
        if self.ticket.get().is_some() {
            return Ok(None);
        }
        let receiver = self.shared.receiver(detached)?;
        let mut pace = self.shared.pace(detached)?;
        let here = receiver.position();
        if here.step >= receiver.steps_per_epoch(here.epoch) {
            // The last batch was taken but not the end after it: the next epoch comes.
            receiver.next_within(Duration::ZERO).map_err(raised)?;
        }
        let here = receiver.position();
        if let Some((epoch, resumed)) = pace.refused() {
            return Err(before_state(epoch, resumed));
        }
        let start = pace.start(here);
        let is_left = !pace.was_moved() && start != here;
        // A state of the very end may be loaded: there is nothing left after it.
        if !pace.was_moved() {
            check_epoch(&receiver, start.epoch)?;
        }
        receiver.seek(start).map_err(raised)?;
        self.ticket.set(pace.begin(start));
        if self.finished.load(Ordering::Relaxed) {
            // It was closed meanwhile.
            self.end();
        }
        Ok((is_left && !self.shared.has_warned.swap(true, Ordering::Relaxed)).then_some(here))
    }

    fn take(&self, detached: &Detached) -> PyResult<Taken> {
        let receiver = self.shared.receiver(detached)?;
        // Held while it waits: another iteration that begins meanwhile loses no batch to this one.
        let mut pace = self.shared.pace(detached)?;
        if !self.ticket.get().is_some_and(|ticket| pace.runs(ticket)) {
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
                    | ReceiverError::SlotsMissing { .. }
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
                pace.on_batch();
                self.end();
                Ok(Taken::End)
            }
            Some(Some(received)) => {
                pace.on_batch();
                let Shared { manifests, recipe, .. } = &*self.shared;
                let batch = Batch::new(received, Arc::clone(manifests), Arc::clone(recipe));
                Ok(Taken::Batch(batch))
            }
        }
    }

    fn end(&self) {
        self.finished.store(true, Ordering::Relaxed);
        if let Some(ticket) = self.ticket.get() {
            self.shared.running.end(ticket);
        }
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
        if self.ticket.get().is_none()
            && let Some(launched) = self.shared.launched
        {
            check_group(py, launched)?;
        }
        if !self.finished.load(Ordering::Relaxed)
            && let Some(left) = detached(py, |detached| self.begin(detached))?
        {
            warn_of_left(py, left)?;
        }
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

/// A rule of earlier releases has changed: they began the epoch again.
fn warn_of_left(py: Python<'_>, Position { epoch, step }: Position) -> PyResult<()> {
    let text = format!(
        "the iteration over epoch {epoch} was left before step {step}, and this one is over epoch {}, as PyTorch's loaders \
         draw anew: `set_epoch({epoch})` takes the same batches again, and `seek({epoch}, {step})` the rest",
        epoch.saturating_add(1)
    );
    let category = py.get_type::<PyUserWarning>();
    PyErr::warn(py, &category, &CString::new(text)?, 1)
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
