//! The task that performs what the ledger decides: orders batches, leases parts, watches links.

mod fill;
mod landing;
mod report;
mod sessions;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_core::sampler::{Restored, Sampler, SamplerError, State, Term};
use headwater_core::{Layout, Recipe};
use headwater_cuda::CudaError;
use headwater_proto::augment::{FromWorker, SessionWelcome, ToWorker};
use headwater_transport::{Arrival, LeaseId, LinkKind, PeerId, ReceiverLink, SlotId, Withdrawal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::config::Verify;
use crate::error::ReceiverError;
use crate::ledger::{Action, Ledger, Serial};
use crate::mailbox::{Mailbox, Position};
use crate::masking::Masking;
use crate::scaling::Scaling;
use crate::sessions::SessionShared;
use crate::slots::SlotPool;
use crate::stats::Stats;

/// How often late leases and missing workers are looked for.
const TICK: Duration = Duration::from_millis(25);
/// Time for all sessions to end in order.
const LEAVE_LIMIT: Duration = Duration::from_millis(700);

/// Something that happened.
pub(crate) enum Event {
    Session(PeerId, SessionEvent),
    Link(LinkKind, Arrival),
    Verified {
        lease: LeaseId,
        /// Whether the bytes are those of the checksum; an error where the GPU that has them fails.
        equal: Result<bool, CudaError>,
    },
    Command(Command),
    /// The trainer took something: there may be room.
    Nudge,
}

/// What a control stream reports.
pub(crate) enum SessionEvent {
    Joined {
        address: String,
        welcome: SessionWelcome,
        link: Arc<dyn ReceiverLink>,
        outbox: mpsc::Sender<ToWorker>,
        /// Dropped to give the session up.
        held: oneshot::Sender<()>,
    },
    Said(FromWorker),
    Ended {
        address: String,
        reason: String,
        hopeless: bool,
    },
}

/// What the trainer's side asks for.
pub(crate) enum Command {
    /// Go on at another place.
    Seek(Position, oneshot::Sender<Result<(), ReceiverError>>),
    /// Weights from the next batch that the trainer takes.
    SetWeights(Vec<f64>, oneshot::Sender<Result<(), SamplerError>>),
    /// Take over a state and go on where it says.
    Restore(Box<State>, Vec<Term>, oneshot::Sender<Result<Restored, ReceiverError>>),
    /// The workers there should be.
    SetWorkers(Vec<String>),
    /// Why no workers are found where they are looked for.
    WorkersMissing(String),
    /// End.
    Stop,
}

/// A worker's session as the driver sees it.
struct Session {
    address: String,
    link: Arc<dyn ReceiverLink>,
    outbox: mpsc::Sender<ToWorker>,
    _held: oneshot::Sender<()>,
}

pub(crate) struct Driver {
    pub(crate) ledger: Ledger,
    pub(crate) slots: SlotPool,
    pub(crate) sampler: Arc<Mutex<Sampler>>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) recipe: Recipe,
    pub(crate) scaling: Arc<Scaling>,
    pub(crate) masking: Option<Arc<Masking>>,
    pub(crate) verify: Verify,
    pub(crate) window_batches: usize,
    pub(crate) worker_wait: Duration,
    /// Epochs beyond the trainer's own that are begun early.
    pub(crate) epochs_ahead: u32,
    /// Number of epochs; 0: without end.
    pub(crate) epochs: u32,
    pub(crate) sessions_shared: Arc<SessionShared>,
    pub(crate) releases: mpsc::UnboundedSender<SlotId>,
    /// The place up to which batches are ordered.
    pub(crate) ordered: watch::Sender<Position>,
    /// Tells the sessions to end.
    pub(crate) leaving: watch::Sender<bool>,
    pub(crate) state: DriverState,
}

