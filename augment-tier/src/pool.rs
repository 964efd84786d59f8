//! The threads that render, and how they share the work of all sessions.
//!
//! A unit is one sample of one part, or as many as the back end is best given together. A free thread
//! takes the next unit from the session that has had the least work, so that at low load all threads work on
//! one part, and at high load sessions have equal shares, whatever they lease. Plain threads: CPU work never runs on the async ones.

mod chosen;
mod job;
mod queue;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use headwater_transport::RowMemory;

pub(crate) use chosen::{Started, start};
use headwater_render::RenderError;
use headwater_render::backend::{Backend, SampleRenderer};
pub(crate) use job::{
    JobEnd, JobResult, QueuedSample, RenderInput, RenderJob, Spent, UndecodedSample,
};
use queue::FairQueue;

use crate::error::AugmentError;
use crate::metrics;

/// Work in units that any thread may do, each once.
pub(crate) trait PoolWork: Send + Sync {
    /// Does one unit.
    fn do_unit(&self, unit: usize, tools: &mut Tools);

    /// `do_unit` did not come to its end.
    fn undone(&self, unit: usize, why: Undone);

    /// These units will not be done.
    fn taken_back(&self, units: Range<usize>);
}

/// Why a unit was not run to its end.
#[derive(Debug)]
pub(crate) enum Undone {
    /// It panicked, with these words.
    Panic(String),
    /// There is no memory for a renderer, now that a panic has cost the last one.
    NoRenderer(RenderError),
}

/// What a thread has for its work. None of it bears on a byte.
pub(crate) struct Tools {
    pub(crate) renderer: Box<dyn SampleRenderer>,
    /// Where rows are made, as many as are made at once.
    pub(crate) rows: Vec<RowMemory>,
}

/// The threads. Dropping it waits for the units under way; nothing else is begun.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Where work stands in the queue, which names it too: a session has one piece of work of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePlace {
    /// Number of the session.
    pub(crate) session: u64,
    /// The lease's number in its session; lower goes first.
    pub(crate) order: u64,
}

struct Shared {
    samples_at_once: usize,
    backend: Arc<dyn Backend>,
    state: Mutex<State>,
    more: Condvar,
}

struct State {
    queue: FairQueue<Arc<dyn PoolWork>>,
    closed: bool,
}

// === impl Pool ===

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no thread or no memory for it.
    pub(crate) fn start(backend: Arc<dyn Backend>, threads: usize) -> Result<Self, AugmentError> {
        let state = Mutex::new(State { queue: FairQueue::new(), closed: false });
        let samples_at_once = backend.samples_at_once().max(1);
        let shared = Arc::new(Shared { samples_at_once, backend, state, more: Condvar::new() });
        let mut pool = Self { shared, threads: Vec::with_capacity(threads) };
        for number in 0..threads {
            let renderer = pool.shared.backend.renderer().map_err(AugmentError::Renderer)?;
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("render-{number}"))
                .spawn(move || shared.serve_queue(renderer))
                .map_err(|source| AugmentError::Threads { threads, source })?;
            pool.threads.push(thread);
        }
        metrics::pool_threads(threads);
        Ok(pool)
    }

    /// Samples of a part that are best one unit.
    pub(crate) fn samples_at_once(&self) -> usize {
        self.shared.samples_at_once
    }

    /// Queues `units` units of `unit_bytes` bytes each: sessions share the threads by bytes.
    pub(crate) fn submit(
        &self,
        place: QueuePlace,
        work: Arc<dyn PoolWork>,
        units: usize,
        unit_bytes: u64,
    ) {
        let mut state = self.shared.lock();
        state.queue.push(place.session, place.order, work, units, unit_bytes);
        state.report();
        drop(state);
        // As many as may be asleep and can find something.
        if units == 1 { self.shared.more.notify_one() } else { self.shared.more.notify_all() }
    }

    /// Takes back the units of this work that no thread has taken; those under way run to their
    /// end.
    pub(crate) fn take_back(&self, place: QueuePlace, work: &dyn PoolWork) {
        let mut state = self.shared.lock();
        let units = state.queue.remove(place.session, place.order);
        state.report();
        drop(state);
        work.taken_back(units);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // A thread ends by returning: panics of units are caught.
            let _ = thread.join();
        }
        metrics::pool_threads(0);
    }
}

// === impl Tools ===

impl Tools {
    fn new(renderer: Box<dyn SampleRenderer>) -> Self {
        Self { renderer, rows: Vec::new() }
    }
}

// === impl Shared ===

impl Shared {
    /// What a thread does until the pool closes.
    fn serve_queue(&self, renderer: Box<dyn SampleRenderer>) {
        let mut tools = Some(Tools::new(renderer));
        while let Some((work, unit)) = self.next() {
            let started = Instant::now();
            if let Err(why) = self.do_unit(&*work, unit, &mut tools) {
                if let Undone::Panic(_) = why {
                    metrics::panicked();
                }
                tracing::error!(?why, "rendering a sample broke off");
                work.undone(unit, why);
            }
            metrics::pool_busy(started.elapsed());
        }
    }

    /// Does one unit. After a panic the tools are gone: the renderer's memory may be half changed.
    fn do_unit(
        &self,
        work: &dyn PoolWork,
        unit: usize,
        tools: &mut Option<Tools>,
    ) -> Result<(), Undone> {
        let mut taken = match tools.take() {
            Some(tools) => tools,
            None => Tools::new(self.backend.renderer().map_err(Undone::NoRenderer)?),
        };
        let done = catch_unwind(AssertUnwindSafe(|| work.do_unit(unit, &mut taken)));
        match done {
            Ok(()) => {
                *tools = Some(taken);
                Ok(())
            }
            Err(panic) => Err(Undone::Panic(format!("panic: {}", text_of(&*panic)))),
        }
    }

    /// The next unit; `None` when the pool closes.
    fn next(&self) -> Option<(Arc<dyn PoolWork>, usize)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(taken) = state.queue.take() {
                state.report();
                return Some(taken);
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn report(&self) {
        metrics::queue(self.queue.parts(), self.queue.units());
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests;
