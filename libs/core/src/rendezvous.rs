//! Which of several nodes a thing belongs to: highest random weight (rendezvous) hashing.
//!
//! All processes that know the key and the nodes' names get the same answer without communication. When a node is
//! lost, only its own things move. When a node joins, things move only to it. Source: Thaler and Ravishankar, "Using
//! name-based mappings to increase hit rates", 1998.

use std::cmp::Reverse;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Digest;

/// The nodes in the order in which `key` prefers them, as indices into `nodes`.
///
/// The order depends on the names only, not on their order in `nodes` (equal names aside).
#[must_use]
pub fn rendezvous<N: AsRef<[u8]>>(key: Digest, nodes: &[N]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_cached_key(|&i| Reverse(rank_key(key, nodes, i)));
    order
}

/// The node that `key` prefers: the first of [`rendezvous`], without making the list. `None`
/// without nodes.
#[must_use]
pub fn owner<N: AsRef<[u8]>>(key: Digest, nodes: &[N]) -> Option<usize> {
    (0..nodes.len()).max_by_key(|&i| rank_key(key, nodes, i))
}

/// The first node of [`rendezvous`] that is not overloaded.
///
/// `loads[i]` is what node `i` holds now. A node is overloaded when it has reached
/// `factor_percent` percent of the mean load, the new thing included, rounded up. With
/// 100 percent loads stay as equal as can be; the more, the closer to plain affinity. At 100 and
/// more there is always a node with room; below 100 it counts as 100. Source: Mirrokni, Thorup,
/// Zadimoghaddam, "Consistent hashing with bounded loads", 2018.
///
/// Returns `None` without nodes.
///
/// # Panics
/// `loads` is not as long as `nodes`.
#[must_use]
pub fn owner_bounded<N: AsRef<[u8]>>(
    key: Digest,
    nodes: &[N],
    loads: &[u64],
    factor_percent: u32,
) -> Option<usize> {
    assert_eq!(nodes.len(), loads.len(), "one load for each node");
    let total = loads.iter().map(|&load| u128::from(load)).sum::<u128>() + 1;
    let share = total * u128::from(factor_percent.max(100));
    let room = share.div_ceil(100 * (nodes.len() as u128).max(1));
    (0..nodes.len())
        .filter(|&i| u128::from(loads[i]) < room)
        .max_by_key(|&i| rank_key(key, nodes, i))
}

/// Deals things to nodes: each thing goes to the first node of its order that has room. With equal weights
/// the order is [`rendezvous`]'s.
///
/// A node has room for its share in proportion to its weight, times `bound_percent` percent, rounded up. With equal
/// weights, and fewer things than nodes, that is 2 at 200 percent for any number of nodes. Room that changed with
/// each node would move many things. So when a node comes or goes, few things other than its own move.
///
/// Everyone who knows things, names and weights comes to the same answer. Source of the weights: Schindelhauer
/// and Schomaker, "Weighted distributed hash tables", 2005.
///
/// Returns an index into `nodes` for each thing; nothing if no node has a weight.
///
/// # Panics
/// `weights` is not as long as `nodes`.
#[must_use]
pub fn deal<N: AsRef<[u8]>>(
    things: &[Digest],
    nodes: &[N],
    weights: &[u32],
    bound_percent: u32,
) -> Vec<usize> {
    assert_eq!(nodes.len(), weights.len(), "one weight for each node");
    let all: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if all == 0 {
        return Vec::new();
    }
    let places = things.len() as u128 * u128::from(bound_percent.max(100));
    let share = |&weight: &u32| (places * u128::from(weight)).div_ceil(100 * all);
    let mut room: Vec<u128> = weights.iter().map(share).collect();
    let mut dealt = Vec::with_capacity(things.len());
    for &thing in things {
        let distance = |&i: &usize| {
            let (rank, ..) = rank_key(thing, nodes, i);
            // In (0, 1]; the logarithm is a library's, the same on every machine.
            let draw = (rank as f64 + 1.0) / 2.0_f64.powi(64);
            -libm::log(draw) / f64::from(weights[i])
        };
        let with_room = (0..nodes.len()).filter(|&i| room[i] > 0);
        let first = with_room.min_by(|a, b| {
            let by_name = || rank_key(thing, nodes, *b).cmp(&rank_key(thing, nodes, *a));
            distance(a).total_cmp(&distance(b)).then_with(by_name)
        });
        // Shares rounded up are places for all.
        let first = first.expect("room for every thing");
        room[first] -= 1;
        dealt.push(first);
    }
    dealt
}