/// The driver's own bookkeeping.
pub(crate) struct DriverState {
    sessions: BTreeMap<PeerId, Session>,
    /// The link of each peer that ever joined, until the link says that it is gone.
    paths: BTreeMap<PeerId, LinkKind>,
    /// Links that were gone before their peer's welcome was heard.
    gone_early: Vec<(PeerId, LinkKind)>,
    keepers: BTreeMap<String, AbortHandle>,
    tasks: JoinSet<()>,
    layouts: BTreeMap<u32, Arc<Layout>>,
    course: u64,
    /// The batch that is ordered next.
    fill: Position,
    next_serial: u64,
    first_serial_of_course: u64,
    started: Instant,
    /// Since when no worker is there, and what was heard last.
    alone_since: Option<Instant>,
    last_refusal: String,
    stuck_since: Option<Instant>,
}

// === impl DriverState ===

impl DriverState {
    pub(crate) fn new(fill: Position) -> Self {
        Self {
            sessions: BTreeMap::new(),
            paths: BTreeMap::new(),
            gone_early: Vec::new(),
            keepers: BTreeMap::new(),
            tasks: JoinSet::new(),
            layouts: BTreeMap::new(),
            course: 0,
            fill,
            next_serial: 0,
            first_serial_of_course: 0,
            started: Instant::now(),
            alone_since: Some(Instant::now()),
            last_refusal: "none answered yet".into(),
            stuck_since: None,
        }
    }
}

// === impl Driver ===

