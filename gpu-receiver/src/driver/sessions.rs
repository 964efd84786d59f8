//! Workers coming and going: who there should be, who is there, and what is heard of the others.
//!
//! Sessions are held with a part of all workers, see [`crate::subset`]. Where another one is preferred from now on, its
//! session comes first; then the one that it stands in for gets no more leases, and goes when it has none.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use headwater_proto::augment::SessionWelcome;
use headwater_transport::{LinkKind, PeerId};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::session::Session;
use super::{Outcome, TICK};
use crate::breadth::Breadth;
use crate::sessions::{Refusal, SessionShared, keep_session, pause_draw};
use crate::stats::Stats;
use crate::subset::Subset;

/// Workers that are named one by one.
const AWAITED_MAX: usize = 8;
/// Heartbeats in which all workers have to be busy before others are asked.
const WINDOW_HEARTBEATS: u32 = 5;

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
    subset: Subset,
    /// When workers are looked at again, and whether one may be moved until then.
    next_look: Instant,
    may_move: bool,
    busy: Busy,
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

/// How often workers had no room while the trainer waited.
#[derive(Debug, Default)]
struct Busy {
    looks: u32,
    short: u32,
}

// === impl Sessions ===

impl Sessions {
    /// No workers yet. `leaving` is the other end of that in `shared`; `rests`: none is wanted for now.
    pub(super) fn new(
        shared: SessionShared,
        leaving: watch::Sender<bool>,
        stats: Arc<Stats>,
        subset: Subset,
        max_lead: u32,
        rests: bool,
    ) -> Self {
        let (now, heartbeat) = (Instant::now(), shared.heartbeat);
        Self {
            shared: Arc::new(shared),
            leaving,
            stats,
            open: BTreeMap::new(),
            paths: BTreeMap::new(),
            keepers: BTreeMap::new(),
            subset,
            next_look: now + heartbeat,
            may_move: false,
            busy: Busy::default(),
            rests,
            idle: false,
            alone_since: (!rests).then_some(now),
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
        mut session: Session,
        welcome: &SessionWelcome,
    ) -> Option<bool> {
        session.credits = welcome.credits;
        if !self.keepers.contains_key(&session.address) {
            // It was given up while it came about.
            session.link.drop_peer(peer);
            return None;
        }
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
        self.subset.on_joined(&session.address);
        self.open.insert(peer, session);
        self.tell_breadth();
        Some(is_gone)
    }

    /// Gives a session up. Returns whether it was the last one; `None`: there was none.
    pub(super) fn end(&mut self, peer: PeerId) -> Option<bool> {
        let session = self.open.remove(&peer)?;
        session.link.drop_peer(peer);
        self.stats.on_worker_left(peer);
        self.tell_breadth();
        if self.open.is_empty() {
            self.alone_since = (!self.rests).then(Instant::now);
        }
        Some(self.open.is_empty())
    }

    /// A session is over, or did not come about.
    pub(super) fn on_ended(
        &mut self,
        peer: PeerId,
        address: String,
        (reason, hopeless): (String, bool),
        refusal: Option<Refusal>,
    ) {
        if hopeless {
            tracing::error!(worker = address, reason, "worker cannot serve this receiver");
        }
        if !self.keepers.contains_key(&address) {
            return;
        }
        if let Some(refusal) = refusal {
            self.pass_over(peer, &address, refusal);
        }
        self.refusals.insert(address, reason);
    }

    fn pass_over(&mut self, peer: PeerId, address: &str, refusal: Refusal) {
        let draw = pause_draw(&self.shared.hello.receiver, address, peer.0);
        self.subset.on_failed(address, refusal, self.is_alone(), draw);
    }

    /// Whether no worker takes leases.
    fn is_alone(&self) -> bool {
        !self.open.values().any(Session::stays)
    }

    /// Sessions tell workers how many there are, and how many there may be.
    fn tell_breadth(&self) {
        let Breadth { held, width, .. } = &self.shared.breadth;
        let stay = self.open.values().filter(|session| session.stays()).count();
        held.store(stay as u32, Ordering::Relaxed);
        width.store(self.subset.told_width(), Ordering::Relaxed);
    }

    /// A worker takes other numbers of leases, or none any more. Returns what it is given.
    pub(super) fn on_credits(&mut self, peer: PeerId, credits: u32, drains: bool) -> u32 {
        let Some(session) = self.open.get_mut(&peer) else { return 0 };
        session.credits = credits;
        let (leaves, begins) = (session.leaves, drains && !session.drains);
        if begins {
            session.drains = true;
            let address = session.address.clone();
            self.pass_over(peer, &address, Refusal::Other);
            self.tell_breadth();
        }
        if leaves { 0 } else { credits }
    }

    /// Once each heartbeat. Returns whether others may be wanted than before.
    pub(super) fn look(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next_look || self.rests {
            return false;
        }
        self.next_look = now + self.shared.heartbeat;
        self.may_move = true;
        let is_alone = self.is_alone();
        self.subset.look(is_alone)
    }

    /// Once each heartbeat: a session that stands in for another one, which stands now, and gets no more leases from now on.
    /// Or those that had to go, and are wanted again. With the credits of each.
    pub(super) fn find_moves(&mut self) -> Vec<(PeerId, u32)> {
        if !std::mem::take(&mut self.may_move) {
            return Vec::new();
        }
        let preferred: Vec<String> =
            self.subset.preferred(Instant::now()).into_iter().cloned().collect();
        let stands = |address: &String| {
            self.open.values().any(|session| session.address == *address && session.stays())
        };
        let all_stand = !preferred.is_empty() && preferred.iter().all(stands);
        let mut moves = Vec::new();
        for (&peer, session) in &mut self.open {
            let is_preferred = preferred.contains(&session.address);
            if session.leaves && (is_preferred || !all_stand) {
                session.leaves = false;
                moves.push((peer, session.credits));
            }
        }
        let stands_in =
            |session: &Session| session.stays() && !preferred.contains(&session.address);
        let found = self.open.iter_mut().find(|(_, session)| all_stand && stands_in(session));
        if let Some((&peer, session)) = found {
            session.leaves = true;
            moves.push((peer, 0));
            self.stats.on_session_moved();
        }
        self.tell_breadth();
        moves
    }

    /// Sessions that get no more leases, with their workers.
    pub(super) fn leaving(&self) -> impl Iterator<Item = (PeerId, &str)> {
        let leaving = self.open.iter().filter(|(_, session)| session.leaves);
        leaving.map(|(&peer, session)| (peer, session.address.as_str()))
    }

    /// Counts whether the trainer waits while all workers are busy. Returns whether others are wanted beside them.
    pub(super) fn look_for_more(&mut self, is_short: bool) -> bool {
        self.busy.looks += 1;
        self.busy.short += u32::from(is_short);
        let Busy { looks, short } = self.busy;
        let window = self.shared.heartbeat * WINDOW_HEARTBEATS;
        if TICK * looks < window {
            return false;
        }
        self.busy = Busy::default();
        // Nearly always.
        let widens = short * 10 >= looks * 9 && !self.open.is_empty() && self.subset.widen();
        if widens {
            let width = self.subset.width();
            tracing::info!(width, "all workers are busy and the trainer waits: more are asked");
            self.tell_breadth();
        }
        widens
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

    /// With how many workers another receiver of the stream would have sessions. Returns whether these are more.
    pub(super) fn on_width(&mut self, width: u32) -> bool {
        let wider = self.subset.widen_to(width);
        if wider {
            self.tell_breadth();
        }
        wider
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
    pub(super) fn set_workers(&mut self, workers: Arc<[String]>) -> Arc<[String]> {
        self.stats.on_workers_known(workers.len());
        let before = self.subset.set_workers(workers);
        self.tell_breadth();
        before
    }

    /// Forgets which links failed with these workers, where they are none any more.
    pub(super) fn forget_trials(&mut self, before: &[String]) {
        // Not where this receiver only rests: it would try anew what has failed.
        let there = self.subset.workers();
        for address in before.iter().filter(|address| !there.contains(address)) {
            self.shared.trials.forget(address);
            self.refusals.remove(address);
        }
    }

    /// Why no workers are found where they are looked for; empty: they are.
    pub(super) fn set_missing(&mut self, reason: String) {
        self.missing = reason;
    }

    /// Those with which there should be sessions now.
    fn wanted(&self) -> Vec<&String> {
        let now = Instant::now();
        match self.rests {
            true => Vec::new(),
            false if self.is_alone() => {
                self.subset.wanted_alone(now, |address| self.keepers.contains_key(address))
            }
            false => self.subset.wanted(now, |address| self.keepers.contains_key(address)),
        }
    }

    /// Workers that are kept and not wanted any more: they are gone, or there is no session, and others are preferred.
    pub(super) fn stale(&self) -> Vec<String> {
        let wanted = self.wanted();
        let has_session = |address: &String| {
            !self.rests
                && self.open.values().any(|session| session.address == *address)
                && self.subset.workers().contains(address)
        };
        let stale = self.keepers.keys().filter(|address| !wanted.contains(address));
        stale.filter(|address| !has_session(address)).cloned().collect()
    }

    /// Keeps no session with a worker any more. Returns the peers whose sessions are to be ended.
    pub(super) fn forget(&mut self, address: &str) -> Vec<PeerId> {
        if let Some(keeper) = self.keepers.remove(address) {
            keeper.abort();
        }
        let of_address = self.open.iter().filter(|(_, session)| session.address == address);
        of_address.map(|(&peer, _)| peer).collect()
    }

    /// Begins to keep a session with each worker that is wanted.
    pub(super) fn keep(&mut self, tasks: &mut JoinSet<Outcome>) {
        let wanted: Vec<String> = self.wanted().into_iter().cloned().collect();
        let asked = wanted.iter().take(self.subset.asked()).cloned().collect();
        *self.shared.breadth.asked.lock().unwrap_or_else(PoisonError::into_inner) = asked;
        for address in wanted {
            let is_alone = self.is_alone();
            if !self.keepers.contains_key(&address) && self.subset.may_try(Instant::now(), is_alone)
            {
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
        let all: BTreeSet<&String> = self.keepers.keys().chain(self.subset.failed()).collect();
        let mut awaited: Vec<String> = all.iter().take(AWAITED_MAX).copied().map(heard).collect();
        if let more @ 1.. = all.len().saturating_sub(AWAITED_MAX) {
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
