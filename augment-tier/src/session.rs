//! A receiver and this worker, from hello to the last lease.
//!
//! One task per session reads messages and never waits for anything else, so that heartbeats are
//! answered whatever the pool does. Each lease is a task of its own: it reads ahead, waits for
//! memory and for the pool, delivers. A session ends in this order: no new work, wait for what is
//! being written, let go of the memory, let go of the link.

mod error;
mod exchange;
mod fill;
mod lease;
mod link;
mod open;
mod read;
mod shared;
mod source;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

use headwater_proto::augment::{
    Failure, FailureKind, FromWorker, PartDone, PartLease, SessionHello, SessionWelcome,
    StreamNews, ToWorker,
};
use headwater_transport::LeaseId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use error::LeaseError;
pub(crate) use link::check_forced;
pub(crate) use wire::{Messages, Outbox, answers};

use crate::error::SessionError;
use crate::metrics::{self, PartOutcome};
use crate::pool::QueuePlace;
use crate::worker::{RosterSeat, UnauthenticatedPeer, Worker};
use lease::LeaseWork;
use open::Session;
use wire::Inbox;

type LeaseEnd = (u64, Result<PartDone, Failure>);

/// Leases of a session that are open.
struct Leases {
    session: Arc<Session>,
    seat: RosterSeat,
    outbox: Outbox,
    credits: u32,
    open: HashMap<u64, CancellationToken>,
    tasks: JoinSet<LeaseEnd>,
    /// Leases so far.
    begun: u64,
    draining: bool,
}

/// Serves one receiver until it leaves, breaks the protocol, or the worker is to stop. It is a stranger
/// until its hello: only then it takes one of the sessions that there may be.
pub(crate) async fn serve(
    worker: Arc<Worker>,
    id: u64,
    messages: Messages,
    outbox: Outbox,
    UnauthenticatedPeer { place, standing }: UnauthenticatedPeer,
) -> Result<(), SessionError> {
    let sessions = &worker.config.sessions;
    let (within, missed_max) = (sessions.hello_timeout(), sessions.heartbeats_missed_max);
    let (mut inbox, hello) = tokio::select! {
        () = worker.stop.cancelled() => return Err(SessionError::Closing),
        opened = Inbox::open(messages, within, missed_max) => opened?,
        () = place => return Err(SessionError::TurnedOut),
    };
    let seat = worker.admit(id, &hello, standing.as_ref())?;
    let Some((session, welcome)) = open(&worker, id, hello, &mut inbox, &outbox).await? else {
        return Ok(());
    };
    let (receiver, link, credits) = (&session.receiver, &welcome.link, welcome.credits);
    tracing::info!(session = id, receiver, link, refused = ?welcome.refused_links, "session begins");
    inbox.expect_heartbeats();
    let mut leases = Leases::new(session, seat, outbox.clone(), credits);
    let ended = match outbox.send(FromWorker::Welcome(welcome)) {
        Ok(()) => leases.serve(&mut inbox).await,
        Err(error) => Err(error),
    };
    leases.end().await;
    ended
}

/// Opens the session while it answers heartbeats: the storage tier may take its time. `None`: the
/// receiver left.
async fn open(
    worker: &Arc<Worker>,
    id: u64,
    hello: Box<SessionHello>,
    inbox: &mut Inbox,
    outbox: &Outbox,
) -> Result<Option<(Session, SessionWelcome)>, SessionError> {
    let (exchange, answers) = exchange::channel(outbox.clone());
    let opening = Session::open(Arc::clone(worker), id, hello, &exchange);
    tokio::pin!(opening);
    loop {
        tokio::select! {
            opened = &mut opening => return opened.map(Some),
            () = worker.stop.cancelled() => return Err(SessionError::Closing),
            message = inbox.next() => match message? {
                None => return Ok(None),
                Some(ToWorker::Heartbeat(beat)) => outbox.echo(beat, StreamNews::default()),
                Some(ToWorker::Lease(PartLease { lease, .. })) => {
                    return Err(SessionError::Overrun { lease, credits: 0 });
                }
                Some(ToWorker::Hello(_)) => return Err(HELLO_TWICE),
                Some(ToWorker::Withdraw(_)) => {}
                // Where nobody waits for it any more, nobody misses it.
                Some(ToWorker::LinkAnswer(answer)) => drop(answers.try_send(answer.answer)),
            },
        }
    }
}

/// Resolves when the worker takes no more leases, or none of this session.
async fn asked(drain: &CancellationToken, leave: &CancellationToken) {
    tokio::select! {
        () = drain.cancelled() => {}
        () = leave.cancelled() => {}
    }
}

const HELLO_TWICE: SessionError = SessionError::HelloOrder { what: "hello came twice" };

