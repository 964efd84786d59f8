//! What the driver says to the trainer and the log when things do not go on.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::Reminder;
use headwater_proto::augment::PartDone;
use tokio::time::Instant;

use crate::error::ReceiverError;
use crate::ledger::Ledger;
use crate::slots::{MissingSlots, SlotPool};
use crate::stall::Cause;
use crate::stats::Stats;

/// How long every slot must have been in the trainer's hands before the log says so.
const SLOTS_HELD_AFTER: Duration = Duration::from_secs(5);

/// What was said, and since when there is something to say.
pub(super) struct Report {
    stats: Arc<Stats>,
    worker_wait: Duration,
    /// Of the time without workers.
    reminder: Reminder,
    /// Since when no slot is free to make a batch in.
    stuck_since: Option<Instant>,
    /// The last cause that was reported for batches not being made.
    obstacle: Option<Cause>,
}

// === impl Report ===

impl Report {
    pub(super) fn new(stats: Arc<Stats>, worker_wait: Duration) -> Self {
        Self {
            stats,
            worker_wait,
            reminder: Reminder::default(),
            stuck_since: None,
            obstacle: Some(Cause::Nobody),
        }
    }

    /// The last worker is gone, or missed from now on.
    pub(super) fn on_alone(&mut self) {
        self.reminder = Reminder::default();
    }

    /// Tells what keeps batches from being made, where that is known before one is there.
    pub(super) fn obstruct(&mut self, obstacle: Option<Cause>) {
        if obstacle != self.obstacle {
            self.obstacle = obstacle;
            self.stats.obstruct(obstacle);
        }
    }

    /// Trouble for whoever waits for a batch, when no worker has been there for long.
    pub(super) fn no_worker(
        &mut self,
        alone: Duration,
        awaited: impl Fn() -> String,
    ) -> Option<ReceiverError> {
        let waited_s = alone.as_secs();
        if self.reminder.is_due(alone) {
            tracing::warn!("no augment worker for {waited_s} s: {}", awaited());
        }
        (alone > self.worker_wait).then(|| ReceiverError::NoWorker { waited_s, awaited: awaited() })
    }

    /// The same when no slot has been free for long: the trainer has them all, or workers that still write to them, or those
    /// that were given up cannot be made anew.
    pub(super) fn no_slot(
        &mut self,
        slots: &SlotPool,
        ledger: &Ledger,
        ready: usize,
    ) -> Option<ReceiverError> {
        if !slots.is_exhausted() || ledger.open_batches() > 0 || ready > 0 {
            self.stuck_since = None;
            return None;
        }
        let slots_missing = slots.missing();
        let (slots, kept) = (slots.len(), slots.quarantined());
        let patience = if kept == 0 { SLOTS_HELD_AFTER } else { self.worker_wait };
        if self.stuck_since.get_or_insert_with(Instant::now).elapsed() <= patience {
            return None;
        }
        if kept == 0 {
            return Some(match slots_missing {
                Some(MissingSlots { count, workers, reason }) => {
                    ReceiverError::SlotsMissing { slots, missing: count, workers, reason }
                }
                None => ReceiverError::SlotsHeld { slots },
            });
        }
        let workers = ledger.late_writers().join(", ");
        Some(ReceiverError::SlotsKept { slots, kept, workers })
    }

    /// Names each broken sample in the log, once.
    pub(super) fn substitutions(&self, done: &PartDone) {
        for sample in &done.samples {
            let Some(substitution) = &sample.substituted else { continue };
            if self.stats.first_report(&substitution.reason) {
                let (used, reason) = (&sample.key, &substitution.reason);
                tracing::warn!(used, reason, "broken sample replaced");
            }
        }
    }
}
