//! Who announced which shards, and which of them is fetched next. Knows no disk, no thread and no
//! clock but the one that it is given.
//!
//! Each plan's shards are fetched in its order. Of several plans, the one that holds the fewest bytes
//! goes next; a shard of several plans is fetched once and counts evenly for each of them. One plan
//! holds no more bytes than it leaves free, so that there is room for a newcomer (docs/adr/025).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headwater_core::Digest;

/// Most plans; of more, the one that was heard longest ago is forgotten.
pub(crate) const PLANS_MAX: usize = 1024;
/// A plan that was not heard again for so long is forgotten: its caller is gone or stands still.
pub(crate) const PLAN_LIFETIME: Duration = Duration::from_secs(300);

/// Number of a dataset, and of a shard of it.
pub(crate) type ShardId = (usize, u32);

/// A caller and one of its datasets.
pub(crate) type PlanId = (Digest, usize);

/// What is announced, and what of it is fetched.
#[derive(Debug)]
pub(crate) struct Plans {
    window: usize,
    bytes_max: u64,
    plans: Vec<Plan>,
    /// Shards that are fetched, were fetched, or could not be; each is in some plan, or on its way.
    held: HashMap<ShardId, Held>,
    /// How many plans a shard is in.
    planned: HashMap<ShardId, u32>,
    turns: u64,
}

/// A shard to be fetched.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// Which one.
    pub(crate) shard: ShardId,
    /// Whether it still is in a plan: to be looked at while it is fetched.
    pub(crate) wanted: Arc<AtomicBool>,
}

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of the shard is there.
    Fetched,
    /// It was not wanted any more.
    Cancelled,
    /// It cannot be fetched; not tried again while it stays in a plan.
    Failed,
}

/// How full it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) plans: usize,
    /// Shards that are in a plan and not fetched yet.
    pub(crate) waiting: usize,
    /// Shards that are being fetched.
    pub(crate) in_flight: usize,
    /// Bytes of shards that are fetched or on their way.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Plan {
    id: PlanId,
    /// Shards with their sizes, soonest first, each once.
    shards: Vec<(ShardId, u64)>,
    heard: Instant,
    /// When it had its last turn.
    turn: u64,
}

#[derive(Debug)]
struct Held {
    bytes: u64,
    in_flight: bool,
    wanted: Arc<AtomicBool>,
}

// === impl Plans ===

impl Plans {
    pub(crate) fn new(window: usize, bytes_max: u64) -> Self {
        let (held, planned) = (HashMap::new(), HashMap::new());
        Self { window, bytes_max, plans: Vec::new(), held, planned, turns: 0 }
    }

    /// Takes up a plan, with the shards' sizes, in place of the former one of that name.
    pub(crate) fn set(&mut self, id: PlanId, mut shards: Vec<(ShardId, u64)>, now: Instant) {
        let mut seen = std::collections::HashSet::new();
        shards.retain(|(shard, _)| seen.insert(*shard));
        let turn = self.plans.iter().find(|plan| plan.id == id).map_or(0, |plan| plan.turn);
        self.plans.retain(|plan| plan.id != id && now < plan.heard + PLAN_LIFETIME);
        if !shards.is_empty() {
            if self.plans.len() == PLANS_MAX {
                let oldest = (0..PLANS_MAX).min_by_key(|&at| self.plans[at].heard);
                self.plans.remove(oldest.expect("there are some"));
            }
            self.plans.push(Plan { id, shards, heard: now, turn });
        }
        self.let_go();
    }

    /// The shard to be fetched now; `None`: as many are as may be, or there is no room.
    pub(crate) fn next(&mut self) -> Option<Fetch> {
        let fill = self.fill();
        if fill.in_flight >= self.window {
            return None;
        }
        let ready = |at: &usize| self.ready(&self.plans[*at], fill.bytes).is_some();
        let waiting = (0..self.plans.len()).filter(ready);
        let at = waiting.min_by_key(|&at| (self.share(&self.plans[at]), self.plans[at].turn))?;
        let (shard, bytes) = self.ready(&self.plans[at], fill.bytes)?;
        self.turns += 1;
        self.plans[at].turn = self.turns;
        let wanted = Arc::new(AtomicBool::new(true));
        self.held.insert(shard, Held { bytes, in_flight: true, wanted: wanted.clone() });
        Some(Fetch { shard, wanted })
    }

