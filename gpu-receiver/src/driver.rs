//! The task that performs what the ledger decides: orders batches, leases parts, watches links.
//!
//! What changes together is a part of its own: the order of batches, batches in flight, sessions with workers, the
//! service of the host, what is reported. No part knows another. Here is the loop, which passes on what happens to
//! the part that it is about; what follows from it for others is in `coordination`.

mod coordination;
mod host;
mod in_flight;
mod report;
mod sequencer;
mod session;
mod sessions;
mod spans;
mod tasks;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Manifest, Recipe};
use headwater_proto::augment::FromWorker;
use headwater_transport::{Arrival, LinkKind, PeerId, ReceiverLink};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::breadth::Breadth;
use crate::config::ReceiverConfig;
use crate::error::ReceiverError;
use crate::events::{Command, DriverInbox, Event, SessionEvent};
use crate::ledger::Action;
use crate::link_trials::LinkTrials;
use crate::mailbox::Mailbox;
use crate::masking::Masking;
use crate::names::WorkerNames;
use crate::position::Position;
use crate::sample_order::SampleOrder;
use crate::scaling::Scaling;
use crate::sessions::{Dial, SessionShared};
use crate::setup::hello;
use crate::slots::SlotPool;
use crate::stats::{Levels, Stats};
use crate::subset::Subset;
use crate::tries::Tries;
use host::Host;
use in_flight::InFlight;
use report::Report;
use sequencer::Sequencer;
use session::Session;
use sessions::Sessions;
use tasks::StartCpu;

pub(crate) use host::{ASKS_AHEAD, HostLink};
pub(crate) use tasks::{CpuWork, Outcome, on_a_thread};

/// How often late leases and missing workers are looked for.
const TICK: Duration = Duration::from_millis(25);
/// Time for all sessions to end in order.
const LEAVE_LIMIT: Duration = Duration::from_millis(700);

/// What a driver is made of, beside the configuration.
pub(crate) struct DriverParts {
    pub(crate) recipe: Recipe,
    pub(crate) manifests: Vec<Arc<Manifest>>,
    pub(crate) order: Arc<SampleOrder>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) scaling: Arc<Scaling>,
    /// The links, best first; what they report comes as events.
    pub(crate) links: Vec<Arc<dyn ReceiverLink>>,
    pub(crate) slots: SlotPool,
    /// The way to workers.
    pub(crate) dial: Arc<dyn Dial>,
    /// For those who report events.
    pub(crate) events: mpsc::Sender<Event>,
    /// Starts work that would hold up an async thread.
    pub(crate) start_cpu: StartCpu,
    /// The batch that is ordered first.
    pub(crate) start: Position,
    /// Who has batches on this host.
    pub(crate) host: Option<HostLink>,
}

pub(crate) struct Driver {
    sequencer: Sequencer,
    in_flight: InFlight,
    sessions: Sessions,
    /// The service of this host, where there is one.
    host: Option<Host>,
    report: Report,
    /// The hand-over to the trainer.
    mailbox: Arc<Mailbox>,
    masking: Option<Arc<Masking>>,
    stats: Arc<Stats>,
    start_cpu: StartCpu,
    tasks: JoinSet<Outcome>,
}

// === impl Driver ===

