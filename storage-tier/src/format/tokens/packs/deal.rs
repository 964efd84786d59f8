//! Which packs of a step a rank gets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Exchanges for each rank.
const EXCHANGES: usize = 16;

/// The packs of a rank, by rising loads.
#[derive(Clone, Debug, Default)]
struct Hand {
    packs: Vec<u32>,
    load: u64,
}

/// Orders packs with these loads so that `ranks` slices of equal length have loads as even as can be found: the place in
/// `loads` of each. Within a slice they keep their order.
///
/// The largest goes first, each to the rank with the least load that has room (Graham's rule). Then the heaviest rank gives
/// one to another in exchange for a smaller one, as long as that makes both lighter than it was.
///
/// # Panics
/// The ranks do not divide the packs.
pub(super) fn deal(loads: &[u64], ranks: usize) -> Vec<u32> {
    assert!(loads.len().is_multiple_of(ranks), "{} packs for {ranks} ranks", loads.len());
    let each = loads.len() / ranks;
    let mut sorted: Vec<u32> = (0..loads.len() as u32).collect();
    sorted.sort_by_key(|&pack| Reverse(loads[pack as usize]));
    let mut hands = vec![Hand::default(); ranks];
    // Of equal loads the first rank.
    let mut with_room: BinaryHeap<Reverse<(u64, usize)>> =
        (0..ranks).map(|rank| Reverse((0, rank))).collect();
    for pack in sorted {
        let Reverse((load, rank)) = with_room.pop().expect("there is room for each pack");
        let hand = &mut hands[rank];
        hand.packs.push(pack);
        hand.load = load + loads[pack as usize];
        if hand.packs.len() < each {
            with_room.push(Reverse((hand.load, rank)));
        }
    }
    hands.iter_mut().for_each(|hand| hand.packs.reverse());
    for _ in 0..EXCHANGES * ranks {
        if !exchange(&mut hands, loads) {
            break;
        }
    }
    hands.iter_mut().for_each(|hand| hand.packs.sort_unstable());
    // The one with the first pack first, so that the order shows no load.
    hands.sort_unstable_by(|one, other| one.packs.cmp(&other.packs));
    hands.into_iter().flat_map(|hand| hand.packs).collect()
}

/// Changes a pack of the heaviest hand for a smaller one of the lightest hand with which that helps. Returns whether there is
/// one.
fn exchange(hands: &mut [Hand], loads: &[u64]) -> bool {
    let mut others: Vec<usize> = (0..hands.len()).collect();
    others.sort_by_key(|&hand| hands[hand].load);
    let heaviest = others.pop().expect("there is a rank");
    let found = others
        .into_iter()
        .find_map(|other| Some((other, best_exchange(&hands[heaviest], &hands[other], loads)?)));
    let Some((other, [given, taken])) = found else { return false };
    let (mine, theirs) = (hands[heaviest].packs[given], hands[other].packs[taken]);
    let less = loads[mine as usize] - loads[theirs as usize];
    for (hand, leaves, comes) in [(heaviest, given, theirs), (other, taken, mine)] {
        let packs = &mut hands[hand].packs;
        packs.remove(leaves);
        let key = |pack: &u32| (loads[*pack as usize], *pack);
        packs.insert(packs.partition_point(|pack| key(pack) < key(&comes)), comes);
    }
    hands[heaviest].load -= less;
    hands[other].load += less;
    true
}

/// Places of the two packs whose loads differ by the amount nearest to half of what the hands differ by, and by less than
/// all of it.
fn best_exchange(heavy: &Hand, light: &Hand, loads: &[u64]) -> Option<[usize; 2]> {
    let apart = heavy.load - light.load;
    let load = |pack: u32| loads[pack as usize];
    let mut best: Option<(u64, [usize; 2])> = None;
    let (mut given, mut taken) = (0, 0);
    while given < heavy.packs.len() && taken < light.packs.len() {
        let (mine, theirs) = (load(heavy.packs[given]), load(light.packs[taken]));
        let less = mine.saturating_sub(theirs);
        if less > 0 && less < apart {
            let off = (2 * less).abs_diff(apart);
            if best.is_none_or(|(least, _)| off < least) {
                best = Some((off, [given, taken]));
            }
        }
        // Both lists rise: a difference grows with the one, and shrinks with the other.
        if 2 * less < apart { given += 1 } else { taken += 1 }
    }
    best.map(|(_, places)| places)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sums(order: &[u32], loads: &[u64], ranks: usize) -> Vec<u64> {
        let slices = order.chunks(order.len() / ranks);
        slices.map(|slice| slice.iter().map(|&pack| loads[pack as usize]).sum()).collect()
    }

    #[test]
    fn slices_are_as_even_as_they_can_be() {
        // 9 + 1, 8 + 2, 6 + 4.
        let loads = [1, 2, 4, 6, 8, 9];
        assert_eq!(sums(&deal(&loads, 3), &loads, 3), [10, 10, 10]);
        let loads = [10, 9, 8, 7, 3, 3];
        assert_eq!(sums(&deal(&loads, 2), &loads, 2), [20, 20]);
        assert_eq!(deal(&[5, 5, 5], 3), [0, 1, 2]);
        assert_eq!(deal(&[3, 1], 1), [0, 1]);
    }

    proptest! {
        #[test]
        fn each_pack_is_dealt_once_and_no_exchange_is_left_that_helps(
            loads in prop::collection::vec(1_u64..1_000_000, 24),
            ranks in prop::sample::select(vec![1_usize, 2, 3, 4, 6, 8, 12, 24]),
        ) {
            let order = deal(&loads, ranks);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..24).collect::<Vec<u32>>());
            let each = 24 / ranks;
            prop_assert!(order.chunks(each).all(<[u32]>::is_sorted));
            // No exchange is left that makes the heaviest rank and the other lighter than it is.
            let sums = sums(&order, &loads, ranks);
            let heaviest = (0..ranks).max_by_key(|&rank| sums[rank]).unwrap();
            for other in (0..ranks).filter(|&other| other != heaviest) {
                for &mine in &order[heaviest * each..][..each] {
                    for &theirs in &order[other * each..][..each] {
                        let (mine, theirs) = (loads[mine as usize], loads[theirs as usize]);
                        let is_better =
                            mine > theirs && sums[other] + mine - theirs < sums[heaviest];
                        prop_assert!(!is_better);
                    }
                }
            }
            prop_assert_eq!(order, deal(&loads, ranks));
        }
    }
}
