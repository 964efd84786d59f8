//! Which packs of a step a rank gets.

/// Rounds of improvement for each rank.
const ROUNDS: usize = 16;

/// Orders packs with these loads so that `ranks` slices of equal length have loads as even as can be found: the place in
/// `loads` of each. Within a slice they keep their order.
///
/// The largest goes first, each to the rank with the least load that has room (Graham's rule). Then the heaviest rank gives
/// one to another in exchange, as long as that lowers the larger load of the two most.
///
/// # Panics
/// The ranks do not divide the packs.
pub(super) fn deal(loads: &[u64], ranks: usize) -> Vec<u32> {
    assert!(loads.len().is_multiple_of(ranks), "{} packs for {ranks} ranks", loads.len());
    let each = loads.len() / ranks;
    let mut sorted: Vec<u32> = (0..loads.len() as u32).collect();
    sorted.sort_by_key(|&pack| std::cmp::Reverse(loads[pack as usize]));
    let mut hands = vec![Hand::default(); ranks];
    for pack in sorted {
        let with_room = hands.iter_mut().filter(|hand| hand.packs.len() < each);
        let hand = with_room.min_by_key(|hand| hand.load).expect("there is room for each pack");
        hand.packs.push(pack);
        hand.load += loads[pack as usize];
    }
    for _ in 0..ROUNDS * ranks {
        if !improve(&mut hands, loads) {
            break;
        }
    }
    hands.iter_mut().for_each(|hand| hand.packs.sort_unstable());
    // The one with the first pack first, so that the order shows no load.
    hands.sort_unstable_by(|one, other| one.packs.cmp(&other.packs));
    hands.into_iter().flat_map(|hand| hand.packs).collect()
}

#[derive(Clone, Debug, Default)]
struct Hand {
    packs: Vec<u32>,
    load: u64,
}

/// Changes a pack of the heaviest hand for a smaller one of another hand. Returns whether one was found that makes both
/// lighter than the heaviest was.
fn improve(hands: &mut [Hand], loads: &[u64]) -> bool {
    let heaviest = (0..hands.len()).max_by_key(|&at| hands[at].load).expect("there is a rank");
    let load = |pack: u32| loads[pack as usize];
    let mut best: Option<(u64, [usize; 3])> = None;
    for (other, hand) in hands.iter().enumerate().filter(|(other, _)| *other != heaviest) {
        for (given, &mine) in hands[heaviest].packs.iter().enumerate() {
            for (taken, &theirs) in hand.packs.iter().enumerate() {
                let Some(less @ 1..) = load(mine).checked_sub(load(theirs)) else { continue };
                let larger = (hands[heaviest].load - less).max(hand.load + less);
                if larger < best.map_or(hands[heaviest].load, |(least, _)| least) {
                    best = Some((larger, [other, given, taken]));
                }
            }
        }
    }
    let Some((_, [other, given, taken])) = best else { return false };
    let (mine, theirs) = (hands[heaviest].packs[given], hands[other].packs[taken]);
    let less = load(mine) - load(theirs);
    hands[heaviest].packs[given] = theirs;
    hands[other].packs[taken] = mine;
    hands[heaviest].load -= less;
    hands[other].load += less;
    true
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
        // Graham's rule leaves 10 + 8 + 2 and 9 + 7 + 3 + .. no rank with an exchange that helps.
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
