//! What a trial has been given and has not released. Each answer is a hold of its own, also where several have
//! the same batch: a trial that asks for a batch again has two copies of it, and may drop either first.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::batch::HELD_MAX;
use crate::driver::ASKS_AHEAD;

/// Batches that trials may hold beyond as many as are kept for all.
pub(super) const HELD_BEYOND: u32 = 4;
/// Batches that a trial with a reserve may hold whatever others hold: the one in hand while the next one is taken, that
/// one, and those that it asks for ahead.
pub(super) const HELD_ALWAYS: usize = ASKS_AHEAD + 2;
/// Trials that have a reserve at a time.
pub(super) const RESERVES_MAX: usize = 32;

/// Slots that are held, with the number of answers in each.
#[derive(Debug, Default)]
struct HeldSlots(BTreeMap<u32, usize>);

/// What all trials hold, and may hold.
#[derive(Debug)]
pub(super) struct HeldByAll {
    slots: HeldSlots,
    /// Slots that any trial may take.
    shared_max: usize,
    /// Reserves that no trial has.
    reserves: usize,
}

/// The batches that a trial holds, by the questions that they answered.
#[derive(Debug)]
pub(super) struct Held<B> {
    batches: BTreeMap<u64, (u32, B)>,
    slots: HeldSlots,
    all: Arc<Mutex<HeldByAll>>,
    has_reserve: bool,
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

// === impl HeldByAll ===

impl HeldByAll {
    /// Of trials that may hold the batches of `shared_max` slots together. `reserves` of the trials may
    /// hold [`HELD_ALWAYS`] each beside these.
    pub(super) fn new(shared_max: usize, reserves: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { slots: HeldSlots::default(), shared_max, reserves }))
    }
}

/// Maximum slots that are held where `shared_max` are shared and `reserves` trials have a reserve.
pub(super) fn held_max(shared_max: usize, reserves: usize) -> usize {
    shared_max + reserves * HELD_ALWAYS
}

fn lock(all: &Mutex<HeldByAll>) -> MutexGuard<'_, HeldByAll> {
    // Every change is complete before anything can panic.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Held ===

impl<B> Held<B> {
    /// Of one more trial. It has a reserve if one is left.
    pub(super) fn new(all: Arc<Mutex<HeldByAll>>) -> Self {
        let mut of_all = lock(&all);
        let has_reserve = of_all.reserves > 0;
        of_all.reserves -= usize::from(has_reserve);
        drop(of_all);
        Self { batches: BTreeMap::new(), slots: HeldSlots::default(), all, has_reserve }
    }

    /// Why one more, in this slot, is too much.
    fn refusal(&self, slot: u32, all: &HeldByAll) -> Option<String> {
        if self.batches.len() >= HELD_MAX {
            return Some(format!("it holds {HELD_MAX} batches: release some"));
        }
        let always = if self.has_reserve { HELD_ALWAYS } else { 0 };
        let is_full = self.slots.is_full(slot, always) && all.slots.is_full(slot, all.shared_max);
        is_full.then(|| {
            let (own, all) = (self.slots.0.len(), all.slots.0.len());
            let who = if self.has_reserve { "" } else { " and has no reserve, as others have all" };
            format!(
                "it holds {own} batches of {all}{who}: release some, or raise receiver.host_batches"
            )
        })
    }

    /// Holds a batch, which is in this slot, until the answer to this question is released. `Err`: that is too much,
    /// for the reason that is given.
    ///
    /// # Errors
    /// The answer to a question of the same number is held.
    pub(super) fn hold(&mut self, ask: u64, slot: u32, batch: B) -> io::Result<Result<(), String>> {
        if self.batches.contains_key(&ask) {
            return Err(wrong(format!("a trial has asked two questions of number {ask}")));
        }
        // Until it is held: another trial may be given the last slot meanwhile.
        let mut all = lock(&self.all);
        if let Some(reason) = self.refusal(slot, &all) {
            return Ok(Err(reason));
        }
        all.slots.add(slot);
        self.slots.add(slot);
        self.batches.insert(ask, (slot, batch));
        Ok(Ok(()))
    }

    /// # Errors
    /// It is not held.
    pub(super) fn release(&mut self, ask: u64) -> io::Result<()> {
        let Some((slot, _)) = self.batches.remove(&ask) else {
            return Err(wrong(format!("a trial releases answer {ask}, which it does not hold")));
        };
        self.slots.remove(slot);
        lock(&self.all).slots.remove(slot);
        Ok(())
    }
}

