//! What a trial has been given and has not released. Each answer is a hold of its own, also where several have
//! the same batch: a trial that asks for a batch again has two copies of it, and may drop either first.

use std::collections::BTreeMap;
use std::io;

/// Answers that a trial may hold.
pub(super) const HELD_MAX: usize = 1024;

/// The batches that a trial holds, by the questions that they answered.
#[derive(Debug)]
pub(super) struct Held<B> {
    batches: BTreeMap<u64, B>,
}

// === impl Held ===

impl<B> Held<B> {
    pub(super) fn new() -> Self {
        Self { batches: BTreeMap::new() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.batches.len() >= HELD_MAX
    }

    /// Holds a batch until the answer to this question is released.
    ///
    /// # Errors
    /// The answer to a question of the same number is held.
    pub(super) fn hold(&mut self, ask: u64, batch: B) -> io::Result<()> {
        match self.batches.insert(ask, batch) {
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
        let mut held = Held::new();
        held.hold(1, Arc::clone(&batch)).expect("it is new");
        held.hold(2, Arc::clone(&batch)).expect("it is new");
        held.release(2).expect("it is held");
        assert_eq!(Arc::strong_count(&batch), 2);
        held.release(1).expect("it is held");
        assert_eq!(Arc::strong_count(&batch), 1);
    }

    #[test]
    fn no_more_is_held_than_may_be_and_nothing_is_released_twice() {
        let mut held = Held::new();
        for ask in 0..HELD_MAX as u64 {
            assert!(!held.is_full());
            held.hold(ask, ()).expect("it is new");
        }
        assert!(held.is_full());
        let twice = held.hold(7, ()).expect_err("there is one").to_string();
        assert_eq!(twice, "a trial has asked two questions of number 7");
        held.release(8).expect("it is held");
        assert!(!held.is_full());
        let again = held.release(8).expect_err("it is gone").to_string();
        assert_eq!(again, "a trial releases answer 8, which it does not hold");
    }
}
