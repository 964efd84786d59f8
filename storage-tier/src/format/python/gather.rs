//! Work that several threads do, whose results are wanted in order.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;

/// Results of each thread that wait for those before them.
const AHEAD: usize = 4;

/// Does `work` for each number on `threads` threads, each with a tool of its own, and hands the results on in
/// order. Ends with the first error, in order; `refused` is that of a thread that the system does not start.
pub(super) fn in_order<T, R: Send, E: Send>(
    numbers: Range<u64>,
    threads: usize,
    refused: impl Fn(io::Error) -> E,
    open: impl Fn() -> Result<T, E> + Sync,
    work: impl Fn(&mut T, u64) -> Result<R, E> + Sync,
    close: impl Fn(T) + Sync,
    mut hand_on: impl FnMut(u64, R) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.clamp(1, (numbers.end - numbers.start).clamp(1, 1 << 16) as usize);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let results: Vec<_> = (0..threads)
            .map(|thread| {
                let (send, results) = sync_channel(AHEAD);
                let (open, work, close, ended) = (&open, &work, &close, &ended);
                let own = numbers.clone().skip(thread).step_by(threads);
                let unstarted = send.clone();
                let work_off = move || {
                    let mut tool = match open() {
                        Ok(tool) => tool,
                        // Whoever listens takes the first error.
                        Err(error) => return drop(send.send(Err(error))),
                    };
                    for number in own {
                        let done = work(&mut tool, number);
                        let failed = done.is_err();
                        if ended.load(Ordering::Relaxed) || send.send(done).is_err() || failed {
                            break;
                        }
                    }
                    close(tool);
                };
                if let Err(error) = Builder::new().spawn_scoped(scope, work_off) {
                    unstarted.send(Err(refused(error))).ok();
                }
                results
            })
            .collect();
        let mut all = Ok(());
        for (at, number) in numbers.clone().enumerate() {
            let Ok(result) = results[at % threads].recv() else { break };
            all = result.and_then(|result| hand_on(number, result));
            if all.is_err() {
                break;
            }
        }
        ended.store(true, Ordering::Relaxed);
        drop(results);
        all
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn results_come_in_order_and_each_tool_is_given_back() {
        for (numbers, threads) in [(0..0, 4), (5..6, 4), (3..103, 1), (0..100, 7)] {
            let (opened, closed) = (Mutex::new(0), Mutex::new(0));
            let mut seen = Vec::new();
            let done: Result<(), ()> = in_order(
                numbers.clone(),
                threads,
                |_| (),
                || {
                    *opened.lock().unwrap() += 1;
                    Ok(())
                },
                |(), number| Ok(number * 2),
                |()| *closed.lock().unwrap() += 1,
                |number, double| {
                    seen.push((number, double));
                    Ok(())
                },
            );
            assert_eq!(done, Ok(()));
            assert!(seen.iter().map(|(number, _)| *number).eq(numbers));
            assert!(seen.iter().all(|(number, double)| double == &(number * 2)));
            assert_eq!(opened.into_inner().unwrap(), closed.into_inner().unwrap());
        }
    }

    #[test]
    fn the_first_error_in_order_ends_all() {
        let seen = Mutex::new(0);
        let done = in_order(
            0..1000,
            3,
            |_| 0,
            || Ok(()),
            |(), number| if number >= 10 { Err(number) } else { Ok(()) },
            drop,
            |_, ()| {
                *seen.lock().unwrap() += 1;
                Ok(())
            },
        );
        assert_eq!((done, seen.into_inner().unwrap()), (Err(10), 10));
        let unopened: Result<(), _> = in_order(
            0..9,
            2,
            |_| "no thread",
            || Err("no tool"),
            |(), _| Ok(()),
            drop,
            |_, ()| Ok(()),
        );
        assert_eq!(unopened, Err("no tool"));
    }
}