// === impl Leases ===

impl Leases {
    fn new(session: Session, seat: RosterSeat, outbox: Outbox, credits: u32) -> Self {
        Self {
            session: Arc::new(session),
            seat,
            outbox,
            credits,
            open: HashMap::new(),
            tasks: JoinSet::new(),
            begun: 0,
            draining: false,
        }
    }

    async fn serve(&mut self, inbox: &mut Inbox) -> Result<(), SessionError> {
        let session = Arc::clone(&self.session);
        let (outbox, leave) = (self.outbox.clone(), self.seat.leave.clone());
        let link_closed = session.link.closed();
        tokio::pin!(link_closed);
        while !(self.draining && self.tasks.is_empty()) {
            tokio::select! {
                message = inbox.next() => match message? {
                    Some(message) => self.take(message)?,
                    None => return Ok(()),
                },
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok((lease, end)) => self.close(lease, end)?,
                    Err(panic) => {
                        return Err(SessionError::Internal { reason: panic.to_string() });
                    }
                },
                error = &mut link_closed => return Err(SessionError::Link(error)),
                () = asked(&session.worker.drain, &leave), if !self.draining => {
                    self.draining = true;
                    outbox.send(FromWorker::Credits { credits: 0, draining: true })?;
                }
                () = session.worker.stop.cancelled() => return Err(SessionError::Closing),
                () = outbox.closed() => return Ok(()),
            }
        }
        Ok(())
    }

    fn take(&mut self, message: ToWorker) -> Result<(), SessionError> {
        match message {
            ToWorker::Heartbeat(beat) => {
                self.seat.heard(beat.sessions_held);
                self.outbox.echo(beat, self.session.heard(beat));
            }
            ToWorker::Lease(lease) => return self.begin(lease),
            ToWorker::Withdraw(leases) => leases.iter().for_each(|lease| {
                // Where it has ended, its end is on the way.
                if let Some(withdrawn) = self.open.get(lease) {
                    withdrawn.cancel();
                    self.session.link.withdraw(LeaseId(*lease));
                }
            }),
            ToWorker::Hello(_) => return Err(HELLO_TWICE),
            // To a request that was given up; the session has another link.
            ToWorker::LinkAnswer(_) => {}
        }
        Ok(())
    }

    fn begin(&mut self, lease: PartLease) -> Result<(), SessionError> {
        let id = lease.lease;
        if self.draining {
            // The lease was on its way when the receiver learned of the draining.
            let message = "this worker is draining".to_owned();
            let failure = Failure { lease: id, kind: FailureKind::Retry, message };
            return self.outbox.send(FromWorker::Failed(failure));
        }
        if self.open.len() >= self.credits as usize {
            return Err(SessionError::Overrun { lease: id, credits: self.credits });
        }
        if self.open.contains_key(&id) {
            return Err(SessionError::Twice { lease: id });
        }
        if self.session.plan(lease.bucket).is_none() {
            let (bucket, buckets) = (lease.bucket, self.session.source.plans.len());
            return Err(SessionError::NoBucket { lease: id, bucket, buckets });
        }
        let withdrawn = self.session.ending.child_token();
        self.open.insert(id, withdrawn.clone());
        let place = QueuePlace { session: self.session.id, order: self.begun };
        self.begun += 1;
        let work = LeaseWork::new(Arc::clone(&self.session), lease, place, withdrawn);
        self.tasks.spawn(async move { (id, work.fulfil().await) });
        Ok(())
    }

    /// Tells the receiver how a lease ended. It is no longer open when that is sent, so the
    /// receiver may send the next one as soon as it has read it.
    fn close(&mut self, lease: u64, end: Result<PartDone, Failure>) -> Result<(), SessionError> {
        self.open.remove(&lease);
        let link = self.session.link.kind();
        match end {
            Ok(done) => {
                metrics::part_ended(link, PartOutcome::Done);
                metrics::part_delivered(link, done.samples.len(), &done.times);
                self.outbox.send(FromWorker::Done(done))
            }
            Err(failure) => {
                let Failure { kind, ref message, .. } = failure;
                metrics::part_ended(link, PartOutcome::of(kind));
                tracing::debug!(session = self.session.id, lease, ?kind, message, "lease failed");
                self.outbox.send(FromWorker::Failed(failure))
            }
        }
    }

    /// Ends the session: nothing writes to the receiver's memory when this returns.
    async fn end(mut self) {
        self.session.ending.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(panic) = ended {
                tracing::error!(session = self.session.id, %panic, "a lease's task panicked");
            }
        }
        // The last holder: the link goes with it.
        debug_assert_eq!(Arc::strong_count(&self.session), 1);
    }
}
