//! Which sequences of a window share a pack.

use std::collections::BTreeSet;

use super::PackBy;

/// What a pack has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) tokens: u32,
    pub(super) sequences: u32,
}

/// Packs of sequences with these lengths: the numbers of those in each, rising. Sequences without a token are in none.
///
/// `BestFit` takes the longest first and puts each into the fullest pack that has room for it; of equal ones the first. So
/// no two packs could be one. `NextFit` keeps the order: a sequence that does not fit begins the next pack.
///
/// # Panics
/// A sequence is longer than a pack.
pub(super) fn fill(lengths: &[u32], room: Room, by: PackBy) -> Vec<Vec<u32>> {
    assert!(lengths.iter().all(|&length| length <= room.tokens), "a sequence is too long");
    let mut numbers: Vec<u32> = (0..lengths.len() as u32).collect();
    numbers.retain(|&number| lengths[number as usize] > 0);
    match by {
        PackBy::BestFit => best_fit(lengths, numbers, room),
        PackBy::NextFit => next_fit(lengths, numbers, room),
    }
}

fn best_fit(lengths: &[u32], mut numbers: Vec<u32>, room: Room) -> Vec<Vec<u32>> {
    // Stable: of equal ones the first stays first.
    numbers.sort_by_key(|&number| std::cmp::Reverse(lengths[number as usize]));
    let mut packs: Vec<Vec<u32>> = Vec::new();
    // Those that are not full, by the tokens that they have room for.
    let mut open: BTreeSet<(u32, u32)> = BTreeSet::new();
    for number in numbers {
        let length = lengths[number as usize];
        let (left, pack) = match open.range((length, 0)..).next().copied() {
            Some(found) => {
                open.remove(&found);
                found
            }
            None => {
                packs.push(Vec::new());
                (room.tokens, packs.len() as u32 - 1)
            }
        };
        let sequences = &mut packs[pack as usize];
        sequences.push(number);
        if left > length && sequences.len() < room.sequences as usize {
            open.insert((left - length, pack));
        }
    }
    packs.iter_mut().for_each(|pack| pack.sort_unstable());
    packs
}

fn next_fit(lengths: &[u32], numbers: Vec<u32>, room: Room) -> Vec<Vec<u32>> {
    let mut packs: Vec<Vec<u32>> = Vec::new();
    let mut left = 0;
    for number in numbers {
        let length = lengths[number as usize];
        match packs.last_mut() {
            Some(pack) if left >= length && pack.len() < room.sequences as usize => {
                pack.push(number);
                left -= length;
            }
            _ => {
                packs.push(vec![number]);
                left = room.tokens - length;
            }
        }
    }
    packs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packs(lengths: &[u32], tokens: u32, sequences: u32, by: PackBy) -> Vec<Vec<u32>> {
        fill(lengths, Room { tokens, sequences }, by)
    }

    #[test]
    fn the_longest_come_first_and_each_into_the_fullest_pack() {
        // 7; 6; 4 + 6 = 10; 3 + 7 = 10; 2 begins a third, where 1 goes as well.
        let lengths = [3, 7, 2, 6, 4, 0, 1];
        assert_eq!(packs(&lengths, 10, 9, PackBy::BestFit), [vec![0, 1], vec![3, 4], vec![2, 6]]);
        assert_eq!(packs(&lengths, 10, 9, PackBy::NextFit), [vec![0, 1], vec![2, 3], vec![4, 6]]);
        // Where a pack has few sequences.
        assert_eq!(packs(&[1; 5], 10, 2, PackBy::BestFit), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(packs(&[1; 5], 10, 2, PackBy::NextFit), [vec![0, 1], vec![2, 3], vec![4]]);
        assert!(packs(&[0, 0], 10, 2, PackBy::BestFit).is_empty());
    }

    proptest! {
        #[test]
        fn each_sequence_is_in_one_pack_and_no_two_packs_could_be_one(
            lengths in prop::collection::vec(0_u32..=100, 0..200),
            sequences in 1_u32..20,
        ) {
            for by in [PackBy::BestFit, PackBy::NextFit] {
                let packs = packs(&lengths, 100, sequences, by);
                let mut found = packs.concat();
                found.sort_unstable();
                let expected: Vec<u32> =
                    (0..lengths.len() as u32).filter(|&at| lengths[at as usize] > 0).collect();
                prop_assert_eq!(found, expected);
                let tokens: Vec<u32> = packs
                    .iter()
                    .map(|pack| pack.iter().map(|&at| lengths[at as usize]).sum())
                    .collect();
                prop_assert!(tokens.iter().all(|&tokens| tokens <= 100));
                for (at, pack) in packs.iter().enumerate() {
                    prop_assert!(pack.len() <= sequences as usize && pack.is_sorted());
                    // A later pack was begun because its first sequence fitted in none before it.
                    let later = tokens.iter().zip(&packs).skip(at + 1);
                    let is_one = |(other, with): (&u32, &Vec<u32>)| {
                        tokens[at] + other <= 100 && pack.len() + with.len() <= sequences as usize
                    };
                    if by == PackBy::BestFit {
                        prop_assert!(!later.clone().any(is_one));
                    }
                }
            }
        }
    }
}
