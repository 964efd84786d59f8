//! Watches a service: threads that look for processes and ask them, and the last report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::history::POINT_EVERY;
use super::report::Report;
use super::survey::{Survey, Terms};
use super::targets::{Finder, Found, Sources};

/// Time between two looks for processes.
const FIND_EVERY: Duration = Duration::from_secs(2);
/// Time until a thread notices that it must end.
const END_WITHIN: Duration = Duration::from_millis(200);

/// A service that is watched until this is dropped. Several threads may ask for reports.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ends: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    found: Option<Found>,
    /// Reports made, and the last one.
    latest: (u64, Arc<Report>),
    /// Whether any process has ever answered.
    has_answers: bool,
}

// === impl Watch ===

impl Watch {
    /// Begins.
    ///
    /// # Errors
    /// An address that is none; no thread can be started.
    pub(crate) fn start(sources: Sources, terms: Terms) -> Result<Self> {
        let mut finder = Finder::new(sources)?;
        let shared = Arc::new(Shared::default());
        let watch = Self { shared: Arc::clone(&shared) };
        let of_finder = Arc::clone(&shared);
        thread::Builder::new().name("monitor-find".to_owned()).spawn(move || {
            of_finder.repeat(FIND_EVERY, || {
                let found = finder.look();
                of_finder.lock().found = Some(found);
                of_finder.changed.notify_all();
            });
        })?;
        thread::Builder::new().name("monitor-ask".to_owned()).spawn(move || {
            let mut survey = Survey::new(terms);
            shared.wait_for_targets();
            shared.repeat(POINT_EVERY, || {
                if let Some(found) = shared.lock().found.take() {
                    survey.set_targets(found);
                }
                survey.ask();
                let report = Arc::new(survey.report());
                let mut state = shared.lock();
                state.latest = (state.latest.0 + 1, report);
                state.has_answers = survey.has_answers();
                drop(state);
                shared.changed.notify_all();
            });
        })?;
        Ok(watch)
    }

    /// The last report and its number, which is 0 before the first one.
    pub(crate) fn latest(&self) -> (u64, Arc<Report>) {
        self.shared.lock().latest.clone()
    }

    /// Waits for a report after the one of number `seen`, no longer than `limit`.
    pub(crate) fn newer(&self, seen: u64, limit: Duration) -> Option<(u64, Arc<Report>)> {
        let end = Instant::now() + limit;
        let mut state = self.shared.lock();
        while state.latest.0 <= seen {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.shared.wait(state, left);
        }
        Some(state.latest.clone())
    }

    /// Whether any process has ever answered.
    pub(crate) fn has_answers(&self) -> bool {
        self.shared.lock().has_answers
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Until it is known where processes are.
    fn wait_for_targets(&self) {
        let mut state = self.lock();
        while state.found.is_none() && !self.has_ended() {
            state = self.wait(state, END_WITHIN);
        }
    }

    /// Does something every so often; what takes longer is begun again at once.
    fn repeat(&self, every: Duration, mut act: impl FnMut()) {
        while !self.has_ended() {
            let next = Instant::now() + every;
            act();
            while !self.has_ended() {
                let left = next.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                thread::sleep(left.min(END_WITHIN));
            }
        }
    }
}
