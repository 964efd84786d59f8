//! Orders of corpora, made when they are needed and kept while there is room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_megatron_order::CorpusOrder;

use crate::StorageError;

/// Most bytes of the orders of one place, unless a single one has more.
const BYTES_MAX: usize = 4 << 30;

/// Orders by the numbers of their corpora. Without room for another, those go that were used longest ago.
#[derive(Debug, Default)]
pub(super) struct Orders(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Each with the time at which it was used last.
    orders: HashMap<u32, (Arc<CorpusOrder>, u64)>,
    bytes: usize,
    time: u64,
}

// === impl Orders ===

impl Orders {
    /// The order of a corpus: the one that is kept, or what `make` gives.
    ///
    /// # Errors
    /// As `make`.
    pub(super) fn of(
        &self,
        corpus: u32,
        make: impl FnOnce() -> Result<CorpusOrder, StorageError>,
    ) -> Result<Arc<CorpusOrder>, StorageError> {
        if let Some(order) = self.with(|kept| kept.of(corpus)) {
            return Ok(order);
        }
        // Not under the lock: it waits for files. Two that make the same one at once make equal ones.
        let order = Arc::new(make()?);
        self.with(|kept| kept.keep(corpus, order.clone()));
        Ok(order)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> T {
        // No panic can happen while the lock is held.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Kept ===

impl Kept {
    fn of(&mut self, corpus: u32) -> Option<Arc<CorpusOrder>> {
        self.time += 1;
        let (order, used) = self.orders.get_mut(&corpus)?;
        *used = self.time;
        Some(order.clone())
    }

    fn keep(&mut self, corpus: u32, order: Arc<CorpusOrder>) {
        self.keep_within(BYTES_MAX, corpus, order);
    }

    fn keep_within(&mut self, bytes_max: usize, corpus: u32, order: Arc<CorpusOrder>) {
        self.time += 1;
        self.bytes += order.bytes();
        if let Some((before, _)) = self.orders.insert(corpus, (order, self.time)) {
            self.bytes -= before.bytes();
        }
        while self.bytes > bytes_max && self.orders.len() > 1 {
            let oldest = self.orders.iter().min_by_key(|(_, (_, used))| used);
            let oldest = *oldest.expect("there are two").0;
            let removed = self.orders.remove(&oldest);
            self.bytes -= removed.map_or(0, |(order, _)| order.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_megatron_order::CorpusSize;

    use super::*;

    fn order() -> CorpusOrder {
        CorpusOrder::new(CorpusSize::new(4, 400, 16, true, None), vec![100; 4], 1)
    }

    #[test]
    fn the_order_that_was_used_longest_ago_goes() {
        let mut kept = Kept::default();
        let one = order().bytes();
        for corpus in 0..3 {
            kept.keep_within(3 * one, corpus, Arc::new(order()));
        }
        assert!(kept.of(0).is_some());
        kept.keep_within(3 * one, 3, Arc::new(order()));
        let there: Vec<_> = (0..4).filter(|&corpus| kept.of(corpus).is_some()).collect();
        assert_eq!((there, kept.bytes), (vec![0, 2, 3], 3 * one));
        kept.keep_within(1, 3, Arc::new(order()));
        assert_eq!((kept.orders.len(), kept.bytes), (1, one), "the newest always stays");
    }

    #[test]
    fn an_order_is_made_once_and_an_error_is_not_kept() {
        let orders = Orders::default();
        let name = || "c".to_owned();
        let failed = orders.of(7, || Err(StorageError::EmptyFile { name: name() }));
        assert!(failed.is_err());
        let made = orders.of(7, || Ok(order())).unwrap();
        let again = orders.of(7, || Err(StorageError::EmptyFile { name: name() })).unwrap();
        assert!(Arc::ptr_eq(&made, &again));
    }
}
