//! A worker as the ledger knows it.

use std::time::Duration;

use headwater_transport::LinkKind;

use super::lease::Lease;

/// A worker that is there.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// The link that its parts come by.
    pub link: LinkKind,
    /// Leases it takes at once; 0 while it drains.
    pub credits: u32,
    /// Leases it has not answered.
    pub open: u32,
    /// Keeps finished parts for other receivers.
    pub shares: bool,
    /// The first step, counted over epochs, whose parts receivers of the stream ask it for.
    pub takes_from: Option<u64>,
    pub(super) pace: Pace,
    /// Parts that were compared one after another since it joined, or since one differed.
    pub(super) compared: u32,
}

/// What a worker finishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// When it began to owe something: its last part came, or a lease when it had none.
    pub(super) owing_since: Duration,
    /// Parts that all workers together had finished then.
    pub(super) finished_then: u64,
    /// Others were faster with one of its leases since it last finished a part.
    pub(super) overtaken: bool,
    pub(super) stuck: Option<Stuck>,
}

/// A worker that finishes nothing while others do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stuck {
    pub(super) since: Duration,
    /// When it is given one part, to see whether it goes on.
    pub(super) retry_at: Duration,
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(name: String, link: LinkKind, credits: u32) -> Self {
        let (open, shares, takes_from) = (0, false, None);
        Self { name, link, credits, open, shares, takes_from, pace: Pace::default(), compared: 0 }
    }

    pub(super) fn has_room(&self, now: Duration) -> bool {
        self.open < self.pace.credits(self.credits, now)
    }

    /// Whether it has so little to do that it may do what is another's.
    pub(super) fn is_idle(&self) -> bool {
        self.open * 2 <= self.credits
    }
}

// === impl Pace ===

impl Pace {
    /// Leases that a worker with `credits` credits may have at `now`.
    fn credits(&self, credits: u32, now: Duration) -> u32 {
        match self.stuck {
            None => credits,
            Some(stuck) if stuck.retry_at <= now => credits.min(1),
            Some(_) => 0,
        }
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    pub(super) fn is_stuck_with(&self, lease: &Lease) -> bool {
        self.stuck.is_some_and(|stuck| lease.given_at <= stuck.since)
    }
}
