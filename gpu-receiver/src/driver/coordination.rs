//! What needs two parts of the driver: what happened to one of them has consequences for another.

use std::sync::Arc;

use headwater_core::sampler::Restored;
use headwater_proto::augment::PartLease;
use headwater_transport::{LeaseId, LinkKind, PartPlace, PeerId, Withdrawal};
use tokio::time::Instant;

use super::Driver;
use super::host::{self, Asked, Host};
use super::sequencer::NextBatch;
use crate::batch::{Batch, Home};
use crate::error::ReceiverError;
use crate::host::{HostBatch, HostEvent};
use crate::ledger::FinishedBatch;
use crate::position::Position;
use crate::stall::{Cause, History};

/// Batches after which a wait is not that of a start.
const WARM_BATCHES: u64 = 8;

/// Batches: ordered, delivered, forgotten.
impl Driver {
    /// Orders what may be ordered now, and has the samples of the batch after it drawn, so that they
    /// are there when there is room for it.
    ///
    /// # Errors
    /// The order of samples or a slot is not available.
    pub(super) fn fill(&mut self) -> Result<(), ReceiverError> {
        let open = self.in_flight.ledger().open_batches() + self.mailbox.ready();
        if self.sequencer.has_next(open)
            && !self.sessions.is_too_far_ahead(|| self.sequencer.job_step())
            && let Some(next) = self.sequencer.take_next(self.mailbox.position())?
            && let Some(next) = self.order(next)?
        {
            self.sequencer.put_back(next);
        }
        if let Some(work) = self.sequencer.draw() {
            self.start(work);
        }
        Ok(())
    }

    /// Orders a batch of this host's service, or of the workers; gives it back where that cannot be yet.
    fn order(&mut self, next: NextBatch) -> Result<Option<NextBatch>, ReceiverError> {
        let at = next.plan.at;
        let refused = match &mut self.host {
            Some(host) if host.has(at) => {
                // Those that are made by oneself come first.
                let busy = self.in_flight.ledger().open_batches() > 0;
                if busy { Some(next) } else { host.ask(next, self.mailbox.ready()) }
            }
            _ => match self.in_flight.take_slot()? {
                Some(slot) => {
                    self.in_flight.order(self.sequencer.order_of(next, slot));
                    None
                }
                None => Some(next),
            },
        };
        if refused.is_none() {
            self.sequencer.on_ordered(at);
        }
        Ok(refused)
    }

    pub(super) fn deliver(&mut self, finished: FinishedBatch) -> Result<(), ReceiverError> {
        let (home, history) = self.in_flight.complete(&finished)?;
        self.put(finished, home, history);
        Ok(())
    }

    fn put(&mut self, finished: FinishedBatch, home: Home, history: History) {
        self.stats.on_batch(finished.order.samples.len());
        self.mailbox.put(Batch::new(finished, home, self.masking.clone(), history));
    }

    pub(super) fn seek(&mut self, to: Position) -> Result<(), ReceiverError> {
        self.sequencer.seek(to)?;
        self.begin_generation(Some(to));
        Ok(())
    }

    pub(super) fn on_restored(&mut self, result: &Result<Restored, ReceiverError>) {
        self.sequencer.on_reordered();
        if let Ok(Restored { epoch, step, .. }) = *result {
            self.begin_generation(Some(Position { epoch, step }));
        }
    }

    /// Begins a generation of the stream: drops everything that is made, drawn or on its way, and goes on at `to`,
    /// or where the trainer is. Returns the place.
    pub(super) fn begin_generation(&mut self, to: Option<Position>) -> Position {
        let place = self.mailbox.begin_generation(self.sequencer.next_serial(), to);
        self.in_flight.forget();
        if let Some(host) = &mut self.host {
            host.forget();
        }
        self.sequencer.go_on_at(place);
        place
    }
}

/// Workers: their leases and sessions.
impl Driver {
    pub(super) fn lease(&mut self, peer: PeerId, lease: PartLease, place: PartPlace) {
        let Some(session) = self.sessions.of(peer) else { return };
        session.expect(peer, place);
        self.in_flight.on_leased(peer, session.address(), &lease);
        if !session.lease(lease) {
            self.end_session(peer);
        }
    }

    pub(super) fn withdraw(&mut self, peer: PeerId, lease: LeaseId) {
        // Without a session the path is being torn down, and `Gone` will follow.
        let Some(session) = self.sessions.of(peer) else { return };
        self.in_flight.on_withdrawn(lease);
        if session.withdraw(peer, lease) == Withdrawal::Quiet {
            self.in_flight.on_quiet(peer, lease);
        }
    }

    pub(super) fn end_session(&mut self, peer: PeerId) {
        let Some(was_last) = self.sessions.end(peer) else { return };
        self.in_flight.on_worker_left(peer);
        if was_last {
            self.report.on_alone();
        }
    }

    pub(super) fn on_path_gone(&mut self, peer: PeerId, kind: LinkKind, reason: &str) {
        if self.sessions.on_path_gone(peer, kind, reason) {
            self.end_session(peer);
            self.in_flight.on_gone(peer, kind);
        }
    }

    pub(super) fn look_for_workers(&mut self, workers: Arc<[String]>) {
        let before = self.sessions.set_workers(workers);
        self.meet_workers();
        self.sessions.forget_trials(&before);
    }

