//! Batches of one group each.
//!
//! The row is gone through once. Each group has a batch that is open; a number goes to the batch of its group, and a
//! batch that is full comes next. Batches that are still open at the end come after all full ones: the largest first
//! and, between equal ones, the smaller group first.

use std::collections::BTreeMap;

/// How many batches each row makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct BatchLengths {
    global_batch: u64,
    rows: Vec<RowLengths>,
    world_size: u32,
    /// Batches of all rows before each one: the full ones, with those short ones that have a sample for each
    /// rank, and with all short ones. One longer than there are rows.
    full_before: Vec<u64>,
    made_before: Vec<u64>,
    all_before: Vec<u64>,
}

/// The batches of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowLengths {
    /// Full batches.
    pub(super) full: u64,
    /// Samples of the batches after them, falling.
    pub(super) short: Vec<u64>,
}

// === impl BatchLengths ===

impl BatchLengths {
    pub(super) fn new(global_batch: u64, world_size: u32, rows: Vec<RowLengths>) -> Self {
        let before = |batches: &dyn Fn(&RowLengths) -> u64| {
            let so_far = rows.iter().scan(0, |so_far, row| {
                *so_far += batches(row);
                Some(*so_far)
            });
            std::iter::once(0).chain(so_far).collect()
        };
        let full_before = before(&|row| row.full);
        let made_before = before(&|row| row.steps(true, world_size));
        let all_before = before(&|row| row.full + row.short.len() as u64);
        Self { global_batch, world_size, rows, full_before, made_before, all_before }
    }

    pub(super) fn rows(&self) -> &[RowLengths] {
        &self.rows
    }

    fn row(&self, epoch: u32) -> &RowLengths {
        &self.rows[epoch as usize % self.rows.len()]
    }

    /// Steps of an epoch; with `short`, those short batches too that have a sample for each rank.
    pub(in super::super) fn steps(&self, epoch: u32, short: bool) -> u64 {
        self.row(epoch).steps(short, self.world_size)
    }

    /// Steps of all epochs before.
    pub(in super::super) fn steps_before(&self, epoch: u32, short: bool) -> u64 {
        self.rounds(epoch, if short { &self.made_before } else { &self.full_before })
    }

    /// As [`BatchLengths::steps_before`], but with `short` every short batch counts, whatever the number of ranks.
    pub(in super::super) fn all_before(&self, epoch: u32, short: bool) -> u64 {
        self.rounds(epoch, if short { &self.all_before } else { &self.full_before })
    }

    /// What was counted up to each row, up to an epoch: the rows come again and again.
    fn rounds(&self, epoch: u32, before: &[u64]) -> u64 {
        let (rounds, row) =
            (u64::from(epoch) / self.rows.len() as u64, epoch as usize % self.rows.len());
        rounds * before[self.rows.len()] + before[row]
    }

    /// Samples of the epoch before a step.
    pub(in super::super) fn position(&self, epoch: u32, step: u64) -> u64 {
        let row = self.row(epoch);
        let short = step.saturating_sub(row.full) as usize;
        step.min(row.full) * self.global_batch + row.short.iter().take(short).sum::<u64>()
    }

    /// Samples of a step over all ranks.
    pub(in super::super) fn batch_len(&self, epoch: u32, step: u64) -> u64 {
        let row = self.row(epoch);
        let short = step.checked_sub(row.full).map(|short| row.short.get(short as usize));
        short.map_or(self.global_batch, |short| short.copied().unwrap_or(0))
    }
}

// === impl RowLengths ===

impl RowLengths {
    /// Steps; with `short`, those short batches too that have a sample for each rank.
    pub(super) fn steps(&self, short: bool, world_size: u32) -> u64 {
        let is_shared = |&&samples: &&u64| samples >= u64::from(world_size);
        self.full + if short { self.short.iter().filter(is_shared).count() as u64 } else { 0 }
    }
}

