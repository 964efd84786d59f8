//! What a trial has been given and has not released. Each answer is a hold of its own, also where several have
//! the same batch: a trial that asks for a batch again has two copies of it, and may drop either first.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::batch::HELD_MAX;
use crate::driver::ASKS_AHEAD;

/// Batches that trials may hold beyond as many as are kept for all.
pub(super) const HELD_BEYOND: u32 = 4;
/// Batches that a trial may hold whatever others hold: the one in hand, and those that it asks for ahead.
pub(super) const HELD_ALWAYS: usize = ASKS_AHEAD + 1;

/// Slots that are held, with the number of answers in each.
#[derive(Debug, Default)]
pub(super) struct HeldSlots(BTreeMap<u32, usize>);

/// The batches that a trial holds, by the questions that they answered.
#[derive(Debug)]
pub(super) struct Held<B> {
    batches: BTreeMap<u64, (u32, B)>,
    slots: HeldSlots,
    /// Those of all trials.
    all: Arc<Mutex<HeldSlots>>,
    slots_max: usize,
}

// === impl HeldSlots ===

impl HeldSlots {
    fn add(&mut self, slot: u32) {
        *self.0.entry(slot).or_default() += 1;
    }

    fn remove(&mut self, slot: u32) {
        let Some(answers) = self.0.get_mut(&slot) else { return };
        *answers -= 1;
        if *answers == 0 {
            self.0.remove(&slot);
        }
    }

    /// Whether one more answer, in this slot, makes more than `most` slots.
    fn is_full(&self, slot: u32, most: usize) -> bool {
        self.0.len() >= most && !self.0.contains_key(&slot)
    }
}

// === impl Held ===

impl<B> Held<B> {
    /// Of a trial which, together with `all` others, may hold the batches of `slots_max` slots.
    pub(super) fn new(slots_max: usize, all: Arc<Mutex<HeldSlots>>) -> Self {
        Self { batches: BTreeMap::new(), slots: HeldSlots::default(), all, slots_max }
    }

    fn all(&self) -> MutexGuard<'_, HeldSlots> {
        // Every change is complete before anything can panic.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why one more, in this slot, is too much.
    pub(super) fn refusal(&self, slot: u32) -> Option<String> {
        if self.batches.len() >= HELD_MAX {
            return Some(format!("it holds {HELD_MAX} batches: release some"));
        }
        let all = self.all();
        let is_full = self.slots.is_full(slot, HELD_ALWAYS) && all.is_full(slot, self.slots_max);
        is_full.then(|| {
            let (own, all) = (self.slots.0.len(), all.0.len());
            format!("it holds {own} batches of {all}: release some, or raise receiver.host_batches")
        })
    }

    /// Holds a batch, which is in this slot, until the answer to this question is released.
    ///
    /// # Errors
    /// The answer to a question of the same number is held.
    pub(super) fn hold(&mut self, ask: u64, slot: u32, batch: B) -> io::Result<()> {
        self.slots.add(slot);
        self.all().add(slot);
        match self.batches.insert(ask, (slot, batch)) {
            None => Ok(()),
            Some((before, _)) => {
                self.forget(before);
                Err(wrong(format!("a trial has asked two questions of number {ask}")))
            }
        }
    }

    /// # Errors
    /// It is not held.
    pub(super) fn release(&mut self, ask: u64) -> io::Result<()> {
        let Some((slot, _)) = self.batches.remove(&ask) else {
            return Err(wrong(format!("a trial releases answer {ask}, which it does not hold")));
        };
        self.forget(slot);
        Ok(())
    }

    fn forget(&mut self, slot: u32) {
        self.slots.remove(slot);
        self.all().remove(slot);
    }
}

impl<B> Drop for Held<B> {
    fn drop(&mut self) {
        let mut all = self.all();
        self.batches.values().for_each(|(slot, _)| all.remove(*slot));
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held<B>(slots_max: usize) -> Held<B> {
        Held::new(slots_max, Arc::default())
    }

    #[test]
    fn a_batch_that_answers_two_questions_is_held_until_both_are_released() {
        let batch = Arc::new(());
        let mut held = held(1);
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
        let mut held = held(2);
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
    fn trials_that_keep_batches_do_not_hold_the_slots_that_others_need() {
        let all = Arc::default();
        let [mut first, mut second] = [0; 2].map(|_| Held::new(5, Arc::clone(&all)));
        for slot in 0..5 {
            assert_eq!(first.refusal(slot), None);
            first.hold(slot.into(), slot, ()).expect("it is new");
        }
        let refusal = first.refusal(5).expect("it holds five");
        assert_eq!(
            refusal,
            "it holds 5 batches of 5: release some, or raise receiver.host_batches"
        );
        for slot in 5..8 {
            assert_eq!(second.refusal(slot), None, "it needs as many at any time");
            second.hold(slot.into(), slot, ()).expect("it is new");
        }
        assert!(second.refusal(8).is_some_and(|why| why.contains("3 batches of 8")));
        assert_eq!(second.refusal(4), None, "that slot is held anyway");
        first.release(4).expect("it is held");
        assert!(second.refusal(8).is_some_and(|why| why.contains("3 batches of 7")));
        drop(first);
        assert_eq!(second.refusal(8), None);
    }
}