    /// Moves sessions to workers that are preferred, one at a time, and asks more of them where all are busy.
    pub(super) fn look_for_moves(&mut self) {
        // Not while the first batches are made: then it takes long whoever makes them.
        let has_begun = self.stats.batches() >= WARM_BATCHES;
        let ledger = self.in_flight.ledger();
        let is_short = has_begun && self.mailbox.ready() == 0 && ledger.is_short_of_workers();
        let may_differ = self.sessions.look();
        if self.sessions.look_for_more(is_short) || may_differ {
            self.meet_workers();
        }
        for (peer, credits) in self.sessions.find_moves() {
            self.in_flight.on_credits(peer, credits);
        }
        let ledger = self.in_flight.ledger();
        let done = self.sessions.leaving().find(|(peer, _)| !ledger.has_leases_of(*peer));
        if let Some((peer, address)) = done.map(|(peer, address)| (peer, address.to_owned())) {
            tracing::info!(worker = address, "session moved to another worker");
            self.end_session(peer);
            self.sessions.forget(&address);
            self.meet_workers();
        }
    }

    pub(super) fn meet_workers(&mut self) {
        for address in self.sessions.stale() {
            self.sessions.forget(&address).into_iter().for_each(|peer| self.end_session(peer));
        }
        self.sessions.keep(&mut self.tasks);
    }

    /// Leaves the workers while no batch is wanted of them, and comes back.
    pub(super) fn look_for_rest(&mut self) {
        let is_served = self.host.as_ref().is_some_and(Host::gives_all);
        let has_ended = || self.sequencer.has_ended(self.mailbox.position());
        if self.sessions.rest(is_served, has_ended) {
            self.report.on_alone();
            self.meet_workers();
        }
    }
}

/// The service of this host.
impl Driver {
    pub(super) fn on_host(&mut self, event: HostEvent) {
        let Some(host) = &mut self.host else { return };
        host.on_heard();
        let ended = match event {
            HostEvent::Alive => Ok(()),
            HostEvent::Batch(ask, batch) => match host.answered(ask) {
                Some(asked) => self.on_host_batch(asked, batch),
                None => Ok(()),
            },
            HostEvent::Gone(ask, reason) if host.is_next(ask) => self.go_alone(&reason, None),
            HostEvent::Gone(..) => Ok(()),
            HostEvent::Lost(reason) => self.go_alone(&reason, Some(u32::MAX)),
        };
        if let Err(error) = ended {
            self.in_flight.give_up(error);
        }
    }

    fn on_host_batch(&mut self, asked: Asked, batch: HostBatch) -> Result<(), ReceiverError> {
        let Asked { next, span, .. } = asked;
        let at = next.plan.at;
        let order = self.sequencer.order_of(next, batch.slot);
        let Some((finished, home)) = host::finished(order, batch, span) else {
            let alone = self.go_alone("what it gave is no such batch", Some(u32::MAX));
            // This one comes first, not the one that was asked for after it.
            self.sequencer.go_on_at(at);
            return alone;
        };
        self.stats.on_host_batch();
        self.put(finished, home, History::of_host());
        Ok(())
    }

    /// Makes the batches from here on by itself, to the end of an epoch: of this one, where nothing is said.
    fn go_alone(&mut self, reason: &str, to: Option<u32>) -> Result<(), ReceiverError> {
        let Some(host) = &mut self.host else { return Ok(()) };
        let alone = host.go_alone(reason, to, self.sequencer.place());
        if let Some(first) = alone.first {
            self.sequencer.go_on_at(first);
        }
        if let Some(make_room) = alone.make_room {
            self.in_flight.make_slots(make_room)?;
            self.stats.serve_by_host(false);
            self.look_for_rest();
        }
        Ok(())
    }

    /// Gives up a service that does not answer for as long as one waits for a worker, and tells one that is asked
    /// for nothing.
    pub(super) fn look_for_host(&mut self) {
        let Some(host) = &mut self.host else { return };
        let has_ended = self.sequencer.has_ended(self.mailbox.position());
        if has_ended || !host.has(self.sequencer.place()) {
            host.on_away();
        }
        let Some(waited) = host.overdue() else { return };
        let reason = format!("no answer for {} s", waited.as_secs());
        if let Err(error) = self.go_alone(&reason, Some(u32::MAX)) {
            self.in_flight.give_up(error);
        }
    }
}

/// What is reported.
impl Driver {
    /// Reports what keeps batches from coming, to whoever waits for one. `seen` is before all that
    /// was looked at.
    pub(super) fn look_for_trouble(&mut self, seen: Instant) {
        let (sessions, in_flight) = (&self.sessions, &self.in_flight);
        let alone = sessions.alone();
        let no_worker = alone.and_then(|alone| self.report.no_worker(alone, || sessions.awaited()));
        let ready = self.mailbox.ready();
        let no_slot = self.report.no_slot(in_flight.slots(), in_flight.ledger(), ready);
        // The last one counts.
        for trouble in no_worker.into_iter().chain(no_slot) {
            self.mailbox.report(seen, trouble);
        }
    }

    /// What keeps batches from being made, where that is known before one is there.
    pub(super) fn obstacle(&self) -> Option<Cause> {
        if self.host.as_ref().is_some_and(Host::is_awaited) {
            return Some(Cause::Host);
        }
        if self.sessions.is_empty() && self.sessions.alone().is_some() {
            return Some(Cause::Nobody);
        }
        let is_idle = self.in_flight.ledger().open_batches() == 0 && self.mailbox.ready() == 0;
        match is_idle {
            true if self.sessions.is_paced() => Some(Cause::Pace),
            true if self.in_flight.slots().is_exhausted() => Some(Cause::Held),
            _ => None,
        }
    }
}
