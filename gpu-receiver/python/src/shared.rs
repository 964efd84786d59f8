//! What a loader and its iterations share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use headwater_core::{Manifest, Recipe};
use headwater_local::{LocalError, Services};
use headwater_receiver::{Position, Receiver, ReceiverError};
use pyo3::prelude::*;

use crate::detached::{CallingGuard, CallingLock, Detached, DropDetached, Lock, detached};
use crate::errors::{ClosedError, ConfigError, raised, raised_local};
use crate::opening::Opened;
use crate::pace::{Pace, Running};
use crate::ray::Following;

/// The receiver and the pace of its iterations.
pub(crate) struct Shared {
    held: DropDetached<Held>,
    /// The datasets, in their order.
    pub(crate) manifests: Arc<[Arc<Manifest>]>,
    /// The recipe of its images.
    pub(crate) recipe: Arc<Recipe>,
    /// While a batch is taken, too: `amax_reduce` is called under it.
    pace: CallingLock<Pace>,
    /// The iteration under way.
    pub(crate) running: Arc<Running>,
    /// That an iteration was left was said.
    pub(crate) has_warned: AtomicBool,
    /// Rank and number of ranks where they were not given: PyTorch's group, once it is made, has the same.
    pub(crate) launched: Option<(u32, u32)>,
    /// Bytes at which a trace ends by default.
    pub(crate) trace_bytes_max: u64,
    made_in: u32,
}

/// What ends with the loader, in this order.
struct Held {
    receiver: Lock<Option<Arc<Receiver>>>,
    /// Services of this host, if any; released after the receiver has ended.
    services: Lock<Option<Arc<Services>>>,
    /// The service on Ray, if it has one; followed until the receiver has ended.
    following: Lock<Option<Arc<Following>>>,
}

/// Refuses an epoch that the loader does not have: an iteration over it would be silently empty.
pub(crate) fn check_epoch(receiver: &Receiver, epoch: u32) -> PyResult<()> {
    match receiver.config().epochs {
        0 => Ok(()),
        epochs if epoch < epochs => Ok(()),
        epochs => Err(ConfigError::new_err(format!(
            "this loader has no epoch {epoch}: `epochs` = {epochs} ends its stream after epoch {}; \
             `set_epoch(0)` begins again, and without `epochs` the stream has no end",
            epochs - 1
        ))),
    }
}

/// An epoch before that of a state that was loaded and not iterated yet.
pub(crate) fn before_state(epoch: u32, Position { epoch: resumed, step }: Position) -> PyErr {
    ConfigError::new_err(format!(
        "set_epoch({epoch}): a state of epoch {resumed}, step {step} was loaded, and epoch {epoch} would be trained on once \
         more: go on with `for epoch in loader.epochs(n)`, which begins there, or go back on purpose with `seek({epoch}, 0)`"
    ))
}

/// Loaders of this process that are there.
static LIVE: AtomicUsize = AtomicUsize::new(0);

// === impl Held ===

impl Drop for Held {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Shared ===

impl Shared {
    /// Loaders of this process that are there, closed or not.
    pub(crate) fn live() -> usize {
        LIVE.load(Ordering::Relaxed)
    }

    pub(crate) fn new(
        opened: Opened,
        following: Option<Following>,
        pace: Pace,
        trace_bytes_max: u64,
        launched: Option<(u32, u32)>,
    ) -> Self {
        let Opened { receiver, services } = opened;
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self {
            manifests: receiver.manifests().into(),
            recipe: Arc::new(receiver.recipe().clone()),
            held: DropDetached::new(Held {
                receiver: Lock::new(Some(Arc::new(receiver))),
                services: Lock::new(services),
                following: Lock::new(following.map(Arc::new)),
            }),
            running: pace.running(),
            pace: CallingLock::new(pace),
            has_warned: AtomicBool::new(false),
            launched,
            trace_bytes_max,
            made_in: std::process::id(),
        }
    }

    /// The receiver, in the process that opened it. Whoever has the last of these ends it.
    pub(crate) fn receiver(&self, detached: &Detached) -> PyResult<Arc<Receiver>> {
        if !self.is_at_home() {
            return Err(raised(ReceiverError::Forked { made_in: self.made_in }));
        }
        let receiver = self.held.receiver.lock(detached);
        receiver.clone().ok_or_else(|| ClosedError::new_err("the loader was closed"))
    }

    /// Ends the receiver, unless it has ended, and leaves its services.
    pub(crate) fn close(&self, detached: &Detached) {
        let Held { receiver, services, following } = &*self.held;
        let ended = receiver.lock(detached).take();
        drop(ended);
        let left = services.lock(detached).take();
        drop(left);
        let left = following.lock(detached).take();
        drop(left);
    }

    /// Whether the services of this host still run, where it has any. Does not wait.
    pub(crate) fn check_services(&self, detached: &Detached) -> PyResult<()> {
        let services = self.held.services.lock(detached);
        services.as_ref().map_or(Ok(()), |services| services.check().map_err(raised_local))
    }

    /// Makes the services of this host write a trace of `(path, bytes)`, or end it. Does nothing
    /// without services in a separate process.
    pub(crate) fn trace_services(
        &self,
        detached: &Detached,
        to: Option<(&str, u64)>,
    ) -> Result<(), LocalError> {
        let services = self.held.services.lock(detached);
        services.as_ref().map_or(Ok(()), |services| services.trace(to))
    }

    /// An error once the service on Ray has ended, where it has one.
    pub(crate) fn check_following(&self, py: Python<'_>) -> PyResult<()> {
        let following = detached(py, |detached| self.held.following.lock(detached).clone());
        following.map_or(Ok(()), |following| following.check(py))
    }

    /// Where the next iteration begins. Whoever has it may move the stream.
    ///
    /// # Errors
    /// This thread has it: `amax_reduce` is under way.
    pub(crate) fn pace<'a>(&'a self, detached: &'a Detached) -> PyResult<CallingGuard<'a, Pace>> {
        self.pace.lock(detached).map_err(raised)
    }

    /// Whether this is the process that opened it; in a forked one a lock may never open.
    pub(crate) fn is_at_home(&self) -> bool {
        std::process::id() == self.made_in
    }
}
