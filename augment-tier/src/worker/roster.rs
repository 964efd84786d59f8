//! Who has a session, and who is asked to leave for a receiver that has none.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use headwater_core::seats::{Full, Seats};
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// The sessions of a worker.
pub(crate) struct Roster {
    inner: Mutex<Inner>,
    started: Instant,
}

struct Inner {
    seats: Seats,
    /// Cancelled to ask a session to leave.
    leave: HashMap<u64, CancellationToken>,
}

/// A session's seat, taken until dropped.
pub(crate) struct RosterSeat {
    roster: Arc<Roster>,
    session: u64,
    /// The session is to end once its leases have.
    pub(crate) leave: CancellationToken,
}

// === impl Roster ===

impl Roster {
    pub(super) fn new(max: usize) -> Arc<Self> {
        // Another one in each process, of whatever name and number.
        let seed = RandomState::new().hash_one(max);
        metrics::sessions_max(max);
        let inner = Inner { seats: Seats::new(max, seed), leave: HashMap::new() };
        Arc::new(Self { inner: Mutex::new(inner), started: Instant::now() })
    }

    /// A seat, if one is free for this receiver.
    ///
    /// # Errors
    /// None is; whether one will be, as others are asked to leave.
    pub(super) fn enter(
        self: &Arc<Self>,
        session: u64,
        receiver: &str,
        held: Option<u32>,
    ) -> Result<RosterSeat, bool> {
        let now = self.started.elapsed();
        let mut inner = self.lock();
        match inner.seats.enter(session, receiver, held, now) {
            Ok(()) => {
                let leave = CancellationToken::new();
                inner.leave.insert(session, leave.clone());
                Ok(RosterSeat { roster: Arc::clone(self), session, leave })
            }
            Err(Full { asked, is_kept }) => {
                for asked in asked {
                    tracing::info!(session = asked, for_receiver = receiver, "session makes room");
                    inner.leave.get(&asked).iter().for_each(|leave| leave.cancel());
                }
                Err(is_kept)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl RosterSeat ===

impl RosterSeat {
    /// The receiver says how many sessions it holds with all workers.
    pub(crate) fn heard(&self, held: Option<u32>) {
        self.roster.lock().seats.heard(self.session, held);
    }
}

impl Drop for RosterSeat {
    fn drop(&mut self) {
        let mut inner = self.roster.lock();
        inner.seats.leave(self.session);
        inner.leave.remove(&self.session);
    }
}