impl Driver {
    /// Runs until told to stop or until the stream fails.
    pub(crate) async fn run(
        mut self,
        mut events: mpsc::UnboundedReceiver<Event>,
        mut released: mpsc::UnboundedReceiver<SlotId>,
    ) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let filled = self.fill();
            self.ledger.assign(self.now());
            if let Err(error) = filled.and_then(|()| self.perform()) {
                self.mailbox.end(Some(error));
                break;
            }
            let event = tokio::select! {
                // In this order: whatever is ready, the same run goes the same way.
                biased;
                _ = tick.tick() => {
                    let seen = Instant::now();
                    while let Ok(slot) = released.try_recv() {
                        self.slots.give_back(slot, &self.ledger);
                    }
                    self.slots.settle(&self.ledger);
                    self.forget_ended_tasks();
                    self.look_for_trouble(seen);
                    continue;
                }
                slot = released.recv() => {
                    if let Some(slot) = slot {
                        self.slots.give_back(slot, &self.ledger);
                    }
                    continue;
                }
                event = events.recv() => event,
            };
            match event {
                None | Some(Event::Command(Command::Stop)) => break,
                Some(event) => self.handle(event),
            }
        }
        self.mailbox.end(None);
        self.leave().await;
    }

    /// Ends all sessions in order: each hears of it before it is let go of, and then the worker does.
    async fn leave(&mut self) {
        let _ = self.leaving.send(true);
        let sessions = std::mem::take(&mut self.state.sessions);
        for (peer, session) in sessions {
            drop(session);
            self.stats.worker_left(peer);
        }
        let tasks = &mut self.state.tasks;
        let ended = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LEAVE_LIMIT, ended).await;
        self.state.tasks.shutdown().await;
    }

    fn now(&self) -> Duration {
        self.state.started.elapsed()
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Session(peer, SessionEvent::Said(message)) => self.said(peer, message),
            Event::Session(peer, event) => self.session_changed(peer, event),
            Event::Link(kind, arrival) => self.link_reported(kind, arrival),
            Event::Verified { lease, equal: Ok(equal) } => self.ledger.verified(lease, equal, now),
            Event::Verified { equal: Err(error), .. } => self.ledger.give_up(error.into()),
            Event::Command(Command::Seek(position, reply)) => {
                let _ = reply.send(self.seek(position));
            }
            Event::Command(Command::SetWeights(weights, reply)) => {
                let _ = reply.send(self.set_weights(&weights));
            }
            Event::Command(Command::Restore(state, allow, reply)) => {
                let _ = reply.send(self.restore(&state, &allow));
            }
            Event::Command(Command::SetWorkers(workers)) => self.set_workers(workers),
            Event::Command(Command::WorkersMissing(reason)) => self.state.last_refusal = reason,
            Event::Command(Command::Stop) | Event::Nudge => {}
        }
    }

    fn said(&mut self, peer: PeerId, message: FromWorker) {
        let now = self.now();
        match message {
            FromWorker::Done(done) => {
                self.stats.part_done(&done);
                self.report_substitutions(&done);
                self.ledger.done(peer, done, now);
            }
            FromWorker::Failed(failure) => self.ledger.failed(peer, failure, now),
            FromWorker::Credits { credits, draining } => {
                if draining {
                    tracing::info!(peer = peer.0, "worker drains");
                }
                self.ledger.worker_credits(peer, credits);
            }
            FromWorker::Welcome(_) | FromWorker::Heartbeat(_) | FromWorker::LinkRequest(_) => {}
        }
    }

    fn link_reported(&mut self, kind: LinkKind, arrival: Arrival) {
        let now = self.now();
        match arrival {
            Arrival::Part { peer, lease } => {
                self.ledger.arrived(peer, lease, self.landing(kind), now);
            }
            Arrival::Quiet { peer, lease } => self.ledger.quiet(peer, lease),
            Arrival::Connected { .. } => {}
            Arrival::Gone { peer, reason } => self.path_gone(peer, kind, &reason),
        }
    }

    /// Performs what the ledger decided.
    fn perform(&mut self) -> Result<(), ReceiverError> {
        while let Some(action) = self.ledger.next_action() {
            match action {
                Action::Lease { peer, lease, place } => {
                    let Some(session) = self.state.sessions.get(&peer) else { continue };
                    session.link.expect(peer, place);
                    if session.outbox.try_send(ToWorker::Lease(lease)).is_err() {
                        self.end_session(peer);
                    }
                }
                Action::Withdraw { peer, lease } => self.withdraw(peer, lease),
                Action::Verify { peer, place, landing, samples, checksum } => {
                    self.verify(peer, &place, landing, samples, checksum);
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
        let withdrawal = session.link.withdraw(peer, lease);
        let _ = session.outbox.try_send(ToWorker::Withdraw(vec![lease.0]));
        if withdrawal == Withdrawal::Quiet {
            self.ledger.quiet(peer, lease);
        }
    }

    fn set_weights(&mut self, weights: &[f64]) -> Result<(), SamplerError> {
        // The course first: it fixes the batch that the trainer takes next.
        let Position { epoch, step } = self.change_course(None);
        lock(&self.sampler).set_weights(epoch, step, weights)
    }

    fn seek(&mut self, position: Position) -> Result<(), ReceiverError> {
        self.scaling.go_on(position, None)?;
        self.change_course(Some(position));
        Ok(())
    }

    fn restore(&mut self, state: &State, allow: &[Term]) -> Result<Restored, ReceiverError> {
        let mut sampler = lock(&self.sampler);
        // Tried on a copy: where the scales cannot be had, the order stays as it was.
        let mut moved = sampler.clone();
        let restored = moved.restore(state, allow)?;
        let position = Position { epoch: restored.epoch, step: restored.step };
        self.scaling.go_on(position, state.fp8.as_ref())?;
        *sampler = moved;
        drop(sampler);
        // Nothing was ordered since: the driver does one thing at a time.
        self.change_course(Some(position));
        Ok(restored)
    }

    fn change_course(&mut self, to: Option<Position>) -> Position {
        let (course, position) = self.mailbox.change_course(to);
        let forgotten = self.ledger.forget_from(Serial(self.state.first_serial_of_course));
        for slot in forgotten {
            self.slots.give_back(slot, &self.ledger);
        }
        self.state.course = course;
        self.state.first_serial_of_course = self.state.next_serial;
        self.state.fill = position;
        position
    }
}

pub(crate) fn lock(sampler: &Mutex<Sampler>) -> std::sync::MutexGuard<'_, Sampler> {
    sampler.lock().unwrap_or_else(PoisonError::into_inner)
}
