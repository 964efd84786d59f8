//! Orders of corpora, made when they are needed and kept while there is room.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_megatron_order::CorpusOrder;

use crate::StorageError;

/// Most bytes of the orders that this process keeps, of all places.
pub(super) const BYTES_MAX: usize = 4 << 30;

/// Bytes of the orders that are kept, of all places.
static KEPT: Budget = Budget { taken: AtomicUsize::new(0), most: BYTES_MAX, turn: Mutex::new(()) };

#[derive(Debug)]
struct Budget {
    taken: AtomicUsize,
    most: usize,
    /// Whoever holds it may have an order that is not kept: one of them at a time, however large they are.
    turn: Mutex<()>,
}

/// An order, and the turn of those that are not kept.
#[derive(Debug)]
pub(super) struct Borrowed {
    order: Arc<CorpusOrder>,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Deref for Borrowed {
    type Target = CorpusOrder;

    fn deref(&self) -> &CorpusOrder {
        &self.order
    }
}

/// Orders by the numbers of their corpora. Whoever wants one that somebody makes waits for it.
///
/// What was made first stays: shards go through all corpora in turn, so that each order that makes room for another would
/// be wanted next.
#[derive(Debug)]
pub(super) struct Orders {
    of_corpora: Mutex<HashMap<u32, Arc<Mutex<Kept>>>>,
    budget: &'static Budget,
}

/// The order of a corpus, if it is kept, and the bytes that were taken for it. Who holds its lock makes it.
#[derive(Debug, Default)]
struct Kept(Option<Arc<CorpusOrder>>, usize);

/// Bytes of the budget, until dropped.
struct Taken<'a>(&'a Budget, usize);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(self.1, Ordering::Relaxed);
    }
}

// === impl Budget ===

impl Budget {
    /// Takes bytes, if there is room for them.
    fn take(&self, bytes: usize) -> bool {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.most {
            return true;
        }
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        false
    }
}

// === impl Orders ===

impl Default for Orders {
    fn default() -> Self {
        Self { of_corpora: Mutex::default(), budget: &KEPT }
    }
}

impl Orders {
    /// The order of a corpus, which has `bytes`: the one that is kept, or what `make` gives.
    ///
    /// # Errors
    /// As `make`; the next one who wants it tries again.
    pub(super) fn of(
        &self,
        corpus: u32,
        bytes: u64,
        make: impl FnOnce() -> Result<CorpusOrder, StorageError>,
    ) -> Result<Borrowed, StorageError> {
        let kept = {
            let mut all = self.of_corpora.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(corpus).or_default().clone()
        };
        // After a panic of whoever made it there is none.
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = &kept.0 {
            return Ok(Borrowed { order: order.clone(), _turn: None });
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if !self.budget.take(bytes) {
            // Others of this corpus need not wait for it: they wait for their turn, too.
            drop(kept);
            let turn = self.budget.turn.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(Borrowed { order: Arc::new(make()?), _turn: Some(turn) });
        }
        // Given back with an error, and where `make` panics.
        let taken = Taken(self.budget, bytes);
        let order = Arc::new(make()?);
        std::mem::forget(taken);
        *kept = Kept(Some(order.clone()), bytes);
        Ok(Borrowed { order, _turn: None })
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        let all = self.of_corpora.get_mut().unwrap_or_else(PoisonError::into_inner);
        for kept in all.values() {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            self.budget.taken.fetch_sub(kept.1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use headwater_megatron_order::CorpusSize;

    use super::*;

    fn order() -> CorpusOrder {
        let size = CorpusSize::new(4, 400, 16, true, None).unwrap();
        CorpusOrder::new(size, vec![100; 4], 1)
    }

    fn nothing() -> Result<CorpusOrder, StorageError> {
        Err(StorageError::EmptyFile { name: "c".to_owned() })
    }

    #[test]
    fn what_was_made_first_stays_and_its_room_is_free_with_its_place() {
        static SMALL: Budget =
            Budget { taken: AtomicUsize::new(0), most: 1000, turn: Mutex::new(()) };
        let one = order().size().order_bytes() as usize;
        let places = [(); 2].map(|()| Orders { of_corpora: Mutex::default(), budget: &SMALL });
        let fit = SMALL.most / one;
        for corpus in 0..fit as u32 + 2 {
            places[corpus as usize % 2].of(corpus, one as u64, || Ok(order())).unwrap();
        }
        assert_eq!(SMALL.taken.load(Ordering::Relaxed), fit * one);
        for corpus in 0..fit as u32 + 2 {
            let is_kept = places[corpus as usize % 2].of(corpus, one as u64, nothing).is_ok();
            assert_eq!(is_kept, corpus < fit as u32, "{corpus}");
        }
        drop(places);
        assert_eq!(SMALL.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn orders_that_are_not_kept_are_there_one_at_a_time() {
        static NONE: Budget = Budget { taken: AtomicUsize::new(0), most: 0, turn: Mutex::new(()) };
        let orders = Orders { of_corpora: Mutex::default(), budget: &NONE };
        let there = AtomicUsize::new(0);
        thread::scope(|scope| {
            for corpus in 0..8 {
                let (orders, there) = (&orders, &there);
                scope.spawn(move || {
                    let order = orders.of(corpus % 4, u64::MAX, || {
                        assert_eq!(there.fetch_add(1, Ordering::SeqCst), 0, "two of them");
                        Ok(order())
                    });
                    thread::yield_now();
                    there.fetch_sub(1, Ordering::SeqCst);
                    drop(order);
                });
            }
        });
        assert_eq!(NONE.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_order_is_made_once_and_an_error_is_not_kept() {
        // Tests beside this one have the room of `KEPT`.
        static OWN: Budget =
            Budget { taken: AtomicUsize::new(0), most: BYTES_MAX, turn: Mutex::new(()) };
        let orders = Orders { of_corpora: Mutex::default(), budget: &OWN };
        assert!(orders.of(7, 1, nothing).is_err());
        let panics = || orders.of(7, BYTES_MAX as u64, || panic!("another corpus")).map(drop);
        for _ in 0..2 {
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        }
        let made = orders.of(7, 1, || Ok(order())).unwrap();
        let again = orders.of(7, 1, nothing).unwrap();
        assert!(Arc::ptr_eq(&made.order, &again.order));
    }

    #[test]
    fn those_who_want_it_at_once_wait_for_one_that_makes_it() {
        let (orders, together, made) = (Orders::default(), Barrier::new(8), AtomicUsize::new(0));
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(order())
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    orders.of(3, 1, make).unwrap();
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }
}
