//! Fetching ahead what callers announce: in their order, within `shard_prefetch_window` shards at a
//! time and `prefetch_bytes`, and no longer than somebody wants it.

mod plans;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::metrics;
use plans::{PLANS_MAX, Plans};

pub(crate) use plans::{Fetch, Fill, Outcome, PlanId, ShardId};

/// The plans of all callers. Whoever takes a [`Fetch`] must report how it ended.
#[derive(Debug)]
pub(crate) struct LookAhead {
    plans: Mutex<Plans>,
}

// === impl LookAhead ===

impl LookAhead {
    pub(crate) fn new(window: usize, bytes_max: u64) -> Self {
        metrics::prefetch_limits(PLANS_MAX, window, bytes_max);
        Self { plans: Mutex::new(Plans::new(window, bytes_max)) }
    }

    /// Takes up a plan, with the shards' sizes, in place of the caller's former one.
    pub(crate) fn announce(&self, plan: PlanId, shards: Vec<(ShardId, u64)>) {
        let mut plans = self.lock();
        plans.set(plan, shards, Instant::now());
        metrics::prefetches(plans.fill());
    }

    /// A shard to be fetched now, if there is one.
    pub(crate) fn next(&self) -> Option<Fetch> {
        let mut plans = self.lock();
        let next = plans.next();
        metrics::prefetches(plans.fill());
        next
    }

    /// Notes that a fetch has ended.
    pub(crate) fn done(&self, shard: ShardId, outcome: Outcome) {
        let mut plans = self.lock();
        plans.done(shard, outcome);
        metrics::prefetched(outcome);
        metrics::prefetches(plans.fill());
    }

    fn lock(&self) -> MutexGuard<'_, Plans> {
        // No panic can happen while the lock is held.
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
