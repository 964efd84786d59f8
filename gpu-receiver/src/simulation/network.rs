//! What connects the modelled processes: distance, partitions, counted messages.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headwater_core::Digester;
use tokio::sync::Notify;

/// Time of a message on its way.
const LATENCY: Duration = Duration::from_millis(1);

/// Messages of the control streams, by what they are.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Leases given.
    pub(super) leases: AtomicU64,
    /// Leases withdrawn.
    pub(super) withdrawals: AtomicU64,
    /// Leases answered, done or failed.
    pub(super) answers: AtomicU64,
    /// Signs of life, in both directions.
    pub(super) heartbeats: AtomicU64,
    /// Sessions that were opened.
    pub(super) sessions: AtomicU64,
}

/// The network between receivers and workers.
#[derive(Debug, Default)]
pub(super) struct Network {
    cut: Mutex<BTreeSet<(usize, usize)>>,
    healed: Notify,
    pub(super) counts: Counts,
}

/// A number in `0..below` that follows from the seed and what it is for.
pub(super) fn chance(seed: u64, what: &str, numbers: [u64; 2], below: u64) -> u64 {
    let mut digester = Digester::new(what);
    digester.number(seed).number(numbers[0]).number(numbers[1]);
    (digester.finish().0 % u128::from(below)) as u64
}

// === impl Network ===

impl Network {
    /// Nothing passes between these receivers and workers until [`Self::heal`].
    pub(super) fn cut(&self, pairs: impl IntoIterator<Item = (usize, usize)>) {
        self.lock().extend(pairs);
    }

    pub(super) fn heal(&self) {
        self.lock().clear();
        self.healed.notify_waiters();
    }

    /// A message's way. What is under way when a cable is cut arrives when it is whole again, in
    /// order, as TCP has it.
    pub(super) async fn pass(&self, receiver: usize, worker: usize) {
        tokio::time::sleep(LATENCY).await;
        loop {
            let healed = self.healed.notified();
            if !self.lock().contains(&(receiver, worker)) {
                return;
            }
            healed.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<(usize, usize)>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
