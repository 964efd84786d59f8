//! Modelled workers: sessions, credits, heartbeats and drains as the real ones have them, with a
//! modelled time for reading and decoding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_core::seats::{Full, Seats};
use headwater_core::streams::Streams;
use headwater_core::{Digest, SampleRef};
use headwater_proto::augment::{
    Failure, FailureKind, FromWorker, HeartbeatAnswer, PartDone, PartLease, PartOrigin, Provenance,
    ToWorker, WorkTimes,
};
use headwater_transport::{LeaseId, LinkKind, PeerId, ReceiverLink as _};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::fleet::LATE;
use super::link::ModelLink;
use super::network::{chance, count};
use super::scene::Scene;

/// Time of one sample on one thread, within [`SPREAD`] per cent.
const SAMPLE: Duration = Duration::from_millis(40);
const SPREAD: std::ops::Range<u32> = 70..130;
pub(super) const THREADS: usize = 2;
pub(super) const CREDITS: u32 = 6;
const HEARTBEATS_MISSED_MAX: u32 = 4;

/// How a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Serves,
    /// Talks as ever, takes leases and lets go of those that are withdrawn, but no work goes on.
    Wedged,
    /// Takes no more leases, and ends with the last.
    Drains,
    /// The process is gone, its connections are closed.
    Dead,
    /// The host is gone: nobody hears anything.
    Silent,
}

pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) health: watch::Sender<Health>,
    threads: Semaphore,
    /// How many times slower than others.
    pub(super) slowness: AtomicU64,
    /// Leases that it was given.
    pub(super) leases: AtomicU64,
    streams: Mutex<Streams>,
    roster: Mutex<Roster>,
}

/// Leases that a receiver has withdrawn.
type Withdrawn = watch::Sender<BTreeSet<u64>>;

/// A receiver's session on a worker.
pub(super) struct Session {
    pub(super) receiver: usize,
    pub(super) peer: PeerId,
    pub(super) stream: Digest,
    pub(super) heartbeat: Duration,
    pub(super) link: Arc<ModelLink>,
    pub(super) seat: Seat,
    pub(super) inbox: mpsc::Receiver<ToWorker>,
    pub(super) outbox: mpsc::Sender<Result<FromWorker, String>>,
}

/// One of the sessions that a worker may have, until dropped.
pub(super) struct Seat {
    worker: Arc<Worker>,
    session: u64,
    /// Set to have it leave.
    leave: watch::Receiver<bool>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut roster = self.worker.roster();
        roster.seats.leave(self.session);
        roster.leave.remove(&self.session);
    }
}

/// The sessions of a worker.
struct Roster {
    seats: Seats,
    begun: u64,
    most: usize,
    asked: usize,
    leave: BTreeMap<u64, watch::Sender<bool>>,
}

/// Name of a sample, as provenance has it.
pub(super) fn key_of(sample: &SampleRef) -> String {
    format!("{}/{}/{}", sample.shard, sample.index, sample.pass)
}