impl Driver {
    /// # Errors
    /// Masks that do not fit the recipe.
    pub(crate) fn new(config: &ReceiverConfig, parts: DriverParts) -> Result<Self, ReceiverError> {
        let DriverParts { order, stats, .. } = parts;
        let masking = Masking::new(config, &parts.recipe)?;
        let worker_wait = Duration::from_millis(config.leases.worker_wait_ms.into());
        let mut hello = hello(config, &parts.recipe, &parts.manifests);
        let scope = hello.part_scope();
        let host = parts.host.map(|link| Host::new(link, scope.clone(), worker_wait));
        let is_served = host.is_some();
        if is_served {
            stats.serve_by_host(true);
        }
        hello.stream = order.stream(&scope, config.window.part_samples);
        let subset = Subset::new(order.standpoint(&scope), config.leases.workers_max);
        let in_flight = InFlight::new(config, &hello.receiver, hello.stream, scope, parts.slots);
        let sequencer = Sequencer::new(
            config,
            parts.start,
            Arc::clone(&order),
            parts.recipe,
            parts.scaling,
            Arc::clone(&stats),
        );
        let (leaving, left) = watch::channel(false);
        let shared = SessionShared {
            hello,
            dial: parts.dial,
            links: parts.links,
            events: parts.events,
            heartbeat: config.leases.heartbeat(),
            tries: Tries::default(),
            names: WorkerNames::default(),
            trials: LinkTrials::default(),
            ordered: sequencer.ordered(),
            order,
            breadth: Breadth::default(),
            leaving: left,
        };
        let max_lead = config.window.max_lead;
        let sessions =
            Sessions::new(shared, leaving, Arc::clone(&stats), subset, max_lead, is_served);
        Ok(Self {
            sequencer,
            in_flight,
            sessions,
            host,
            report: Report::new(Arc::clone(&stats), worker_wait),
            mailbox: parts.mailbox,
            masking,
            stats,
            start_cpu: parts.start_cpu,
            tasks: JoinSet::new(),
        })
    }

    /// The place up to which batches are ordered.
    pub(crate) fn ordered(&self) -> watch::Receiver<Position> {
        self.sequencer.ordered()
    }

    /// Runs until told to stop or until the stream fails, here or in the trainer's hands.
    pub(crate) async fn run(mut self, inbox: DriverInbox) {
        let DriverInbox { mut events, room, mut stop } = inbox;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.mailbox.is_ended() {
            let filled = self.fill();
            self.report.obstruct(self.obstacle());
            self.in_flight.assign(self.mailbox.ready() == 0);
            if let Err(error) = filled.and_then(|()| self.perform()) {
                self.mailbox.end(Some(error));
                break;
            }
            tokio::select! {
                // In this order: whatever is ready, the same run goes the same way.
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                _ = tick.tick() => self.on_tick(events.len()),
                Some(slot) = self.in_flight.released() => self.in_flight.give_back(slot),
                Some(ended) = self.tasks.join_next() => self.on_task(ended),
                () = room.notified() => {}
                Some(event) = events.recv() => self.on_event(event),
            }
        }
        self.mailbox.end(None);
        self.leave(events).await;
    }

    async fn leave(&mut self, mut events: mpsc::Receiver<Event>) {
        self.sessions.leave();
        let tasks = &mut self.tasks;
        let ended = async { while tasks.join_next().await.is_some() {} };
        // Whoever still has an event to tell must not wait for a driver that is gone.
        let heard = async { while events.recv().await.is_some() {} };
        let left = async {
            tokio::select! {
                () = ended => {}
                () = heard => {}
            }
        };
        let _ = tokio::time::timeout(LEAVE_LIMIT, left).await;
        self.tasks.shutdown().await;
    }

