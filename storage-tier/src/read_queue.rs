//! How many reads are answered at the same time, and how many may wait for that.
//!
//! A limit on requests (tower's) would end with the head of an answer; this one holds until the
//! last block is made. Those who wait are let in in the order in which they came.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{StorageError, metrics};

/// Lets in `limit` reads at a time, keeps `waiting_limit` waiting, and refuses the rest.
#[derive(Clone, Debug)]
pub(crate) struct ReadQueue {
    limit: usize,
    waiting_limit: usize,
    /// One permit for each read that is answered.
    answering: Arc<Semaphore>,
    /// One permit for each read that is answered or waits.
    inside: Arc<Semaphore>,
}

/// Leave to answer one read; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    permits: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    queue: ReadQueue,
}

// === impl ReadQueue ===

impl ReadQueue {
    pub(crate) fn new(limit: usize, waiting_limit: usize) -> Self {
        Self {
            limit,
            waiting_limit,
            answering: Arc::new(Semaphore::new(limit)),
            inside: Arc::new(Semaphore::new(limit + waiting_limit)),
        }
    }

    /// Waits for its turn. Cancel-safe: whoever goes away leaves the queue.
    ///
    /// # Errors
    /// As many wait as may.
    pub(crate) async fn enter(&self) -> Result<ReadPermit, StorageError> {
        let overloaded = |_| StorageError::Overloaded { waiting: self.waiting_limit };
        let inside = self.inside.clone().try_acquire_owned().map_err(overloaded)?;
        self.report();
        let answering = self.answering.clone().acquire_owned().await;
        let answering = answering.map_err(|_| StorageError::Panic)?;
        self.report();
        Ok(ReadPermit { permits: Some((answering, inside)), queue: self.clone() })
    }

    fn report(&self) {
        let in_flight = self.limit - self.answering.available_permits();
        let inside = self.limit + self.waiting_limit - self.inside.available_permits();
        metrics::reads(in_flight, inside.saturating_sub(in_flight));
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        drop(self.permits.take());
        self.queue.report();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn so_many_are_let_in_so_many_wait_and_the_next_is_refused() {
        let queue = ReadQueue::new(1, 2);
        let first = queue.enter().await.unwrap();
        let mut second = Box::pin(queue.enter());
        let mut third = Box::pin(queue.enter());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        let error = queue.enter().now_or_never().expect("at once").unwrap_err();
        assert!(
            error.kind().is_retryable()
                && error.to_string().contains("(2, `storage.max_waiting_reads`)")
        );
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "in the order in which they came");
        let second = second.await.unwrap();
        drop(third);
        let mut fourth = Box::pin(queue.enter());
        assert!(fourth.as_mut().now_or_never().is_none(), "who went away leaves room");
        drop(second);
        fourth.await.unwrap();
    }
}