impl<B> Drop for Held<B> {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        all.reserves += usize::from(self.has_reserve);
        self.batches.values().for_each(|(slot, _)| all.slots.remove(*slot));
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held<B>(shared_max: usize) -> Held<B> {
        Held::new(HeldByAll::new(shared_max, 1))
    }

    /// Holds the batch of a slot by a question of the same number, or says why not.
    fn hold(held: &mut Held<()>, slot: u32) -> Result<(), String> {
        held.hold(slot.into(), slot, ()).expect("it is new")
    }

    #[test]
    fn a_batch_that_answers_two_questions_is_held_until_both_are_released() {
        let batch = Arc::new(());
        let mut held = held(1);
        for ask in [1, 2] {
            assert_eq!(held.hold(ask, 5, Arc::clone(&batch)).expect("it is new"), Ok(()));
        }
        held.release(2).expect("it is held");
        assert_eq!(Arc::strong_count(&batch), 2);
        held.release(1).expect("it is held");
        assert_eq!(Arc::strong_count(&batch), 1);
    }

    #[test]
    fn no_more_is_held_than_may_be_and_nothing_is_released_twice() {
        let mut held = held(2);
        let most = HELD_MAX as u64;
        let hold = |held: &mut Held<()>, ask: u64| held.hold(ask, (ask % 2) as u32, ());
        for ask in 0..most {
            assert_eq!(hold(&mut held, ask).expect("it is new"), Ok(()));
        }
        assert!(hold(&mut held, most).expect("it is new").is_err());
        let twice = hold(&mut held, 7).expect_err("there is one").to_string();
        assert_eq!(twice, "a trial has asked two questions of number 7");
        held.release(8).expect("it is held");
        let again = held.release(8).expect_err("it is gone").to_string();
        assert_eq!(again, "a trial releases answer 8, which it does not hold");
        assert_eq!(hold(&mut held, most).expect("it is new"), Ok(()));
    }

    #[test]
    fn trials_that_keep_batches_do_not_hold_the_slots_that_others_need() {
        let all = HeldByAll::new(5, 2);
        let [mut first, mut second] = [0; 2].map(|_| Held::new(Arc::clone(&all)));
        (0..5).for_each(|slot| assert_eq!(hold(&mut first, slot), Ok(())));
        let refusal = "it holds 5 batches of 5: release some, or raise receiver.host_batches";
        assert_eq!(hold(&mut first, 5), Err(refusal.to_owned()));
        for slot in 5..9 {
            assert_eq!(hold(&mut second, slot), Ok(()), "it needs as many at any time");
        }
        assert!(hold(&mut second, 9).is_err_and(|why| why.contains("4 batches of 9")));
        assert_eq!(hold(&mut second, 4), Ok(()), "that slot is held anyway");
        first.release(3).expect("it is held");
        assert!(hold(&mut second, 9).is_err_and(|why| why.contains("5 batches of 8")));
        drop(first);
        assert!(hold(&mut second, 9).is_err_and(|why| why.contains("5 batches of 5")));
        second.release(4).expect("it is held");
        assert_eq!(hold(&mut second, 9), Ok(()));
    }

    #[test]
    fn every_trial_with_a_reserve_holds_as_many_as_it_needs_and_all_together_no_more_than_there_are()
     {
        let (shared, reserves) = (6, 3);
        let all = HeldByAll::new(shared, reserves);
        let trials = [0; 5].map(|_| Held::new(Arc::clone(&all)));
        let (mut next, mut kept) = (0, Vec::new());
        for mut trial in trials {
            let before = next;
            while hold(&mut trial, next).is_ok() {
                next += 1;
            }
            kept.push((next - before, trial));
        }
        let counts: Vec<u32> = kept.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, [6, 4, 4, 0, 0]);
        assert!(next as usize <= held_max(shared, reserves));
        let (_, last) = kept.last_mut().expect("a trial");
        let why = hold(last, next).expect_err("all is held");
        assert!(why.starts_with("it holds 0 batches of 14 and has no reserve"), "{why}");
        assert_eq!(hold(last, 0), Ok(()), "that slot is held anyway");
        kept.remove(1);
        let mut another = Held::new(Arc::clone(&all));
        (0..4).for_each(|slot| assert_eq!(hold(&mut another, next + slot), Ok(())));
        assert!(hold(&mut another, next + 4).is_err(), "it has the reserve of one that is gone");
    }
}