/// The number of batches that a row with these groups makes.
pub(super) fn lengths(groups: &[u32], global_batch: u64) -> RowLengths {
    let mut open: BTreeMap<u32, u64> = BTreeMap::new();
    groups.iter().for_each(|&group| *open.entry(group).or_default() += 1);
    let full = open.values().map(|samples| samples / global_batch).sum();
    let mut short: Vec<u64> = open.into_values().map(|samples| samples % global_batch).collect();
    short.retain(|&samples| samples > 0);
    short.sort_unstable_by(|one, other| other.cmp(one));
    RowLengths { full, short }
}

/// The places of a row, in the order in which its batches come.
pub(super) fn arranged(groups: &[u32], global_batch: u64) -> Vec<u32> {
    let mut open: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut places = Vec::with_capacity(groups.len());
    for (place, &group) in (0u32..).zip(groups) {
        let batch = open.entry(group).or_default();
        batch.push(place);
        if batch.len() as u64 == global_batch {
            places.append(batch);
        }
    }
    let mut left: Vec<Vec<u32>> = open.into_values().collect();
    // Stable: of equal ones the smaller group stays first.
    left.sort_by_key(|batch| std::cmp::Reverse(batch.len()));
    places.extend(left.into_iter().flatten());
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, batch by batch.
    fn plain(groups: &[u32], global_batch: usize) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
        let mut full: Vec<Vec<u32>> = Vec::new();
        let mut open: Vec<(u32, Vec<u32>)> = Vec::new();
        for (place, &group) in groups.iter().enumerate() {
            if !open.iter().any(|(of, _)| *of == group) {
                open.push((group, Vec::new()));
            }
            let batch = &mut open.iter_mut().find(|(of, _)| *of == group).unwrap().1;
            batch.push(place as u32);
            if batch.len() == global_batch {
                full.push(std::mem::take(batch));
            }
        }
        open.sort_by_key(|(group, batch)| (usize::MAX - batch.len(), *group));
        let short = open.into_iter().map(|(_, batch)| batch).filter(|batch| !batch.is_empty());
        (full, short.collect())
    }

    proptest! {
        #[test]
        fn batches_are_those_of_the_definition(
            rows in prop::collection::vec(prop::collection::vec(0_u32..5, 30), 1..4),
            global_batch in 1_u64..9,
            world_size in 1_u32..5,
        ) {
            let made = rows.iter().map(|groups| lengths(groups, global_batch)).collect();
            let lengths = BatchLengths::new(global_batch, world_size, made);
            let (mut full_before, mut made_before, mut all_before) = (0, 0, 0);
            for epoch in 0..2 * rows.len() as u32 {
                let groups = &rows[epoch as usize % rows.len()];
                let (full, short) = plain(groups, global_batch as usize);
                let all: Vec<Vec<u32>> = full.iter().chain(&short).cloned().collect();
                prop_assert_eq!(arranged(groups, global_batch), all.concat());
                let shared = short.iter().filter(|batch| batch.len() >= world_size as usize).count();
                prop_assert_eq!(lengths.steps(epoch, false), full.len() as u64);
                prop_assert_eq!(lengths.steps(epoch, true), (full.len() + shared) as u64);
                prop_assert_eq!(lengths.steps_before(epoch, false), full_before);
                prop_assert_eq!(lengths.steps_before(epoch, true), made_before);
                prop_assert_eq!(lengths.all_before(epoch, false), full_before);
                prop_assert_eq!(lengths.all_before(epoch, true), all_before);
                full_before += full.len() as u64;
                made_before += (full.len() + shared) as u64;
                all_before += all.len() as u64;
                let mut position = 0;
                for (step, batch) in all.iter().enumerate() {
                    let of = &groups[batch[0] as usize];
                    prop_assert!(batch.iter().all(|&place| groups[place as usize] == *of));
                    prop_assert_eq!(lengths.position(epoch, step as u64), position);
                    prop_assert_eq!(lengths.batch_len(epoch, step as u64), batch.len() as u64);
                    position += batch.len() as u64;
                }
                prop_assert_eq!(lengths.position(epoch, all.len() as u64), 30);
            }
        }
    }
}