    /// Notes that a fetch has ended.
    pub(crate) fn done(&mut self, shard: ShardId, outcome: Outcome) {
        let Some(held) = self.held.get_mut(&shard) else { return };
        held.in_flight = false;
        if outcome == Outcome::Failed {
            held.bytes = 0;
        }
        if outcome == Outcome::Cancelled || !self.planned.contains_key(&shard) {
            self.held.remove(&shard);
        }
    }

    pub(crate) fn fill(&self) -> Fill {
        let waiting = self.planned.keys().filter(|shard| !self.held.contains_key(shard));
        Fill {
            plans: self.plans.len(),
            waiting: waiting.count(),
            in_flight: self.held.values().filter(|held| held.in_flight).count(),
            bytes: self.held.values().map(|held| held.bytes).sum(),
        }
    }

    /// A plan's next shard, if there is room for it beside the bytes that are held.
    fn ready(&self, plan: &Plan, bytes_held: u64) -> Option<(ShardId, u64)> {
        let next = plan.shards.iter().find(|(shard, _)| !self.held.contains_key(shard));
        let &(shard, bytes) = next?;
        // If it is larger than all room: only with nothing else.
        let alone = bytes_held == 0;
        let free = self.bytes_max.checked_sub(bytes_held.saturating_add(bytes));
        let fits = free.is_some_and(|free| self.share(plan) + self.part(shard, bytes) <= free);
        (alone || fits).then_some((shard, bytes))
    }

    /// Bytes that count for a plan.
    fn share(&self, plan: &Plan) -> u64 {
        let part = |(shard, _): &(ShardId, u64)| {
            self.held.get(shard).map_or(0, |held| self.part(*shard, held.bytes))
        };
        plan.shards.iter().map(part).sum()
    }

    /// What a shard counts for each of its plans.
    fn part(&self, shard: ShardId, bytes: u64) -> u64 {
        bytes / u64::from(self.planned.get(&shard).copied().unwrap_or(1)).max(1)
    }

