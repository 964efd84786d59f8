//! The watch over batches that the trainer holds: their content when it lets go of one is compared with the content
//! that it was given.

use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::Digest;

use crate::error::ReceiverError;
use crate::position::Position;

/// What a receiver learns of the batches that its trainer has let go of.
#[derive(Debug, Default)]
pub(crate) struct HeldWatch {
    /// The first batch that changed and that nobody has been told of.
    changed: Mutex<Option<HeldChange>>,
}

/// A batch whose content changed while the trainer had it.
#[derive(Clone, Copy, Debug)]
struct HeldChange {
    at: Position,
    given: Digest,
    found: Digest,
}

/// A batch's content as it was given to the trainer.
#[derive(Debug)]
pub(crate) struct HeldContent {
    watch: Arc<HeldWatch>,
    given: Digest,
}

// === impl HeldWatch ===

impl HeldWatch {
    /// # Errors
    /// A batch has changed since this was called last.
    pub(crate) fn check(&self) -> Result<(), ReceiverError> {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(HeldChange { at: Position { epoch, step }, given, found }) = changed else {
            return Ok(());
        };
        Err(ReceiverError::HeldChanged { epoch, step, given, found })
    }
}

// === impl HeldContent ===

impl HeldContent {
    pub(crate) fn new(watch: &Arc<HeldWatch>, given: Digest) -> Self {
        Self { watch: Arc::clone(watch), given }
    }

    /// The trainer lets go of the batch, which has this content now.
    pub(crate) fn compare(&self, at: Position, found: Digest) {
        let given = self.given;
        if found == given {
            return;
        }
        crate::metrics::held_changed();
        let Position { epoch, step } = at;
        tracing::error!(epoch, step, %given, %found, "a batch changed while the trainer had it");
        let mut changed = self.watch.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.get_or_insert(HeldChange { at, given, found });
    }
}
