//! What the driver says to the trainer and the log when things do not go on.

use std::time::Duration;

use headwater_proto::augment::PartDone;
use tokio::time::Instant;

use super::Driver;
use crate::error::ReceiverError;
use crate::stats::Levels;

/// How long every slot must have been in the trainer's hands before it is told.
const SLOTS_HELD_AFTER: Duration = Duration::from_secs(5);
/// How long no worker must have been there before the log says whom is waited for.
const WAITING_AFTER: Duration = Duration::from_secs(3);

impl Driver {
    /// Shows how full everything is.
    pub(super) fn report_levels(&self, queued_events: usize, queued_releases: usize) {
        self.stats.gauge(Levels {
            leases: self.ledger.open_leases(),
            ready: self.mailbox.ready(),
            slots: self.slots.len(),
            quarantined: self.slots.quarantined(),
            tasks: self.tasks.len(),
            queued_events,
            queued_releases,
        });
    }

    /// Reports what keeps batches from coming, to whoever waits for one. `seen` is before all that
    /// was looked at.
    pub(super) fn look_for_trouble(&mut self, seen: Instant) {
        let alone = self.state.alone_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.say_whom_is_waited_for(alone);
        if alone > self.worker_wait {
            let workers = self.awaited();
            let trouble = ReceiverError::NoWorker {
                waited_s: alone.as_secs(),
                last: self.state.last_refusal.clone(),
                workers,
            };
            self.mailbox.report(seen, trouble);
        }
        self.look_for_slots(seen);
    }

    /// The workers that there should be.
    fn awaited(&self) -> String {
        let addresses: Vec<&str> = self.state.keepers.keys().map(String::as_str).collect();
        match addresses.as_slice() {
            [] => "an address that receiver.workers leads to".to_owned(),
            addresses => addresses.join(", "),
        }
    }

    /// Once for each time without workers.
    fn say_whom_is_waited_for(&mut self, alone: Duration) {
        if alone <= WAITING_AFTER {
            self.state.waiting_said = false;
        } else if !std::mem::replace(&mut self.state.waiting_said, true) {
            let (workers, last) = (self.awaited(), &self.state.last_refusal);
            let limit_s = self.worker_wait.as_secs();
            tracing::warn!(workers, last, limit_s, "waiting for a worker");
        }
    }

    /// No slot to make a batch in: the trainer has them all, or workers that still write to them.
    fn look_for_slots(&mut self, seen: Instant) {
        let stuck = self.slots.is_exhausted()
            && self.ledger.open_batches() == 0
            && self.mailbox.ready() == 0;
        if !stuck {
            self.state.stuck_since = None;
            return;
        }
        let (slots, kept) = (self.slots.len(), self.slots.quarantined());
        let patience = if kept == 0 { SLOTS_HELD_AFTER } else { self.worker_wait };
        if self.state.stuck_since.get_or_insert_with(Instant::now).elapsed() <= patience {
            return;
        }
        let trouble = if kept == 0 {
            ReceiverError::SlotsHeld { slots }
        } else {
            let workers = self.ledger.late_writers().join(", ");
            ReceiverError::SlotsKept { slots, kept, workers }
        };
        self.mailbox.report(seen, trouble);
    }

    /// Names each broken sample in the log, once.
    pub(super) fn report_substitutions(&self, done: &PartDone) {
        for sample in &done.samples {
            let Some(substitution) = &sample.substituted else { continue };
            if self.stats.first_report(&substitution.reason) {
                let (used, reason) = (&sample.key, &substitution.reason);
                tracing::warn!(used, reason, "broken sample replaced");
            }
        }
    }
}
