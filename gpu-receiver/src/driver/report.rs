//! What the driver says to the trainer and the log when things do not go on.

use std::time::Duration;

use headwater_proto::augment::PartDone;
use tokio::time::Instant;

use super::Driver;
use crate::error::ReceiverError;
use crate::stall::Cause;
use crate::stats::Levels;

/// Workers that are named one by one.
const AWAITED_MAX: usize = 8;
/// How long every slot must have been in the trainer's hands before the log says so.
const SLOTS_HELD_AFTER: Duration = Duration::from_secs(5);

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
        let waited_s = alone.as_secs();
        if self.state.alone_since.is_some() && self.state.reminder.is_due(alone) {
            tracing::warn!("no augment worker for {waited_s} s: {}", self.awaited());
        }
        if alone > self.worker_wait {
            let trouble = ReceiverError::NoWorker { waited_s, awaited: self.awaited() };
            self.mailbox.report(seen, trouble);
        }
        self.look_for_slots(seen);
    }

    /// Tells what keeps batches from being made, where that is known before one is there.
    pub(super) fn look_for_obstacles(&mut self) {
        let obstacle = self.obstacle();
        if obstacle != self.state.obstacle {
            self.state.obstacle = obstacle;
            self.stats.obstruct(obstacle);
        }
    }

    fn obstacle(&self) -> Option<Cause> {
        if self.waits_for_host() {
            return Some(Cause::Host);
        }
        if self.state.sessions.is_empty() && self.state.alone_since.is_some() {
            return Some(Cause::Nobody);
        }
        let is_idle = self.ledger.open_batches() == 0 && self.mailbox.ready() == 0;
        match is_idle {
            true if self.state.paced => Some(Cause::Pace),
            true if self.slots.is_exhausted() => Some(Cause::Held),
            _ => None,
        }
    }

    /// The workers there should be, and what keeps each.
    fn awaited(&self) -> String {
        let state = &self.state;
        let heard = |address: &String| match state.refusals.get(address) {
            Some(reason) => format!("{address}: {reason}"),
            None => format!("{address}: no answer yet"),
        };
        let mut awaited: Vec<String> = state.keepers.keys().take(AWAITED_MAX).map(heard).collect();
        if let more @ 1.. = state.keepers.len().saturating_sub(AWAITED_MAX) {
            awaited.push(format!("and {more} more"));
        }
        if !state.missing.is_empty() {
            awaited.push(state.missing.clone());
        }
        if awaited.is_empty() {
            awaited.push("receiver.workers leads to no address yet".to_owned());
        }
        awaited.join("; ")
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
