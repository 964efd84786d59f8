//! What a loader and its iterations share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_core::{Manifest, Recipe};
use headwater_local::{LocalError, Services};
use headwater_receiver::{Receiver, ReceiverError};
use pyo3::prelude::*;

use crate::errors::{ClosedError, raised, raised_local};
use crate::opening::Opened;
use crate::pace::Pace;
use crate::ray::Following;

/// The receiver and the pace of its iterations. Each lock is taken only for a moment, or without
/// the interpreter's lock, so that the two cannot wait for each other.
pub(crate) struct Shared {
    receiver: Mutex<Option<Arc<Receiver>>>,
    /// Services of this host, if any; released after the receiver has ended.
    services: Mutex<Option<Arc<Services>>>,
    /// The service on Ray, if it has one; followed until the receiver has ended.
    following: Mutex<Option<Arc<Following>>>,
    /// The datasets, in their order.
    pub(crate) manifests: Arc<[Arc<Manifest>]>,
    /// The recipe of its images.
    pub(crate) recipe: Arc<Recipe>,
    pace: Mutex<Pace>,
    /// Bytes at which a trace ends by default.
    pub(crate) trace_bytes_max: u64,
    made_in: u32,
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(
        opened: Opened,
        following: Option<Following>,
        pace: Pace,
        trace_bytes_max: u64,
    ) -> Self {
        let Opened { receiver, services } = opened;
        Self {
            manifests: receiver.manifests().into(),
            recipe: Arc::new(receiver.recipe().clone()),
            receiver: Mutex::new(Some(Arc::new(receiver))),
            services: Mutex::new(services),
            following: Mutex::new(following.map(Arc::new)),
            pace: Mutex::new(pace),
            trace_bytes_max,
            made_in: std::process::id(),
        }
    }

    /// The receiver, in the process that opened it.
    pub(crate) fn receiver(&self) -> PyResult<Arc<Receiver>> {
        if !self.is_at_home() {
            return Err(raised(ReceiverError::Forked { made_in: self.made_in }));
        }
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.clone().ok_or_else(|| ClosedError::new_err("the loader was closed"))
    }

    /// Ends the receiver, unless it has ended, and leaves its services.
    pub(crate) fn close(&self) {
        let mut slot = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = slot.take();
        drop(slot);
        drop(receiver);
        let services = self.services().take();
        drop(services);
        drop(self.following().take());
    }

    /// Whether the services of this host still run, where it has any. Does not wait.
    pub(crate) fn check_services(&self) -> PyResult<()> {
        self.services().as_ref().map_or(Ok(()), |services| services.check().map_err(raised_local))
    }

    /// Makes the services of this host write a trace of `(path, bytes)`, or end it. Does nothing
    /// without services in a separate process.
    pub(crate) fn trace_services(&self, to: Option<(&str, u64)>) -> Result<(), LocalError> {
        self.services().as_ref().map_or(Ok(()), |services| services.trace(to))
    }

    /// An error once the service on Ray has ended, where it has one.
    pub(crate) fn check_following(&self, py: Python<'_>) -> PyResult<()> {
        let following = self.following().clone();
        following.map_or(Ok(()), |following| following.check(py))
    }

    fn following(&self) -> MutexGuard<'_, Option<Arc<Following>>> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn services(&self) -> MutexGuard<'_, Option<Arc<Services>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the process that opened it; in a forked one a lock may never open.
    pub(crate) fn is_at_home(&self) -> bool {
        std::process::id() == self.made_in
    }
}
