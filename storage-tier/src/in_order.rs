//! Work that waits for files, on several threads at once, with its results in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::StorageError;

/// How often the log says how far the work is.
const PROGRESS: Duration = Duration::from_secs(10);

/// What `work` gives for each number below `count`, in their order, on threads of its own. The log says every now and then
/// how far it is, and `tell` hears it each time.
///
/// # Errors
/// The first, in order, that failed.
pub(crate) fn in_order<T: Send>(
    count: usize,
    threads: usize,
    (said, tell): (&str, &mut dyn FnMut(usize, usize)),
    work: &(dyn Fn(usize) -> Result<T, StorageError> + Sync),
) -> Result<Vec<T>, StorageError> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<T>> = Vec::new();
    results.resize_with(count, || None);
    let mut first_error: Option<(usize, StorageError)> = None;
    thread::scope(|scope| {
        let (send, receive) = channel();
        for _ in 0..threads.min(count) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                let mut numbers = std::iter::from_fn(|| {
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < count)
                });
                // Until there is none left, or nobody listens.
                numbers.try_for_each(|at| send.send((at, work(at))))
            });
        }
        drop(send);
        let (mut done, mut told) = (0, Instant::now());
        loop {
            match receive.recv_timeout(PROGRESS) {
                Ok((at, Ok(result))) => {
                    results[at] = Some(result);
                    done += 1;
                    tell(done, count);
                }
                Ok((at, Err(error))) => {
                    // No more are begun; those before this one still come in.
                    next.store(count, Ordering::Relaxed);
                    if first_error.as_ref().is_none_or(|(first, _)| at < *first) {
                        first_error = Some((at, error));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if told.elapsed() >= PROGRESS {
                tracing::info!(done, of = count, "{said}");
                told = Instant::now();
            }
        }
    });
    match first_error {
        Some((_, error)) => Err(error),
        None => results.into_iter().map(|result| result.ok_or(StorageError::Panic)).collect(),
    }
}
