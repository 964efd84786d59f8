//! What a trial has been given and has not released. Each answer is a hold of its own, also where several have
//! the same batch: a trial that asks for a batch again has two copies of it, and may drop either first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Answers that a trial may hold.
pub(super) const HELD_MAX: usize = 1024;
/// Batches that a trial may hold beyond those that are kept for all: what it has in hand and has asked for ahead.
pub(super) const HELD_BEYOND: u32 = 4;

/// The batches that a trial holds, by the questions that they answered.
#[derive(Debug)]
pub(super) struct Held<B> {
    batches: BTreeMap<u64, (u32, B)>,
    slots_max: usize,
}

// === impl Held ===

impl<B> Held<B> {
    /// Of a trial that may hold the batches of `slots_max` slots.
    pub(super) fn new(slots_max: usize) -> Self {
        Self { batches: BTreeMap::new(), slots_max }
    }

    /// Why one more, in this slot, is too much.
    pub(super) fn refusal(&self, slot: u32) -> Option<String> {
        let slots: BTreeSet<u32> = self.batches.values().map(|(slot, _)| *slot).collect();
        if self.batches.len() >= HELD_MAX {
            return Some(format!("it holds {HELD_MAX} batches: release some"));
        }
        let count = slots.len();
        (count >= self.slots_max && !slots.contains(&slot)).then(|| {
            format!("it holds {count} batches: release some, or raise receiver.host_batches")
        })
    }

    /// Holds a batch, which is in this slot, until the answer to this question is released.
    ///
    /// # Errors
    /// The answer to a question of the same number is held.
    pub(super) fn hold(&mut self, ask: u64, slot: u32, batch: B) -> io::Result<()> {
        match self.batches.insert(ask, (slot, batch)) {
            None => Ok(()),
            Some(_) => Err(wrong(format!("a trial has asked two questions of number {ask}"))),
        }
    }

    /// # Errors
    /// It is not held.
    pub(super) fn release(&mut self, ask: u64) -> io::Result<()> {
        match self.batches.remove(&ask) {
            Some(_) => Ok(()),
            None => Err(wrong(format!("a trial releases answer {ask}, which it does not hold"))),
        }
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_batch_that_answers_two_questions_is_held_until_both_are_released() {
        let batch = Arc::new(());
        let mut held = Held::new(1);
        held.hold(1, 5, Arc::clone(&batch)).expect("it is new");
        assert_eq!(held.refusal(5), None);
        held.hold(2, 5, Arc::clone(&batch)).expect("it is new");
        held.release(2).expect("it is held");
        assert_eq!(Arc::strong_count(&batch), 2);
        held.release(1).expect("it is held");
        assert_eq!(Arc::strong_count(&batch), 1);
    }

    #[test]
    fn no_more_is_held_than_may_be_and_nothing_is_released_twice() {
        let mut held = Held::new(2);
        for ask in 0..HELD_MAX as u64 {
            let slot = (ask % 2) as u32;
            assert_eq!(held.refusal(slot), None);
            held.hold(ask, slot, ()).expect("it is new");
        }
        assert!(held.refusal(0).is_some());
        let twice = held.hold(7, 1, ()).expect_err("there is one").to_string();
        assert_eq!(twice, "a trial has asked two questions of number 7");
        held.release(8).expect("it is held");
        assert_eq!(held.refusal(1), None);
        let again = held.release(8).expect_err("it is gone").to_string();
        assert_eq!(again, "a trial releases answer 8, which it does not hold");
    }

    #[test]
    fn one_trial_does_not_hold_the_slots_that_others_need() {
        let mut held = Held::new(2);
        held.hold(1, 7, ()).expect("it is new");
        held.hold(2, 8, ()).expect("it is new");
        let refusal = held.refusal(9).expect("it holds two");
        assert_eq!(refusal, "it holds 2 batches: release some, or raise receiver.host_batches");
        held.release(1).expect("it is held");
        assert_eq!(held.refusal(9), None);
    }
}
