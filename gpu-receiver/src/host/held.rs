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
/// one, those that it asks for ahead, and as many that it asked for before it went elsewhere.
pub(super) const HELD_ALWAYS: usize = 2 * ASKS_AHEAD + 2;
/// Trials that have a reserve at a time.
pub(super) const RESERVES_MAX: usize = 32;

/// Slots that are held, with the number of answers in each.
#[derive(Debug, Default)]
struct HeldSlots(BTreeMap<u32, usize>);

/// What all trials may hold beside their reserves.
#[derive(Debug)]
pub(super) struct HeldByAll {
    /// Slots that trials hold beyond their reserves, each counted once for each trial.
    slots: HeldSlots,
    shared_max: usize,
    /// Reserves that no trial has.
    reserves: usize,
}

/// The batches that a trial holds, by the questions that they answered. A slot counts in its reserve or among those that
/// are shared, and there until it is released, whoever else holds it: so all hold no more than there are.
#[derive(Debug)]
pub(super) struct Held<B> {
    batches: BTreeMap<u64, (u32, B)>,
    /// Slots that count in the reserve.
    own: HeldSlots,
    /// Slots that count among those that are shared.
    beyond: HeldSlots,
    all: Arc<Mutex<HeldByAll>>,
    has_reserve: bool,
}

// === impl HeldSlots ===

impl HeldSlots {
    fn add(&mut self, slot: u32, answers: usize) {
        *self.0.entry(slot).or_default() += answers;
    }

    /// Removes an answer. Returns whether the slot is held still.
    fn remove(&mut self, slot: u32) -> bool {
        let Some(answers) = self.0.get_mut(&slot) else { return false };
        *answers -= 1;
        if *answers > 0 {
            return true;
        }
        self.0.remove(&slot);
        false
    }

    fn has(&self, slot: u32) -> bool {
        self.0.contains_key(&slot)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

// === impl HeldByAll ===

impl HeldByAll {
    /// Of trials that may hold the batches of `shared_max` slots together. `reserves` of the trials may
    /// hold [`HELD_ALWAYS`] each beside these.
    pub(super) fn new(shared_max: usize, reserves: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { slots: HeldSlots::default(), shared_max, reserves }))
    }

    fn has_room(&self, slot: u32) -> bool {
        self.slots.has(slot) || self.slots.len() < self.shared_max
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
    /// Of one more trial. It has a reserve once it holds anything, and one is left.
    pub(super) fn new(all: Arc<Mutex<HeldByAll>>) -> Self {
        let (own, beyond) = (HeldSlots::default(), HeldSlots::default());
        Self { batches: BTreeMap::new(), own, beyond, all, has_reserve: false }
    }

    /// Why one more is too much.
    fn refusal(&self, all: &HeldByAll) -> String {
        let (own, shared) = (self.own.len() + self.beyond.len(), all.slots.len());
        let who = if self.has_reserve { "" } else { ", has no reserve, as others have all," };
        format!(
            "it holds {own} batches{who} and trials have {shared} of {} that they share: release some, or raise \
             receiver.host_batches",
            all.shared_max
        )
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
        if self.batches.len() >= HELD_MAX {
            return Ok(Err(format!("it holds {HELD_MAX} batches: release some")));
        }
        // Until it is held: another trial may be given the last slot meanwhile.
        let all = Arc::clone(&self.all);
        let mut all = lock(&all);
        if !self.has_reserve && all.reserves > 0 {
            all.reserves -= 1;
            self.has_reserve = true;
            self.fill_reserve(&mut all);
        }
        if self.own.has(slot) || (!self.beyond.has(slot) && self.has_room()) {
            self.own.add(slot, 1);
        } else if all.has_room(slot) {
            if !self.beyond.has(slot) {
                all.slots.add(slot, 1);
            }
            self.beyond.add(slot, 1);
        } else {
            return Ok(Err(self.refusal(&all)));
        }
        self.batches.insert(ask, (slot, batch));
        Ok(Ok(()))
    }

    /// Whether the reserve has room for one more slot.
    fn has_room(&self) -> bool {
        self.has_reserve && self.own.len() < HELD_ALWAYS
    }

    /// Leaves to others what the reserve has room for.
    fn fill_reserve(&mut self, all: &mut HeldByAll) {
        while self.has_room()
            && let Some((slot, answers)) = self.beyond.0.pop_first()
        {
            self.own.add(slot, answers);
            all.slots.remove(slot);
        }
    }

    /// # Errors
    /// It is not held.
    pub(super) fn release(&mut self, ask: u64) -> io::Result<()> {
        // In a name of its own: it is let go of after it is uncounted, or its slot would be another's meanwhile.
        let Some((slot, _batch)) = self.batches.remove(&ask) else {
            return Err(wrong(format!("a trial releases answer {ask}, which it does not hold")));
        };
        let all = Arc::clone(&self.all);
        let mut all = lock(&all);
        if self.own.has(slot) {
            self.own.remove(slot);
            self.fill_reserve(&mut all);
        } else if !self.beyond.remove(slot) {
            all.slots.remove(slot);
        }
        Ok(())
    }
}

impl<B> Drop for Held<B> {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        all.reserves += usize::from(self.has_reserve);
        for &slot in self.beyond.0.keys() {
            all.slots.remove(slot);
        }
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

