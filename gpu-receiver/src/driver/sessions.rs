//! Workers coming and going: who there should be, who is there, and what is heard of the others.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_proto::augment::{PartLease, SessionWelcome, ToWorker};
use headwater_transport::{LeaseId, LinkKind, PartPlace, PeerId, ReceiverLink, Withdrawal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::Outcome;
use crate::sessions::{SessionShared, keep_session};
use crate::stats::Stats;

/// Workers that are named one by one.
const AWAITED_MAX: usize = 8;

/// The sessions of a receiver with its workers.
pub(super) struct Sessions {
    shared: Arc<SessionShared>,
    /// Tells the sessions to end.
    leaving: watch::Sender<bool>,
    stats: Arc<Stats>,
    open: BTreeMap<PeerId, Session>,
    /// The link of each peer that ever joined, until the link says that it is gone.
    paths: BTreeMap<PeerId, LinkKind>,
    keepers: BTreeMap<String, AbortHandle>,
    /// The workers there should be.
    workers: Vec<String>,
    /// No batch is wanted of any worker: there are no sessions.
    rests: bool,
    /// Nobody is going to take a batch for now.
    idle: bool,
    /// Since when no worker is there.
    alone_since: Option<Instant>,
    /// What was heard last of each worker that has no session.
    refusals: BTreeMap<String, String>,
    /// Why no workers are found where they are looked for; empty: they are.
    missing: String,
    /// Steps before the slowest receiver of the stream; `None`: as many as may be.
    max_lead: Option<NonZero<u32>>,
    /// Batches wait for slower receivers.
    paced: bool,
}

/// A worker's session as the driver sees it.
pub(super) struct Session {
    address: String,
    link: Arc<dyn ReceiverLink>,
    outbox: mpsc::Sender<ToWorker>,
    /// The step of the slowest other receiver of the stream there.
    slowest: Option<u64>,
    /// Set with the first lease that is given.
    leased: Arc<AtomicBool>,
    _held: oneshot::Sender<()>,
}

// === impl Session ===

impl Session {
    /// Its task ends when `held` is dropped, and sees by `leased` whether a lease was given.
    pub(super) fn new(
        address: String,
        link: Arc<dyn ReceiverLink>,
        outbox: mpsc::Sender<ToWorker>,
        leased: Arc<AtomicBool>,
        held: oneshot::Sender<()>,
    ) -> Self {
        Self { address, link, outbox, slowest: None, leased, _held: held }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Has the link expect a part.
    pub(super) fn expect(&self, peer: PeerId, place: PartPlace) {
        self.link.expect(peer, place);
    }

    /// Gives the worker a lease; `false` if it does not read what it is sent.
    pub(super) fn lease(&self, lease: PartLease) -> bool {
        self.leased.store(true, Ordering::Relaxed);
        self.outbox.try_send(ToWorker::Lease(lease)).is_ok()
    }

    /// Withdraws a lease on the link, and tells the worker.
    pub(super) fn withdraw(&self, peer: PeerId, lease: LeaseId) -> Withdrawal {
        let withdrawal = self.link.withdraw(peer, lease);
        let _ = self.outbox.try_send(ToWorker::Withdraw(vec![lease.0]));
        withdrawal
    }
}

// === impl Sessions ===

impl Sessions {
    /// No workers yet. `leaving` is the other end of that in `shared`; `rests`: none is wanted for now.
    pub(super) fn new(
        shared: SessionShared,
        leaving: watch::Sender<bool>,
        stats: Arc<Stats>,
        max_lead: u32,
        rests: bool,
    ) -> Self {
        Self {
            shared: Arc::new(shared),
            leaving,
            stats,
            open: BTreeMap::new(),
            paths: BTreeMap::new(),
            keepers: BTreeMap::new(),
            workers: Vec::new(),
            rests,
            idle: false,
            alone_since: (!rests).then(Instant::now),
            refusals: BTreeMap::new(),
            missing: String::new(),
            max_lead: NonZero::new(max_lead),
            paced: false,
        }
    }

    pub(super) fn of(&self, peer: PeerId) -> Option<&Session> {
        self.open.get(&peer)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// For how long no worker has been there, where one is wanted.
    pub(super) fn alone(&self) -> Option<Duration> {
        self.alone_since.map(|since| since.elapsed())
    }

    /// A session stands, unless it has ended meanwhile: no link will say once more that it is gone for this peer.
    /// Returns whether its link has said so already.
    pub(super) fn join(
        &mut self,
        peer: PeerId,
        session: Session,
        welcome: &SessionWelcome,
    ) -> Option<bool> {
        let kind = session.link.kind();
        let is_gone = self.shared.tries.is_gone(peer, kind)?;
        tracing::info!(
            worker = welcome.worker,
            address = session.address,
            link = %kind,
            backend = welcome.backend,
            credits = welcome.credits,
            "worker joined"
        );
        self.stats.on_worker_joined(peer, &welcome.worker, kind);
        self.paths.insert(peer, kind);
        self.alone_since = None;
        self.refusals.remove(&session.address);
        self.open.insert(peer, session);
        Some(is_gone)
    }

    /// Gives a session up. Returns whether it was the last one; `None`: there was none.
    pub(super) fn end(&mut self, peer: PeerId) -> Option<bool> {
        let session = self.open.remove(&peer)?;
        session.link.drop_peer(peer);
        self.stats.on_worker_left(peer);
        if self.open.is_empty() {
            self.alone_since = (!self.rests).then(Instant::now);
        }
        Some(self.open.is_empty())
    }

    /// A session is over, or did not come about.
    pub(super) fn on_ended(&mut self, address: String, reason: String, hopeless: bool) {
        if hopeless {
            tracing::error!(worker = address, reason, "worker cannot serve this receiver");
        }
        if self.keepers.contains_key(&address) {
            self.refusals.insert(address, reason);
        }
    }

    /// A link says that it is gone for a peer. Returns whether it is the one that the peer took: each peer was
    /// admitted on all links, and only that one matters.
    pub(super) fn on_path_gone(&mut self, peer: PeerId, kind: LinkKind, reason: &str) -> bool {
        match self.paths.get(&peer) {
            Some(&taken) if taken == kind => {}
            Some(_) => return false,
            None => {
                self.shared.tries.on_gone(peer, kind);
                return false;
            }
        }
        self.paths.remove(&peer);
        if self.open.contains_key(&peer) {
            tracing::warn!(peer = peer.0, link = %kind, reason, "data path is gone");
        }
        true
    }

    /// A worker says where the slowest other receiver of the stream is. Returns whether it has a session.
    pub(super) fn on_slowest(&mut self, peer: PeerId, slowest: Option<u64>) -> bool {
        let Some(session) = self.open.get_mut(&peer) else { return false };
        session.slowest = slowest;
        true
    }

    /// Whether the batch of this job-wide step has to wait: this receiver is `receiver.max_lead` steps before the
    /// slowest one that its workers know. Sessions that end are forgotten by both sides, so nobody waits for a
    /// receiver that has gone.
    pub(super) fn is_too_far_ahead(&mut self, next: impl Fn() -> u64) -> bool {
        let ahead = self.max_lead.is_some_and(|max_lead| {
            let slowest = self.open.values().filter_map(|session| session.slowest).min();
            slowest.is_some_and(|slowest| next() >= slowest.saturating_add(max_lead.get().into()))
        });
        if ahead && !self.paced {
            self.stats.on_pace_wait();
        }
        self.paced = ahead;
        ahead
    }

    /// Whether batches wait for slower receivers.
    pub(super) fn is_paced(&self) -> bool {
        self.paced
    }

    /// Whether nobody is going to take a batch for now.
    pub(super) fn set_idle(&mut self, idle: bool) {
        self.idle = idle;
    }

    /// Whether workers are left, as no batch is wanted of them, or met again. A receiver that stands still there
    /// would hold back all others of its stream.
    pub(super) fn rest(&mut self, is_served: bool, has_ended: impl Fn() -> bool) -> bool {
        // Where nobody waits for others, its sessions are there when it goes back to an earlier epoch.
        let rests = is_served || (self.max_lead.is_some() && has_ended()) || self.idle;
        let changes = rests != self.rests;
        if changes {
            self.rests = rests;
            // Meanwhile nobody is missed.
            self.alone_since = (!rests).then(Instant::now);
        }
        changes
    }

    /// The workers there should be, once they are needed. Returns those before.
    pub(super) fn set_workers(&mut self, workers: Vec<String>) -> Vec<String> {
        std::mem::replace(&mut self.workers, workers)
    }

    /// Forgets which links failed with these workers, where they are none any more.
    pub(super) fn forget_trials(&self, before: &[String]) {
        // Not where this receiver only rests: it would try anew what has failed.
        for address in before.iter().filter(|address| !self.workers.contains(address)) {
            self.shared.trials.forget(address);
        }
    }

    /// Why no workers are found where they are looked for; empty: they are.
    pub(super) fn set_missing(&mut self, reason: String) {
        self.missing = reason;
    }

    fn wanted(&self) -> &[String] {
        if self.rests { &[] } else { &self.workers }
    }

    /// Workers that are kept and not wanted any more.
    pub(super) fn stale(&self) -> Vec<String> {
        let stale = self.keepers.keys().filter(|address| !self.wanted().contains(address));
        stale.cloned().collect()
    }

    /// Keeps no session with a worker any more. Returns the peers whose sessions are to be ended.
    pub(super) fn forget(&mut self, address: &str) -> Vec<PeerId> {
        self.refusals.remove(address);
        if let Some(keeper) = self.keepers.remove(address) {
            keeper.abort();
        }
        let of_address = self.open.iter().filter(|(_, session)| session.address == address);
        of_address.map(|(&peer, _)| peer).collect()
    }

    /// Begins to keep a session with each worker that is wanted.
    pub(super) fn keep(&mut self, tasks: &mut JoinSet<Outcome>) {
        for address in self.wanted().to_vec() {
            if !self.keepers.contains_key(&address) {
                let session = keep_session(Arc::clone(&self.shared), address.clone());
                let keeper = tasks.spawn(async move {
                    session.await;
                    Outcome::Left
                });
                self.keepers.insert(address, keeper);
            }
        }
    }

    /// The workers there should be, and what keeps each.
    pub(super) fn awaited(&self) -> String {
        let heard = |address: &String| match self.refusals.get(address) {
            Some(reason) => format!("{address}: {reason}"),
            None => format!("{address}: no answer yet"),
        };
        let mut awaited: Vec<String> = self.keepers.keys().take(AWAITED_MAX).map(heard).collect();
        if let more @ 1.. = self.keepers.len().saturating_sub(AWAITED_MAX) {
            awaited.push(format!("and {more} more"));
        }
        if !self.missing.is_empty() {
            awaited.push(self.missing.clone());
        }
        if awaited.is_empty() {
            awaited.push("receiver.workers leads to no address yet".to_owned());
        }
        awaited.join("; ")
    }

    /// Tells all sessions to end in order: each hears of it before it is let go of, and then the worker does.
    pub(super) fn leave(&mut self) {
        let _ = self.leaving.send(true);
        for (peer, session) in std::mem::take(&mut self.open) {
            drop(session);
            self.stats.on_worker_left(peer);
        }
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<SessionShared> {
        &self.shared
    }

    /// Entries that are kept: sessions, keepers, paths, refusals.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 4] {
        [self.open.len(), self.keepers.len(), self.paths.len(), self.refusals.len()]
    }
}
