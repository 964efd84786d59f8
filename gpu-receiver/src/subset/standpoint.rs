//! The order in which a receiver prefers workers.

use std::sync::OnceLock;

use headwater_core::rendezvous::rendezvous;
use headwater_core::{Digest, Digester};

/// Where a receiver stands among those of its job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standpoint {
    /// Of the job's order of samples, whatever the rank.
    pub(crate) stream: Digest,
    pub(crate) rank: u32,
    pub(crate) world_size: u32,
}

/// Workers as indices into a list of them, those first that a rank prefers.
#[derive(Debug)]
pub(crate) struct Order {
    /// Those of the rank's window.
    near: Vec<u32>,
    others: Vec<u32>,
    key: Digest,
    /// The others in the order in which they are preferred. Of tens of thousands, few receivers ever need one of them.
    far: OnceLock<Vec<u32>>,
}

// === impl Order ===

impl Order {
    /// All of them, by the list that they are of.
    pub(crate) fn of<'a>(&self, workers: &'a [String]) -> impl Iterator<Item = &'a String> {
        let far = std::iter::once(()).flat_map(|()| self.far(workers));
        self.near.iter().chain(far).map(|&at| &workers[at as usize])
    }

    fn far(&self, workers: &[String]) -> &[u32] {
        self.far.get_or_init(|| {
            let names: Vec<&str> =
                self.others.iter().map(|&at| workers[at as usize].as_str()).collect();
            rendezvous(self.key, &names).into_iter().map(|place| self.others[place]).collect()
        })
    }
}

// === impl Standpoint ===

impl Standpoint {
    /// The order of all workers. It depends on the addresses only, not on their order.
    pub(crate) fn order(&self, workers: &[String], window: usize) -> Order {
        let mut ring: Vec<(u64, u32)> =
            (0..).zip(workers).map(|(at, address)| (place(address), at)).collect();
        ring.sort_unstable_by_key(|&(place, at)| (place, &workers[at as usize]));
        let first = self.first(ring.len());
        ring.rotate_left(first);
        let (near, others) = ring.split_at(window.min(ring.len()));
        let numbers = |part: &[(u64, u32)]| part.iter().map(|&(_, at)| at).collect();
        let (near, others) = (numbers(near), numbers(others));
        Order { near, others, key: self.key(), far: OnceLock::new() }
    }

    /// Where the window begins on a ring of this number of workers.
    fn first(&self, workers: usize) -> usize {
        let mut digester = Digester::new("headwater subset ring 1");
        let turn = digester.bytes(&self.stream.to_bytes()).finish().0 as u64;
        // Both as parts of a whole turn of 2^64 units.
        let share = (u128::from(self.rank) << 64) / u128::from(self.world_size.max(1));
        let at = turn.wrapping_add(share as u64);
        ((u128::from(at) * workers as u128) >> 64) as usize
    }

    fn key(&self) -> Digest {
        let mut digester = Digester::new("headwater subset rest 1");
        digester.bytes(&self.stream.to_bytes()).number(self.rank.into()).finish()
    }
}

fn place(address: &str) -> u64 {
    Digester::new("headwater subset worker 1").bytes(address.as_bytes()).finish().0 as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const K: usize = 16;

    fn workers(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("10.1.{}.{}:7402", number / 250, number % 250)).collect()
    }

    fn rank(rank: u32, world_size: u32) -> Standpoint {
        Standpoint { stream: Digest(7), rank, world_size }
    }

    /// The first `K` of each rank, by address.
    fn held(workers: &[String], world_size: u32) -> Vec<BTreeSet<&str>> {
        let of = |number| {
            let order = rank(number, world_size).order(workers, K);
            order.of(workers).take(K).map(String::as_str).collect()
        };
        (0..world_size).map(of).collect()
    }

    #[test]
    fn every_worker_is_in_the_order_once_and_the_lists_own_order_does_not_matter() {
        let all = workers(100);
        let order = rank(3, 8).order(&all, K);
        assert_eq!(order.of(&all).collect::<BTreeSet<_>>().len(), 100);
        let turned: Vec<String> = all.iter().rev().cloned().collect();
        let other = rank(3, 8).order(&turned, K);
        assert!(order.of(&all).eq(other.of(&turned)));
        assert_eq!(rank(0, 1).order(&[], K).of(&[]).count(), 0);
        assert_eq!(rank(0, 1).order(&all[..2], K).of(&all[..2]).count(), 2);
    }

    #[test]
    fn ranks_are_spread_over_workers_to_within_one_session() {
        for (ranks, count) in [(10_000, 2000), (288, 40), (1000, 100), (64, 48)] {
            let all = workers(count);
            let mut sessions = std::collections::HashMap::new();
            held(&all, ranks)
                .into_iter()
                .flatten()
                .for_each(|worker| *sessions.entry(worker).or_insert(0) += 1);
            let (most, least) =
                (sessions.values().max().unwrap(), sessions.values().min().unwrap());
            assert_eq!(sessions.len(), count, "{ranks} ranks");
            assert!(
                most - least <= 1,
                "{ranks} ranks, {count} workers: {least} to {most} sessions"
            );
        }
    }

    #[test]
    fn a_worker_more_or_less_moves_few_sessions() {
        let all = workers(401);
        let (fewer, more) = (held(&all[..400], 1000), held(&all, 1000));
        let moved: usize = fewer.iter().zip(&more).map(|(a, b)| a.difference(b).count()).sum();
        assert!(moved * 100 <= 5 * 1000 * K, "{moved} of {} sessions", 1000 * K);
    }

    #[test]
    fn receivers_that_lose_the_same_workers_go_to_different_ones() {
        let all = workers(200);
        let orders: Vec<Order> = (0..20).map(|number| rank(number, 2000).order(&all, K)).collect();
        let next: BTreeSet<_> = orders.iter().map(|order| order.of(&all).nth(K)).collect();
        assert!(next.len() >= 15, "{} of 20 go to different ones", next.len());
    }

    #[test]
    fn trials_of_one_stream_have_the_same_order_and_jobs_begin_elsewhere() {
        let all = workers(200);
        let [one, other] = [(); 2].map(|()| rank(0, 1).order(&all, K));
        assert!(one.of(&all).eq(other.of(&all)));
        let first = |stream| {
            let standpoint = Standpoint { stream: Digest(stream), rank: 0, world_size: 1 };
            standpoint.order(&all, K).of(&all).next().cloned()
        };
        assert!((0..40).map(first).collect::<BTreeSet<_>>().len() > 25);
    }
}