    fn on_tick(&mut self, queued_events: usize) {
        let seen = Instant::now();
        let queued_releases = self.in_flight.settle();
        self.stats.gauge(Levels {
            leases: self.in_flight.ledger().open_leases(),
            ready: self.mailbox.ready(),
            slots: self.in_flight.slots().len(),
            quarantined: self.in_flight.slots().quarantined(),
            tasks: self.tasks.len(),
            queued_events,
            queued_releases,
        });
        self.look_for_host();
        self.look_for_rest();
        self.look_for_moves();
        self.look_for_trouble(seen);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Session(peer, event) => self.on_session(peer, event),
            Event::Link(kind, arrival) => self.on_arrival(kind, arrival),
            Event::Command(command) => self.on_command(command),
            Event::Host(event) => self.on_host(event),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Seek(position, reply) => {
                let _ = reply.send(self.seek(position));
            }
            Command::SetWeights(weights, reply) => {
                // The generation first: it fixes the batch that the trainer takes next.
                let from = self.begin_generation(None);
                let work = self.sequencer.set_weights(from, weights, reply);
                self.start(work);
            }
            Command::Restore(state, allow, reply) => {
                let work = self.sequencer.restore(state, allow, reply);
                self.start(work);
            }
            Command::SetWorkers(workers) => self.look_for_workers(workers),
            Command::SetIdle(idle, reply) => {
                self.sessions.set_idle(idle);
                self.look_for_rest();
                let _ = reply.send(());
            }
            Command::WorkersMissing(reason) => self.sessions.set_missing(reason),
        }
    }

    fn on_session(&mut self, peer: PeerId, event: SessionEvent) {
        match event {
            SessionEvent::Joined { address, welcome, link, outbox, leased, held } => {
                let kind = link.kind();
                let session = Session::new(address, link, outbox, leased, held);
                let Some(is_gone) = self.sessions.join(peer, session, &welcome) else { return };
                self.in_flight.on_worker_joined(peer, kind, welcome);
                // The first one is tried with few others.
                self.meet_workers();
                if is_gone {
                    self.on_path_gone(peer, kind, "it was gone before it was used");
                }
            }
            SessionEvent::Ended { address, reason, hopeless, refusal } => {
                self.end_session(peer);
                self.sessions.on_ended(peer, address, (reason, hopeless), refusal);
                self.meet_workers();
            }
            SessionEvent::Said(message) => self.on_message(peer, message),
        }
    }

    fn on_message(&mut self, peer: PeerId, message: FromWorker) {
        match message {
            FromWorker::Done(done) => {
                self.stats.on_done(&done);
                self.report.substitutions(&done);
                self.in_flight.on_done(peer, done);
            }
            FromWorker::Failed(failure) => self.in_flight.on_failed(peer, failure),
            FromWorker::Credits { credits, draining } => {
                if draining {
                    tracing::info!(peer = peer.0, "worker drains");
                }
                let credits = self.sessions.on_credits(peer, credits, draining);
                self.in_flight.on_credits(peer, credits);
                if draining {
                    self.meet_workers();
                }
            }
            FromWorker::Heartbeat(answer) => {
                if self.sessions.on_slowest(peer, answer.news.slowest) {
                    self.in_flight.on_takes_from(peer, answer.news.takes_from);
                }
                if self.sessions.on_width(answer.news.width) {
                    self.meet_workers();
                }
            }
            FromWorker::Welcome(_) | FromWorker::LinkRequest(_) => {}
        }
    }

    fn on_arrival(&mut self, kind: LinkKind, arrival: Arrival) {
        match arrival {
            Arrival::Part { peer, lease } => self.in_flight.on_arrived(peer, lease, kind),
            Arrival::Quiet { peer, lease } => self.in_flight.on_quiet(peer, lease),
            Arrival::Connected { .. } => {}
            Arrival::Gone { peer, reason } => self.on_path_gone(peer, kind, &reason),
        }
    }

    /// A task has ended. One that panicked ends the stream: nobody would receive its result.
    fn on_task(&mut self, ended: Result<Outcome, JoinError>) {
        match ended {
            Ok(Outcome::Left) => {}
            Ok(Outcome::Drawn(serial, plan)) => self.sequencer.on_drawn(serial, plan),
            Ok(Outcome::Verified(lease, equal)) => self.in_flight.on_verified(lease, equal),
            Ok(Outcome::Reweighed(result, reply)) => {
                self.sequencer.on_reordered();
                let _ = reply.send(result);
            }
            Ok(Outcome::Restored(result, reply)) => {
                self.on_restored(&result);
                let _ = reply.send(result);
            }
            Err(error) if error.is_panic() => {
                let reason = format!("a task of its own panicked: {error}");
                self.in_flight.give_up(ReceiverError::Closed { reason });
            }
            // A session with a worker that was taken off the list.
            Err(_) => {}
        }
    }

    /// Performs what the ledger decided.
    fn perform(&mut self) -> Result<(), ReceiverError> {
        while let Some(action) = self.in_flight.next_action() {
            match action {
                Action::Lease { peer, lease, place } => self.lease(peer, lease, place),
                Action::Withdraw { peer, lease } => self.withdraw(peer, lease),
                Action::Count { link, landing, bytes } => {
                    self.stats.on_part(link, landing, bytes);
                }
                Action::Verify { place, landing, samples, checksum } => {
                    let work = self.in_flight.verify(&place, landing, samples, checksum);
                    self.start(work);
                }
                Action::Deliver(finished) => self.deliver(*finished)?,
                Action::Fail(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn start(&mut self, work: CpuWork) {
        (self.start_cpu)(&mut self.tasks, work);
    }
}