    const OWN: u32 = HELD_ALWAYS as u32;

    /// Holds slots from one on until that is too much; returns how many.
    fn hold_all(held: &mut Held<()>, from: u32) -> u32 {
        (from..).take_while(|&slot| hold(held, slot).is_ok()).count() as u32
    }

    #[test]
    fn trials_that_keep_batches_do_not_hold_the_slots_that_others_need() {
        let all = HeldByAll::new(5, 2);
        let [mut first, mut second] = [0; 2].map(|_| Held::new(Arc::clone(&all)));
        assert_eq!(hold_all(&mut first, 0), OWN + 5);
        let refusal = format!(
            "it holds {} batches and trials have 5 of 5 that they share: release some, or raise receiver.host_batches",
            OWN + 5
        );
        assert_eq!(hold(&mut first, 100), Err(refusal));
        assert_eq!(hold_all(&mut second, 100), OWN, "it needs as many at any time");
        assert_eq!(hold(&mut second, OWN + 1), Ok(()), "trials share that slot");
        assert!(hold(&mut second, 0).is_err(), "that slot is in the reserve of one that may go");
        first.release(3).expect("it is held");
        assert_eq!(hold(&mut second, 200), Ok(()), "one that was shared is in the reserve now");
        drop(first);
        assert_eq!(hold_all(&mut second, 300), 3);
    }

    #[test]
    fn a_batch_that_two_hold_is_counted_whoever_releases_it_first() {
        let (shared, reserves) = (4, 2);
        let all = HeldByAll::new(shared, reserves);
        let [mut first, mut second] = [0; 2].map(|_| Held::new(Arc::clone(&all)));
        let mut held = std::collections::BTreeSet::new();
        // One takes what the other has, and the other leaves it for new ones, again and again.
        for round in 0..10 {
            for slot in round * 10..(round + 1) * 10 {
                if hold(&mut first, slot).is_ok() {
                    held.insert(slot);
                    let _ = hold(&mut second, slot);
                }
            }
            let left: Vec<u64> = first.batches.keys().copied().collect();
            left.into_iter().for_each(|ask| first.release(ask).expect("it is held"));
            held.retain(|&slot| second.batches.contains_key(&u64::from(slot)));
            assert!(held.len() <= held_max(shared, 1), "{held:?}");
        }
        assert_eq!(hold_all(&mut first, 1000), OWN);
    }

    #[test]
    fn every_trial_with_a_reserve_holds_as_many_as_it_needs_and_all_together_no_more_than_there_are()
     {
        let (shared, reserves) = (6, 3);
        let all = HeldByAll::new(shared, reserves);
        let trials = [0; 5].map(|_| Held::new(Arc::clone(&all)));
        let (mut next, mut kept) = (0, Vec::new());
        for mut trial in trials {
            let count = hold_all(&mut trial, next);
            next += count;
            kept.push((count, trial));
        }
        let counts: Vec<u32> = kept.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, [OWN + 6, OWN, OWN, 0, 0]);
        assert_eq!(next as usize, held_max(shared, reserves));
        let (_, last) = kept.last_mut().expect("a trial");
        let why = hold(last, next).expect_err("all is held");
        assert!(why.starts_with("it holds 0 batches, has no reserve"), "{why}");
        assert_eq!(hold(last, OWN), Ok(()), "trials share that slot");
        kept.remove(1);
        let (_, last) = kept.last_mut().expect("a trial");
        assert_eq!(hold_all(last, next), OWN - 1, "it has the reserve of one that is gone");
    }
}
