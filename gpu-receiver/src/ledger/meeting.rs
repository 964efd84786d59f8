//! Where receivers of one stream meet: each part has one worker, whoever asks for it.
//!
//! What a receiver has open plays no part in it, since that differs from receiver to receiver. The parts
//! of some steps, as many as there are workers, are dealt together, so that all have about as much to do.
//!
//! A worker that goes moves few parts but its own. A worker that comes takes parts from a step on that it
//! names itself: so receivers that are behind still find the parts before it where they were made.

use std::collections::BTreeMap;

use headwater_core::rendezvous::{deal, owner};
use headwater_core::{Digest, Digester};
use headwater_transport::PeerId;

use super::Worker;

/// A worker is dealt this much of its share at most, rounded up. Less would move more parts when a worker
/// comes or goes.
const DEAL_BOUND_PERCENT: u32 = 200;
/// Groups of steps whose deals are kept.
const DEALS_MAX: usize = 16;

/// A part by its place in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPart {
    pub(super) epoch: u32,
    pub(super) step: u64,
    /// The step counted over epochs.
    pub(super) job_step: u64,
    /// Its number in the batch, and how many the batch has.
    pub(super) part: usize,
    pub(super) parts: usize,
}

/// What has been dealt among the workers that are there.
pub(super) struct Meeting {
    stream: Digest,
    /// By epoch, first step and parts of a batch.
    deals: BTreeMap<(u32, u64, usize), Vec<PeerId>>,
}

// === impl Meeting ===

impl Meeting {
    pub(super) fn new(stream: Digest) -> Self {
        Self { stream, deals: BTreeMap::new() }
    }

    /// Other workers are there, or they take other numbers of leases.
    pub(super) fn on_workers_changed(&mut self) {
        self.deals.clear();
    }

    /// The worker of a part. `None` where no worker keeps parts for other receivers, or none is there.
    pub(super) fn worker_of(
        &mut self,
        part: StreamPart,
        workers: &BTreeMap<PeerId, Worker>,
    ) -> Option<PeerId> {
        if !workers.values().any(|worker| worker.shares) {
            return None;
        }
        let there: Vec<(PeerId, &Worker)> = workers
            .iter()
            .filter(|(_, worker)| worker.credits > 0)
            .map(|(peer, worker)| (*peer, worker))
            .collect();
        let StreamPart { epoch, step, job_step, part: number, parts } = part;
        let steps = steps_at_once(there.len(), parts);
        let first = step / steps * steps;
        let at = (step - first) as usize * parts + number;
        let place = (epoch, first, parts);
        if let Some(dealt) = self.deals.get(&place) {
            return dealt.get(at).copied();
        }
        let there = taking_part(there, job_step - (step - first));
        let all = (first..first + steps).flat_map(|step| (0..parts).map(move |part| (step, part)));
        let keys: Vec<Digest> = all.map(|(step, part)| self.key(epoch, step, part)).collect();
        let names: Vec<&str> = there.iter().map(|(_, worker)| worker.name.as_str()).collect();
        let weights: Vec<u32> = there.iter().map(|(_, worker)| worker.credits).collect();
        let dealt: Vec<PeerId> = deal(&keys, &names, &weights, DEAL_BOUND_PERCENT)
            .into_iter()
            .map(|node| there[node].0)
            .collect();
        if self.deals.len() >= DEALS_MAX {
            self.deals.pop_first();
        }
        let worker = dealt.get(at).copied();
        self.deals.insert(place, dealt);
        worker
    }

    /// The worker that a part goes to where its own cannot take it: the same of the same workers, for all.
    pub(super) fn other_worker(
        &self,
        part: StreamPart,
        free: &[(PeerId, &Worker)],
    ) -> Option<PeerId> {
        let names: Vec<&str> = free.iter().map(|(_, worker)| worker.name.as_str()).collect();
        let StreamPart { epoch, step, part, .. } = part;
        owner(self.key(epoch, step, part), &names).map(|node| free[node].0)
    }

    /// Follows from nothing but stream and place: also for steps whose samples are not drawn yet.
    fn key(&self, epoch: u32, step: u64, part: usize) -> Digest {
        let mut digester = Digester::new("headwater meeting 1");
        digester.bytes(&self.stream.to_bytes()).number(epoch.into());
        digester.number(step).number(part as u64).finish()
    }
}

/// Those who take parts of a step; all, where no worker was there so early.
fn taking_part(there: Vec<(PeerId, &Worker)>, job_step: u64) -> Vec<(PeerId, &Worker)> {
    let takes = |worker: &Worker| worker.takes_from.is_some_and(|from| from <= job_step);
    if !there.iter().any(|(_, worker)| takes(worker)) {
        return there;
    }
    there.into_iter().filter(|(_, worker)| takes(worker)).collect()
}

/// Steps whose parts are dealt together: a power of two, so that one worker more or less rarely changes it.
fn steps_at_once(workers: usize, parts: usize) -> u64 {
    let most = (workers / parts.max(1)).max(1);
    1 << most.ilog2()
}