/// Ties (a chance of 2^-64) go to the larger name, then to the earlier node.
fn rank_key<N: AsRef<[u8]>>(key: Digest, nodes: &[N], i: usize) -> (u64, &[u8], Reverse<usize>) {
    let name = nodes[i].as_ref();
    // Folding the key to 64 bits may place two keys alike; it cannot confuse them.
    let seed = (key.0 as u64) ^ ((key.0 >> 64) as u64);
    (xxh3_64_with_seed(name, seed), name, Reverse(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u64 = 20_000;

    fn keys() -> impl Iterator<Item = Digest> {
        (0..KEYS).map(|i| Digest::of(&i.to_le_bytes()))
    }

    fn nodes(number: usize) -> Vec<String> {
        (0..number).map(|i| format!("node-{i}:7000")).collect()
    }

    #[test]
    fn a_lost_node_moves_only_what_was_its_own() {
        let before = nodes(10);
        let mut after = before.clone();
        let lost = after.remove(3);
        after.reverse();
        for key in keys() {
            let (was, is) =
                (&before[owner(key, &before).unwrap()], &after[owner(key, &after).unwrap()]);
            let second = &before[rendezvous(key, &before)[1]];
            assert_eq!(is, if *was == lost { second } else { was });
        }
    }

    #[test]
    fn a_node_added_to_three_takes_a_quarter_and_nothing_moves_between_the_others() {
        let shards: Vec<Digest> = keys().take(1000).collect();
        let after = nodes(4);
        let moved = shards.iter().filter(|&&shard| {
            let (was, is) = (owner(shard, &after[..3]), owner(shard, &after));
            assert!(was == is || is == Some(3), "from {was:?} to {is:?}");
            was != is
        });
        // The names are fixed, and so is what moves; 250 is a quarter.
        assert_eq!(moved.count(), 245);
    }

    #[test]
    fn nodes_are_chosen_equally_often_in_any_company() {
        let nodes = nodes(8);
        let mut firsts = [0_u32; 8];
        let mut seconds_of_0 = [0_u32; 8];
        for key in keys() {
            let order = rendezvous(key, &nodes);
            firsts[order[0]] += 1;
            if order[0] == 0 {
                seconds_of_0[order[1]] += 1;
            }
        }
        // Within six standard deviations of the binomial distribution.
        let near = |n: u32, mean: f64| (f64::from(n) - mean).abs() < 6.0 * mean.sqrt();
        assert!(firsts.iter().all(|&n| near(n, KEYS as f64 / 8.0)), "{firsts:?}");
        let mean = f64::from(firsts[0]) / 7.0;
        assert!(seconds_of_0[1..].iter().all(|&n| near(n, mean)), "{seconds_of_0:?}");
    }

    #[test]
    fn a_deal_is_balanced_and_a_lost_node_moves_little_but_its_own() {
        let (before, weights) = (nodes(40), [6_u32; 40]);
        let mut after = before.clone();
        let lost = after.remove(17);
        after.reverse();
        let (mut moved, mut of_lost, mut dealt) = (0_u32, 0_u32, 0_u32);
        for group in 0..200_u64 {
            let key = |i: u64| Digest::of(&[group.to_le_bytes(), i.to_le_bytes()].concat());
            let things: Vec<Digest> = (0..32).map(key).collect();
            let was = deal(&things, &before, &weights, 200);
            let is = deal(&things, &after, &weights[1..], 200);
            let mut loads = [0; 40];
            was.iter().for_each(|&node| loads[node] += 1);
            assert!(loads.iter().all(|&load| load <= 2), "{loads:?}");
            for (was, is) in was.iter().zip(&is) {
                dealt += 1;
                of_lost += u32::from(before[*was] == lost);
                moved += u32::from(before[*was] != lost && before[*was] != after[*is]);
            }
        }
        assert!(of_lost > dealt / 60, "{of_lost} of {dealt}");
        // A node that takes over a thing of the lost one may then have no room for one of its own
        // things.
        assert!(
            moved < of_lost / 2,
            "{moved} moved from one node that stays to another, {of_lost} had to"
        );
    }

    #[test]
    fn a_deal_follows_the_weights() {
        let things: Vec<Digest> = keys().take(8000).collect();
        let dealt = deal(&things, &nodes(3), &[1, 2, 5], 125);
        let count = |node| dealt.iter().filter(|&&one| one == node).count();
        for (node, share) in [(0, 1000), (1, 2000), (2, 5000)] {
            assert!(count(node).abs_diff(share) < share / 10, "node {node} has {}", count(node));
        }
        assert!(deal(&things, &nodes(2), &[0, 0], 125).is_empty());
        let equal = deal(&things[..1], &nodes(7), &[3; 7], 125);
        assert_eq!(equal, [owner(things[0], &nodes(7)).unwrap()]);
    }

    #[test]
    fn the_owner_is_the_first_of_the_order() {
        let nodes = nodes(5);
        for key in keys().take(100) {
            let order = rendezvous(key, &nodes);
            assert_eq!(owner(key, &nodes), Some(order[0]));
            assert_eq!(owner_bounded(key, &nodes, &[9; 5], 1000), Some(order[0]));
            let mut sorted = order;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        let nobody: [&str; 0] = [];
        assert_eq!(owner(Digest(1), &nobody), None);
        assert_eq!(owner_bounded(Digest(1), &nobody, &[], 125), None);
    }

    #[test]
    fn bounded_loads_stay_bounded_and_fall_to_the_next_choice() {
        let nodes = nodes(7);
        for (factor_percent, most) in [(100, 15), (0, 15), (125, 18)] {
            let mut loads = [0_u64; 7];
            for key in keys().take(100) {
                let chosen = owner_bounded(key, &nodes, &loads, factor_percent).unwrap();
                let order = rendezvous(key, &nodes);
                let place = order.iter().position(|&node| node == chosen).unwrap();
                // Whoever was passed over had reached the bound of that moment.
                let total: u64 = loads.iter().sum::<u64>() + 1;
                let room = (total * u64::from(factor_percent.max(100))).div_ceil(700);
                assert!(order[..place].iter().all(|&node| loads[node] >= room));
                loads[chosen] += 1;
            }
            assert!(loads.iter().all(|&load| load <= most), "{loads:?}");
        }
    }
}
