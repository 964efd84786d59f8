//! Threads for one call: none is left when it returns, so that a process may fork between two calls.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::thread::LocalKey;

/// What a thread keeps from one call to the next.
pub(crate) type Kept<S> = RefCell<Option<S>>;

/// Does `work` for each item, on the calling thread and on up to `threads - 1` more; answers in the
/// order of the items.
///
/// # Errors
/// Of the items that failed, the first; others may not have been begun.
pub(crate) fn for_each<S, T: Send, R: Send, E: Send>(
    kept: &'static LocalKey<Kept<S>>,
    make: impl Fn() -> Result<S, E> + Sync,
    threads: usize,
    items: Vec<T>,
    work: impl Fn(&mut S, T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, (usize, E)> {
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let answers = Mutex::new(Vec::with_capacity(count));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some((at, item)) = next() {
            let mut state = match kept.take().map_or_else(&make, Ok) {
                Ok(state) => state,
                Err(error) => return Err((at, error)),
            };
            let answer = work(&mut state, item).map_err(|error| (at, error))?;
            kept.set(Some(state));
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
        }
        Ok(())
    };
    let others = threads.min(count).saturating_sub(1);
    let mut failed: Vec<(usize, E)> = std::thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(run)).collect();
        let own = run().err();
        let join = |other: std::thread::ScopedJoinHandle<'_, Result<(), (usize, E)>>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).err()
        };
        own.into_iter().chain(others.into_iter().filter_map(join)).collect()
    });
    failed.sort_by_key(|(at, _)| *at);
    if let Some(first) = failed.into_iter().next() {
        return Err(first);
    }
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}
