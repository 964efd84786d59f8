//! Which of several nodes a thing belongs to: highest random weight (rendezvous) hashing.
//!
//! Everyone who knows the key and the nodes' names comes to the same answer without asking. When
//! a node is lost, only the things that were its own move; when one joins, things move only to it.
//! Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.

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

/// The node that `key` prefers: the first of [`rendezvous`], without the list. `None` where
/// there is no node.
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
/// Returns `None` where there is no node.
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

/// Ties (a chance of 2^-64) go to the larger name, then to the earlier node.
fn rank_key<N: AsRef<[u8]>>(key: Digest, nodes: &[N], i: usize) -> (u64, &[u8], Reverse<usize>) {
    let name = nodes[i].as_ref();
    // Folding the key to 64 bits may place two keys alike; it cannot confuse them.
    let seed = (key.0 as u64) ^ ((key.0 >> 64) as u64);
    (xxh3_64_with_seed(name, seed), name, Reverse(i))
}