    /// Gives up what is in no plan any more. What is being fetched ends on its own.
    fn let_go(&mut self) {
        self.planned.clear();
        for (shard, _) in self.plans.iter().flat_map(|plan| &plan.shards) {
            *self.planned.entry(*shard).or_default() += 1;
        }
        self.held.retain(|shard, held| {
            let wanted = self.planned.contains_key(shard);
            held.wanted.store(wanted, Ordering::Relaxed);
            wanted || held.in_flight
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn plan(shards: impl IntoIterator<Item = u32>) -> Vec<(ShardId, u64)> {
        shards.into_iter().map(|shard| ((0, shard), MB)).collect()
    }

    fn id(caller: u128) -> PlanId {
        (Digest(caller), 0)
    }

    /// All that are fetched now, in order; they stay on their way.
    fn begin(plans: &mut Plans) -> Vec<u32> {
        std::iter::from_fn(|| plans.next()).map(|fetch| fetch.shard.1).collect()
    }

    #[test]
    fn a_plan_is_fetched_in_its_order_within_the_window() {
        let mut plans = Plans::new(2, 1000 * MB);
        plans.set(id(1), plan([7, 3, 7, 9, 1]), Instant::now());
        assert_eq!(begin(&mut plans), [7, 3]);
        plans.done((0, 3), Outcome::Fetched);
        assert_eq!(begin(&mut plans), [9]);
        assert_eq!(plans.fill(), Fill { plans: 1, waiting: 1, in_flight: 2, bytes: 3 * MB });
    }

    #[test]
    fn a_new_plan_takes_the_place_of_the_former_and_cancels_what_is_under_way() {
        let (mut plans, now) = (Plans::new(2, 1000 * MB), Instant::now());
        plans.set(id(1), plan([1, 2, 3]), now);
        let (one, two) = (plans.next().unwrap(), plans.next().unwrap());
        plans.set(id(1), plan([2, 8]), now);
        let wanted = |fetch: &Fetch| fetch.wanted.load(Ordering::Relaxed);
        assert!(!wanted(&one) && wanted(&two));
        assert!(plans.next().is_none(), "what is being fetched has its place until it ends");
        plans.done(one.shard, Outcome::Cancelled);
        assert_eq!(begin(&mut plans), [8], "3 is never fetched");
        plans.set(id(1), Vec::new(), now);
        plans.done((0, 2), Outcome::Fetched);
        plans.done((0, 8), Outcome::Cancelled);
        assert_eq!(plans.fill(), Fill::default());
    }

    #[test]
    fn what_another_caller_wants_too_is_fetched_once_and_not_cancelled() {
        let (mut plans, now) = (Plans::new(9, 1000 * MB), Instant::now());
        plans.set(id(1), plan([1, 2]), now);
        plans.set(id(2), plan([1, 3]), now);
        let first = plans.next().unwrap();
        assert_eq!(first.shard, (0, 1));
        let mut others = begin(&mut plans);
        others.sort_unstable();
        assert_eq!(others, [2, 3]);
        plans.set(id(1), plan([2]), now);
        assert!(first.wanted.load(Ordering::Relaxed));
        plans.set(id(2), plan([3]), now);
        assert!(!first.wanted.load(Ordering::Relaxed));
    }

    #[test]
    fn bytes_are_free_again_when_a_plan_has_gone_past_them() {
        let (mut plans, now) = (Plans::new(99, 8 * MB), Instant::now());
        plans.set(id(1), plan(0..9), now);
        assert_eq!(begin(&mut plans), [0, 1, 2, 3], "as much as it leaves free");
        (0..4).for_each(|shard| plans.done((0, shard), Outcome::Fetched));
        assert!(plans.next().is_none());
        plans.set(id(1), plan(2..9), now);
        assert_eq!(begin(&mut plans), [4, 5]);
        plans.set(id(1), vec![((0, 50), 100 * MB)], now);
        assert!(plans.next().is_none());
        plans.done((0, 4), Outcome::Cancelled);
        plans.done((0, 5), Outcome::Cancelled);
        assert_eq!(begin(&mut plans), [50], "one that is larger than all room goes alone");
    }

    #[test]
    fn a_newcomer_finds_room_and_the_one_with_the_least_goes_next() {
        let (mut plans, now) = (Plans::new(99, 9 * MB), Instant::now());
        plans.set(id(1), plan(0..90), now);
        assert_eq!(begin(&mut plans).len(), 4);
        plans.set(id(2), plan(100..190), now);
        assert_eq!(begin(&mut plans), [100, 101], "as many as leave as much free");
        // Whoever was first goes on, by one; then both take turns.
        let (mut plans, window) = (Plans::new(6, 1000 * MB), 6);
        plans.set(id(1), plan(0..90), now);
        plans.set(id(2), plan(100..190), now);
        let begun = begin(&mut plans);
        assert_eq!(begun.len(), window);
        assert_eq!(begun.iter().filter(|&&shard| shard < 100).count(), 3, "{begun:?}");
        let theirs: Vec<u32> = begun.into_iter().filter(|&shard| shard >= 100).collect();
        assert_eq!(theirs, [100, 101, 102]);
    }

    #[test]
    fn ranks_of_one_job_share_what_they_all_announce() {
        let (mut plans, now) = (Plans::new(99, 9 * MB), Instant::now());
        (0..8).for_each(|rank| plans.set(id(rank), plan(0..90), now));
        // Eight eighths of eight, and one is left free.
        assert_eq!(begin(&mut plans).len(), 8);
    }

    #[test]
    fn what_cannot_be_fetched_is_not_tried_again_while_it_is_planned() {
        let (mut plans, now) = (Plans::new(1, 1000 * MB), Instant::now());
        plans.set(id(1), plan([1, 2]), now);
        assert_eq!(begin(&mut plans), [1]);
        plans.done((0, 1), Outcome::Failed);
        plans.set(id(1), plan([1, 2, 3]), now);
        assert_eq!(begin(&mut plans), [2]);
        assert_eq!(plans.fill().bytes, MB);
        plans.set(id(1), plan([2]), now);
        plans.set(id(1), plan([1]), now);
        plans.done((0, 2), Outcome::Cancelled);
        assert_eq!(begin(&mut plans), [1], "announced anew");
    }

    #[test]
    fn who_is_not_heard_any_more_is_forgotten_and_there_are_only_so_many() {
        let (mut plans, now) = (Plans::new(1, 1000 * MB), Instant::now());
        plans.set(id(1), plan([1]), now);
        plans.set(id(2), plan([2]), now + PLAN_LIFETIME);
        assert_eq!(plans.fill().plans, 1);
        for caller in 0..2 * PLANS_MAX as u128 {
            let later = now + PLAN_LIFETIME + Duration::from_nanos(caller as u64);
            plans.set(id(caller), plan([caller as u32]), later);
        }
        assert_eq!(plans.fill().plans, PLANS_MAX);
        let last = 2 * PLANS_MAX as u128 - 1;
        assert!(plans.plans.iter().any(|plan| plan.id == id(last)));
    }
}
