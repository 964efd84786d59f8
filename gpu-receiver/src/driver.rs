//! The task that performs what the ledger decides: orders batches, leases parts, watches links.

mod course;
mod fill;
mod host;
mod landing;
mod pace;
mod report;
mod sessions;
mod spans;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_core::sampler::SamplerError;
use headwater_core::{Layout, Manifest, Recipe, Reminder};
use headwater_proto::augment::{FromWorker, ToWorker};
use headwater_transport::{Arrival, LeaseId, LinkKind, PeerId, ReceiverLink, SlotId, Withdrawal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::config::ReceiverConfig;
use crate::error::ReceiverError;
use crate::events::{Command, DriverInbox, Event};
use crate::ledger::{Action, Ledger, Serial};
use crate::link_trials::LinkTrials;
use crate::mailbox::Mailbox;
use crate::masking::Masking;
use crate::names::WorkerNames;
use crate::position::Position;
use crate::sample_order::{Plan, SampleOrder};
use crate::scaling::Scaling;
use crate::sessions::{Dial, SessionShared};
use crate::setup::{hello, ledger_config};
use crate::slots::SlotPool;
use crate::stall::Cause;
use crate::stats::Stats;
use crate::tries::Tries;
use host::Host;
use spans::Spans;

pub(crate) use host::{ASKS_AHEAD, HostLink};
pub(crate) use tasks::{CpuWork, Outcome, on_a_thread};

/// How often late leases and missing workers are looked for.
const TICK: Duration = Duration::from_millis(25);
/// Time for all sessions to end in order.
const LEAVE_LIMIT: Duration = Duration::from_millis(700);

/// A worker's session as the driver sees it.
struct Session {
    address: String,
    link: Arc<dyn ReceiverLink>,
    outbox: mpsc::Sender<ToWorker>,
    /// The step of the slowest other receiver of the stream there.
    slowest: Option<u64>,
    /// Set with the first lease that is given.
    leased: Arc<AtomicBool>,
    _held: oneshot::Sender<()>,
}

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

/// Adds CPU work to the driver's tasks. Passed in, so that simulations can do it in their one thread.
pub(crate) type StartCpu = fn(&mut JoinSet<Outcome>, CpuWork);

pub(crate) struct Driver {
    ledger: Ledger,
    slots: SlotPool,
    order: Arc<SampleOrder>,
    mailbox: Arc<Mailbox>,
    stats: Arc<Stats>,
    recipe: Recipe,
    scaling: Arc<Scaling>,
    masking: Option<Arc<Masking>>,
    window_batches: usize,
    /// Steps before the slowest receiver of the stream; `None`: as many as may be.
    max_lead: Option<NonZero<u32>>,
    worker_wait: Duration,
    /// Epochs beyond the trainer's own that are begun early.
    epochs_ahead: u32,
    /// Number of epochs; 0: without end.
    epochs: u32,
    sessions_shared: Arc<SessionShared>,
    start_cpu: StartCpu,
    /// For slots that the trainer lets go of; one place for each, so that it is never full.
    releases: mpsc::Sender<SlotId>,
    released: mpsc::Receiver<SlotId>,
    /// The place that is ordered or asked for next. Workers hear of it. There is no second copy: one that stood
    /// still would hold back all other receivers of the stream.
    ordered: watch::Sender<Position>,
    /// Tells the sessions to end.
    leaving: watch::Sender<bool>,
    tasks: JoinSet<Outcome>,
    state: DriverState,
    /// The service of this host, where there is one.
    host: Option<Host>,
    spans: Spans,
}

/// The driver's own bookkeeping.
struct DriverState {
    sessions: BTreeMap<PeerId, Session>,
    /// The link of each peer that ever joined, until the link says that it is gone.
    paths: BTreeMap<PeerId, LinkKind>,
    keepers: BTreeMap<String, AbortHandle>,
    /// The workers there should be.
    workers: Vec<String>,
    /// No batch is wanted of any worker: there are no sessions.
    rests: bool,
    /// Nobody is going to take a batch for now.
    idle: bool,
    /// By samples and bucket.
    layouts: BTreeMap<(u32, u32), Arc<Layout>>,
    next_serial: Serial,
    /// The batch whose samples are being drawn.
    drawing: Option<Serial>,
    /// The batch that is ordered next.
    drawn: Option<(Serial, Result<Plan, SamplerError>)>,
    /// The order of samples is being changed: nothing is drawn meanwhile.
    reordering: bool,
    started: Instant,
    /// Since when no worker is there.
    alone_since: Option<Instant>,
    /// What was heard last of each worker that has no session.
    refusals: BTreeMap<String, String>,
    /// Why no workers are found where they are looked for; empty: they are.
    missing: String,
    reminder: Reminder,
    stuck_since: Option<Instant>,
    /// Batches wait for slower receivers.
    paced: bool,
    /// The last cause that was reported for batches not being made.
    obstacle: Option<Cause>,
}

// === impl DriverState ===

impl DriverState {
    fn new() -> Self {
        Self {
            sessions: BTreeMap::new(),
            paths: BTreeMap::new(),
            keepers: BTreeMap::new(),
            workers: Vec::new(),
            rests: false,
            idle: false,
            layouts: BTreeMap::new(),
            next_serial: Serial(0),
            drawing: None,
            drawn: None,
            reordering: false,
            started: Instant::now(),
            alone_since: Some(Instant::now()),
            refusals: BTreeMap::new(),
            missing: String::new(),
            reminder: Reminder::default(),
            stuck_since: None,
            paced: false,
            obstacle: Some(Cause::Nobody),
        }
    }
}

// === impl Driver ===

impl Driver {
    /// # Errors
    /// Masks that do not fit the recipe.
    pub(crate) fn new(config: &ReceiverConfig, parts: DriverParts) -> Result<Self, ReceiverError> {
        let mut hello = hello(config, &parts.recipe, &parts.manifests);
        let scope = hello.part_scope();
        let host = parts.host.map(|link| Host::new(link, scope.clone()));
        let mut state = DriverState::new();
        if host.is_some() {
            (state.rests, state.alone_since) = (true, None);
            parts.stats.serve_by_host(true);
        }
        hello.stream = parts.order.stream(&scope, config.part_samples);
        let stream = hello.stream;
        let spans = Spans::new(&hello.receiver, stream);
        let (leaving, left) = watch::channel(false);
        let ordered = watch::Sender::new(parts.start);
        let (releases, released) = mpsc::channel(config.slots_limit());
        let sessions_shared = Arc::new(SessionShared {
            hello,
            dial: parts.dial,
            links: parts.links,
            events: parts.events,
            heartbeat: config.heartbeat(),
            tries: Tries::default(),
            names: WorkerNames::default(),
            trials: LinkTrials::default(),
            ordered: ordered.subscribe(),
            order: Arc::clone(&parts.order),
            leaving: left,
        });
        Ok(Self {
            ledger: Ledger::new(ledger_config(config), scope).of_stream(stream),
            slots: parts.slots,
            order: parts.order,
            mailbox: parts.mailbox,
            stats: parts.stats,
            masking: Masking::new(config, &parts.recipe)?,
            recipe: parts.recipe,
            scaling: parts.scaling,
            window_batches: config.window_batches as usize,
            max_lead: NonZero::new(config.max_lead),
            worker_wait: Duration::from_millis(config.worker_wait_ms.into()),
            epochs_ahead: u32::from(config.prefetch_next_epoch),
            epochs: config.epochs,
            sessions_shared,
            start_cpu: parts.start_cpu,
            releases,
            released,
            ordered,
            leaving,
            tasks: JoinSet::new(),
            state,
            host,
            spans,
        })
    }

    /// The place up to which batches are ordered.
    pub(crate) fn ordered(&self) -> watch::Receiver<Position> {
        self.ordered.subscribe()
    }

    /// Runs until told to stop or until the stream fails, here or in the trainer's hands.
    pub(crate) async fn run(mut self, inbox: DriverInbox) {
        let DriverInbox { mut events, room, mut stop } = inbox;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.mailbox.is_ended() {
            let filled = self.fill();
            self.look_for_obstacles();
            self.ledger.on_demand(self.mailbox.ready() == 0);
            self.ledger.assign(self.now());
            if let Err(error) = filled.and_then(|()| self.perform()) {
                self.mailbox.end(Some(error));
                break;
            }
            tokio::select! {
                // In this order: whatever is ready, the same run goes the same way.
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                _ = tick.tick() => self.on_tick(events.len()),
                Some(slot) = self.released.recv() => self.slots.give_back(slot, &self.ledger),
                Some(ended) = self.tasks.join_next() => self.on_task(ended),
                () = room.notified() => {}
                Some(event) = events.recv() => self.on_event(event),
            }
        }
        self.mailbox.end(None);
        self.leave(events).await;
    }

    /// Ends all sessions in order: each hears of it before it is let go of, and then the worker does.
    async fn leave(&mut self, mut events: mpsc::Receiver<Event>) {
        let _ = self.leaving.send(true);
        let sessions = std::mem::take(&mut self.state.sessions);
        for (peer, session) in sessions {
            drop(session);
            self.stats.on_worker_left(peer);
        }
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

    /// The place that is ordered next.
    fn place(&self) -> Position {
        *self.ordered.borrow()
    }

    fn go_on_at(&self, place: Position) {
        self.ordered.send_replace(place);
    }

    fn now(&self) -> Duration {
        self.state.started.elapsed()
    }

    fn on_tick(&mut self, queued_events: usize) {
        let seen = Instant::now();
        let queued_releases = self.released.len();
        while let Ok(slot) = self.released.try_recv() {
            self.slots.give_back(slot, &self.ledger);
        }
        self.slots.settle(&self.ledger);
        self.report_levels(queued_events, queued_releases);
        self.look_for_host();
        self.look_for_rest();
        self.look_for_trouble(seen);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Session(peer, event) => self.on_session(peer, event),
            Event::Link(kind, arrival) => self.on_arrival(kind, arrival),
            Event::Command(Command::Seek(position, reply)) => {
                let _ = reply.send(self.seek(position));
            }
            Event::Command(Command::SetWeights(weights, reply)) => {
                self.set_weights(weights, reply);
            }
            Event::Command(Command::Restore(state, allow, reply)) => {
                self.restore(state, allow, reply);
            }
            Event::Command(Command::SetWorkers(workers)) => self.look_for_workers(workers),
            Event::Command(Command::SetIdle(idle, reply)) => {
                self.state.idle = idle;
                self.look_for_rest();
                let _ = reply.send(());
            }
            Event::Host(event) => self.on_host(event),
            Event::Command(Command::WorkersMissing(reason)) => self.state.missing = reason,
        }
    }

    fn on_message(&mut self, peer: PeerId, message: FromWorker) {
        let now = self.now();
        match message {
            FromWorker::Done(done) => {
                self.stats.on_done(&done);
                self.report_substitutions(&done);
                self.spans.on_done(LeaseId(done.lease));
                self.ledger.on_done(peer, done, now);
            }
            FromWorker::Failed(failure) => {
                self.spans.on_lost(LeaseId(failure.lease), "worker failed");
                self.ledger.on_failed(peer, failure, now);
            }
            FromWorker::Credits { credits, draining } => {
                if draining {
                    tracing::info!(peer = peer.0, "worker drains");
                }
                self.ledger.on_credits(peer, credits);
            }
            FromWorker::Heartbeat(answer) => self.on_news(peer, answer.news),
            FromWorker::Welcome(_) | FromWorker::LinkRequest(_) => {}
        }
    }

    fn on_arrival(&mut self, kind: LinkKind, arrival: Arrival) {
        let now = self.now();
        match arrival {
            Arrival::Part { peer, lease } => {
                self.spans.on_arrived(lease);
                self.ledger.on_arrived(peer, lease, self.landing(kind), now);
            }
            Arrival::Quiet { peer, lease } => self.ledger.on_quiet(peer, lease),
            Arrival::Connected { .. } => {}
            Arrival::Gone { peer, reason } => self.on_path_gone(peer, kind, &reason),
        }
    }

    /// Performs what the ledger decided.
    fn perform(&mut self) -> Result<(), ReceiverError> {
        while let Some(action) = self.ledger.next_action() {
            match action {
                Action::Lease { peer, lease, place } => {
                    let Some(session) = self.state.sessions.get(&peer) else { continue };
                    session.link.expect(peer, place);
                    self.spans.on_leased(peer, &session.address, &lease);
                    session.leased.store(true, Ordering::Relaxed);
                    if session.outbox.try_send(ToWorker::Lease(lease)).is_err() {
                        self.end_session(peer);
                    }
                }
                Action::Withdraw { peer, lease } => self.withdraw(peer, lease),
                Action::Count { link, landing, bytes } => {
                    self.stats.on_part(link, landing, bytes);
                }
                Action::Verify { place, landing, samples, checksum } => {
                    self.verify(&place, landing, samples, checksum);
                }
                Action::Deliver(finished) => self.deliver(*finished)?,
                Action::Fail(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn withdraw(&mut self, peer: PeerId, lease: LeaseId) {
        // Without a session the path is being torn down, and `Gone` will follow.
        let Some(session) = self.state.sessions.get(&peer) else { return };
        self.spans.on_lost(lease, "withdrawn");
        let withdrawal = session.link.withdraw(peer, lease);
        let _ = session.outbox.try_send(ToWorker::Withdraw(vec![lease.0]));
        if withdrawal == Withdrawal::Quiet {
            self.ledger.on_quiet(peer, lease);
        }
    }
}