/// Tells the receiver's link that nothing is written any more, however the session ends.
struct Closing<'a>(&'a ModelLink, PeerId);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.closed(self.1);
    }
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(number: usize, sessions_max: usize) -> Self {
        let (seats, leave) = (Seats::new(sessions_max, number as u64), BTreeMap::new());
        let roster = Mutex::new(Roster { seats, begun: 0, most: 0, asked: 0, leave });
        let health = watch::Sender::new(Health::Serves);
        let (threads, slowness) = (Semaphore::new(THREADS), AtomicU64::new(1));
        let streams = Mutex::default();
        Self { number, health, threads, slowness, leases: AtomicU64::new(0), streams, roster }
    }

    /// A place for a session, if one is free for this receiver; else, whether one will be.
    pub(super) fn enter(
        self: &Arc<Self>,
        receiver: &str,
        held: Option<u32>,
        now: Duration,
    ) -> Result<Seat, bool> {
        let mut roster = self.roster();
        let session = roster.begun;
        roster.begun += 1;
        match roster.seats.enter(session, receiver, held, now) {
            Ok(()) => {
                let (ask, leave) = watch::channel(false);
                roster.leave.insert(session, ask);
                roster.most = roster.most.max(roster.seats.taken());
                Ok(Seat { worker: Arc::clone(self), session, leave })
            }
            Err(Full { asked, is_kept }) => {
                roster.asked += if now >= LATE { asked.len() } else { 0 };
                for ask in asked.iter().filter_map(|session| roster.leave.get(session)) {
                    ask.send_replace(true);
                }
                Err(is_kept)
            }
        }
    }

    /// The most sessions that there were at once.
    pub(super) fn most_sessions(&self) -> usize {
        self.roster().most
    }

    /// Sessions that had to make room for those that came late.
    pub(super) fn asked_to_leave(&self) -> usize {
        self.roster().asked
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Samples per second of one thread, in the mean.
    pub(super) fn thread_rate() -> f64 {
        let mean = f64::from(SPREAD.start + SPREAD.end - 1) / 2.0 / 100.0;
        1.0 / (SAMPLE.as_secs_f64() * mean)
    }

    /// Serves a receiver until either leaves or dies.
    pub(super) async fn serve(self: Arc<Self>, scene: Arc<Scene>, mut session: Session) {
        let link = Arc::clone(&session.link);
        let closing = Closing(&link, session.peer);
        let mut health = self.health.subscribe();
        let member = (session.receiver as u64) << 32 | session.peer.0;
        self.streams().enter(session.stream, member);
        tokio::select! {
            biased;
            () = becomes(&mut health, &[Health::Dead, Health::Silent]) => {}
            () = self.talk(&scene, &mut session, member) => {}
        }
        self.streams().leave(session.stream, member);
        // A host that is gone closes nothing: its connections stay half open until the receiver
        // gives up. A worker on the receiver's own host cannot go without the receiver.
        if *self.health.borrow() == Health::Silent && link.kind() == LinkKind::Tcp {
            session.outbox.closed().await;
        }
        drop(closing);
    }

    /// Until the session ends, and then until nothing renders for it any more.
    async fn talk(self: &Arc<Self>, scene: &Arc<Scene>, session: &mut Session, member: u64) {
        let mut work: JoinSet<FromWorker> = JoinSet::new();
        self.answer(scene, session, member, &mut work).await;
        while work.join_next().await.is_some() {}
    }

    async fn answer(
        self: &Arc<Self>,
        scene: &Arc<Scene>,
        session: &mut Session,
        member: u64,
        work: &mut JoinSet<FromWorker>,
    ) {
        let mut health = self.health.subscribe();
        let mut leave = session.seat.leave.clone();
        let withdrawn = Withdrawn::new(BTreeSet::new());
        let mut draining = false;
        let patience = session.heartbeat * HEARTBEATS_MISSED_MAX;
        let mut silent_at = Instant::now() + patience;
        loop {
            if draining && work.is_empty() {
                return;
            }
            let answer = tokio::select! {
                biased;
                Some(done) = work.join_next() => {
                    count(&scene.network.counts.answers);
                    done.expect("a modelled part does not panic")
                }
                () = asked(&mut health, &mut leave), if !draining => {
                    draining = true;
                    FromWorker::Credits { credits: 0, draining }
                }
                message = timeout_at(silent_at, session.inbox.recv()) => {
                    let Ok(Some(message)) = message else { return };
                    scene.network.pass(session.receiver, self.number).await;
                    silent_at = Instant::now() + patience;
                    match message {
                        ToWorker::Heartbeat(beat) => {
                            self.roster().seats.heard(session.seat.session, beat.sessions_held);
                            count(&scene.network.counts.heartbeats);
                            count(&scene.network.counts.heartbeats);
                            let now = scene.started.elapsed();
                            let (stream, every) = (session.stream, session.heartbeat);
                            let news = self.streams().heard(stream, member, (beat.step, beat.width), every, now);
                            let sequence = beat.sequence;
                            FromWorker::Heartbeat(HeartbeatAnswer { sequence, news })
                        }
                        ToWorker::Lease(lease) => {
                            count(&scene.network.counts.leases);
                            count(&self.leases);
                            work.spawn(self.part(scene, session, lease, withdrawn.subscribe()));
                            continue;
                        }
                        ToWorker::Withdraw(leases) => {
                            count(&scene.network.counts.withdrawals);
                            withdrawn.send_modify(|known| known.extend(leases));
                            continue;
                        }
                        // No model asks for a link's answer.
                        ToWorker::Hello(_) | ToWorker::LinkAnswer(_) => return,
                    }
                }
            };
            scene.network.pass(session.receiver, self.number).await;
            if session.outbox.send(Ok(answer)).await.is_err() {
                return;
            }
        }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One lease from its arrival to its answer.
    fn part(
        self: &Arc<Self>,
        scene: &Arc<Scene>,
        session: &Session,
        lease: PartLease,
        mut withdrawn: watch::Receiver<BTreeSet<u64>>,
    ) -> impl Future<Output = FromWorker> + Send + use<> {
        let (worker, scene, link) =
            (Arc::clone(self), Arc::clone(scene), Arc::clone(&session.link));
        let (receiver, peer, id) = (session.receiver, session.peer, LeaseId(lease.lease));
        async move {
            let mut health = worker.health.subscribe();
            tokio::select! {
                biased;
                () = goes_on(&mut health) => {}
                _ = withdrawn.wait_for(|leases| leases.contains(&lease.lease)) => {
                    return failed(&lease, FailureKind::Withdrawn);
                }
            }
            if !scene.storage.read(lease.samples[0].shard).await {
                return failed(&lease, FailureKind::Retry);
            }
            let shares = scene.shares.as_ref();
            let making = shares.map(|shares| shares.making(worker.number, &lease.samples));
            let mut made = match &making {
                Some(making) => Some(making.lock().await),
                None => None,
            };
            let is_made = made.as_deref() == Some(&true);
            let thread = worker.threads.acquire().await.expect("never closed");
            if !link.begin(peer, id) {
                return failed(&lease, FailureKind::Withdrawn);
            }
            let spread = u64::from(SPREAD.end - SPREAD.start);
            let jitter = chance(scene.seed, "decode", [lease.lease, receiver as u64], spread);
            let slowness = worker.slowness.load(Ordering::Relaxed) as u32;
            let time = SAMPLE * lease.samples.len() as u32 * slowness;
            if !is_made {
                shares.inspect(|shares| shares.begin(worker.number, &lease.samples));
                tokio::time::sleep(time * (SPREAD.start + jitter as u32) / 100).await;
            }
            if let Some(made) = &mut made {
                **made = true;
            }
            // What has begun is not interrupted: it keeps its thread, and the slot where it writes.
            goes_on(&mut health).await;
            drop(thread);
            drop(made);
            scene.network.pass(receiver, worker.number).await;
            if !link.deliver(peer, id) {
                return failed(&lease, FailureKind::Withdrawn);
            }
            let samples = lease.samples.iter().map(|sample| Provenance {
                key: key_of(sample),
                label: -1,
                substituted: None,
            });
            let samples: Vec<Provenance> = samples.collect();
            let keys: String = samples.iter().map(|sample| sample.key.as_str()).collect();
            let checksum = Digest::of(keys.as_bytes()).0 as u64;
            let times = WorkTimes::default();
            FromWorker::Done(PartDone {
                lease: lease.lease,
                checksum,
                samples,
                times,
                fp8_amaxes: Vec::new(),
                origin: PartOrigin::Computed,
            })
        }
    }
}

/// Resolves when the worker drains, or this session is to leave.
async fn asked(health: &mut watch::Receiver<Health>, leave: &mut watch::Receiver<bool>) {
    tokio::select! {
        biased;
        () = becomes(health, &[Health::Drains]) => {}
        _ = leave.wait_for(|leave| *leave) => {}
    }
}

/// Resolves when the worker is in one of these states.
async fn becomes(health: &mut watch::Receiver<Health>, states: &[Health]) {
    let _ = health.wait_for(|health| states.contains(health)).await;
}

/// Resolves at once, unless the worker is wedged.
async fn goes_on(health: &mut watch::Receiver<Health>) {
    let _ = health.wait_for(|health| *health != Health::Wedged).await;
}

fn failed(lease: &PartLease, kind: FailureKind) -> FromWorker {
    FromWorker::Failed(Failure { lease: lease.lease, kind, message: "modelled".into() })
}
