//! Tries to keep a session with a worker: each has a peer number of its own, which links admit until the try
//! is over.
//!
//! A link may say that it is gone for a peer before the driver has heard the worker's welcome. That is noted
//! here, as long as the try lasts: the driver hears of many more peers than ever join.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_transport::{LinkKind, PeerId, ReceiverLink};

/// The tries of a receiver that are under way.
#[derive(Default)]
pub(crate) struct Tries(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    /// Links that are gone for each peer.
    open: BTreeMap<PeerId, Vec<LinkKind>>,
}

/// A try that is under way until this is dropped, also when its task is aborted: then no link admits its peer.
pub(crate) struct OpenTry<'a> {
    tries: &'a Tries,
    links: &'a [Arc<dyn ReceiverLink>],
    pub(crate) peer: PeerId,
}

// === impl Tries ===

impl Tries {
    /// Begins a try over these links, with the next number.
    pub(crate) fn begin<'a>(&'a self, links: &'a [Arc<dyn ReceiverLink>]) -> OpenTry<'a> {
        let mut state = self.lock();
        state.last += 1;
        let peer = PeerId(state.last);
        state.open.insert(peer, Vec::new());
        OpenTry { tries: self, links, peer }
    }

    /// A link is gone for a peer that has not joined. Nothing is kept of a try that is over.
    pub(crate) fn on_gone(&self, peer: PeerId, kind: LinkKind) {
        if let Some(gone) = self.lock().open.get_mut(&peer)
            && !gone.contains(&kind)
        {
            gone.push(kind);
        }
    }

    /// Whether a link is gone for a peer already; `None`: its try is over.
    pub(crate) fn is_gone(&self, peer: PeerId, kind: LinkKind) -> Option<bool> {
        self.lock().open.get(&peer).map(|gone| gone.contains(&kind))
    }

    /// Tries under way.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.lock().open.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenTry<'_> {
    fn drop(&mut self) {
        // First: what the links say of their end is noted nowhere.
        self.tries.lock().open.remove(&self.peer);
        for link in self.links {
            link.drop_peer(self.peer);
        }
    }
}
