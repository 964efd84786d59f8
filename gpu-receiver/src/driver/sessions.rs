//! Workers coming and going.

use std::sync::Arc;

use headwater_core::Reminder;
use headwater_transport::{LinkKind, PeerId};
use tokio::time::Instant;

use super::{Driver, Outcome, Session};
use crate::events::SessionEvent;
use crate::sessions::keep_session;

impl Driver {
    pub(super) fn on_session(&mut self, peer: PeerId, event: SessionEvent) {
        match event {
            SessionEvent::Joined { address, welcome, link, outbox, leased, held } => {
                let kind = link.kind();
                // It has ended meanwhile: no link will say once more that it is gone for this peer.
                let Some(is_gone) = self.sessions_shared.tries.is_gone(peer, kind) else { return };
                tracing::info!(
                    worker = welcome.worker,
                    address,
                    link = %kind,
                    backend = welcome.backend,
                    credits = welcome.credits,
                    "worker joined"
                );
                self.stats.on_worker_joined(peer, &welcome.worker, kind);
                self.state.paths.insert(peer, kind);
                self.state.alone_since = None;
                self.state.refusals.remove(&address);
                let (slowest, _held) = (None, held);
                let session = Session { address, link, outbox, slowest, leased, _held };
                self.state.sessions.insert(peer, session);
                self.ledger.on_worker_joined(peer, welcome.worker, kind, welcome.credits);
                if welcome.shares {
                    self.ledger.on_worker_shares(peer);
                }
                if is_gone {
                    self.on_path_gone(peer, kind, "it was gone before it was used");
                }
            }
            SessionEvent::Ended { address, reason, hopeless } => {
                self.end_session(peer);
                if hopeless {
                    tracing::error!(worker = address, reason, "worker cannot serve this receiver");
                }
                if self.state.keepers.contains_key(&address) {
                    self.state.refusals.insert(address, reason);
                }
            }
            SessionEvent::Said(message) => self.on_message(peer, message),
        }
    }

    pub(super) fn end_session(&mut self, peer: PeerId) {
        let Some(session) = self.state.sessions.remove(&peer) else { return };
        session.link.drop_peer(peer);
        self.ledger.on_worker_left(peer, self.now());
        self.stats.on_worker_left(peer);
        self.spans.on_left(peer);
        if self.state.sessions.is_empty() {
            self.state.alone_since = (!self.state.rests).then(Instant::now);
            self.state.reminder = Reminder::default();
        }
    }

    /// A link says that it is gone for a peer; each peer was admitted on all links, and only the
    /// one it took matters.
    pub(super) fn on_path_gone(&mut self, peer: PeerId, kind: LinkKind, reason: &str) {
        match self.state.paths.get(&peer) {
            Some(&taken) if taken == kind => {}
            Some(_) => return,
            None => return self.sessions_shared.tries.on_gone(peer, kind),
        }
        self.state.paths.remove(&peer);
        if self.state.sessions.contains_key(&peer) {
            tracing::warn!(peer = peer.0, link = %kind, reason, "data path is gone");
            self.end_session(peer);
        }
        self.ledger.on_gone(peer);
    }

    /// The workers there should be, once they are needed.
    pub(super) fn look_for_workers(&mut self, workers: Vec<String>) {
        let before = std::mem::replace(&mut self.state.workers, workers);
        self.meet_workers();
        // Not where this receiver only rests: it would try anew what has failed.
        for address in before.iter().filter(|address| !self.state.workers.contains(address)) {
            self.sessions_shared.trials.forget(address);
        }
    }

    pub(super) fn meet_workers(&mut self) {
        let rests = self.state.rests;
        self.set_workers(if rests { Vec::new() } else { self.state.workers.clone() });
    }

    fn set_workers(&mut self, workers: Vec<String>) {
        let gone = |address: &String| !workers.contains(address);
        let stale: Vec<String> = self.state.keepers.keys().filter(|a| gone(a)).cloned().collect();
        for address in stale {
            self.state.refusals.remove(&address);
            if let Some(keeper) = self.state.keepers.remove(&address) {
                keeper.abort();
            }
            let of_address = self.state.sessions.iter().filter(|(_, s)| s.address == address);
            let peers: Vec<PeerId> = of_address.map(|(&peer, _)| peer).collect();
            peers.into_iter().for_each(|peer| self.end_session(peer));
        }
        for address in workers {
            if !self.state.keepers.contains_key(&address) {
                let session = keep_session(Arc::clone(&self.sessions_shared), address.clone());
                let keeper = self.tasks.spawn(async move {
                    session.await;
                    Outcome::Left
                });
                self.state.keepers.insert(address, keeper);
            }
        }
    }
}
