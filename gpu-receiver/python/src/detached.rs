//! Waiting without the interpreter's lock.
//!
//! A thread that waits for one of our locks does not have the interpreter's. So a thread that has one of ours may wait
//! for the interpreter's: nobody waits the other way round. All locks of this crate are here, and ask for a
//! [`Detached`]; `tests/tidy` checks that. `Drop` has none, and waits for no lock.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_receiver::{Inside, ReceiverError, Turn};
use pyo3::prelude::*;

/// A proof that this thread has let go of the interpreter's lock.
pub(crate) struct Detached(());

/// A mutex.
#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

/// A mutex under which the receiver may call a function of the trainer's. A thread that has it is refused it, and does
/// not wait for itself.
#[derive(Default)]
pub(crate) struct CallingLock<T> {
    turn: Turn,
    value: Mutex<T>,
}

/// The value of a [`CallingLock`], which is held while this lives.
pub(crate) struct CallingGuard<'a, T> {
    value: MutexGuard<'a, T>,
    _inside: Inside<'a>,
}

/// A value whose drop waits for threads or disks. Python drops objects with its lock, which is let go of meanwhile.
pub(crate) struct DropDetached<T: Send>(Option<T>);

/// Does what may wait, without the interpreter's lock.
pub(crate) fn detached<R: Send>(py: Python<'_>, work: impl FnOnce(&Detached) -> R + Send) -> R {
    py.detach(|| work(&Detached(())))
}

// === impl Lock ===

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock<'a>(&'a self, _: &'a Detached) -> MutexGuard<'a, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without waiting; `None` where another thread has it, or had it when this process was forked.
    pub(crate) fn now(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

// === impl CallingLock ===

impl<T> CallingLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { turn: Turn::default(), value: Mutex::new(value) }
    }

    /// # Errors
    /// This thread has it.
    pub(crate) fn lock<'a>(
        &'a self,
        _: &'a Detached,
    ) -> Result<CallingGuard<'a, T>, ReceiverError> {
        let inside = self.turn.enter().ok_or(ReceiverError::Busy)?;
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(CallingGuard { value, _inside: inside })
    }
}

impl<T> Deref for CallingGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for CallingGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

// === impl DropDetached ===

impl<T: Send> DropDetached<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send> Deref for DropDetached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken when this is dropped")
    }
}

impl<T: Send> DerefMut for DropDetached<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is taken when this is dropped")
    }
}

impl<T: Send> Drop for DropDetached<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        Python::attach(|py| py.detach(|| drop(value)));
    }
}
