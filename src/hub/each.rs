//! Work on many files at once, told in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::Result;

use crate::screen::Progress;

/// Does `work` on every item, on at most `threads` threads. `tell` hears each result on the
/// calling thread and in the order of the items; with its first error no more work is begun.
pub(crate) fn in_order<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    progress: &Progress,
    work: impl Fn(&T) -> R + Sync,
    mut tell: impl FnMut(&T, R) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        items.get(at).map(|item| (at, item))
    };
    thread::scope(|scope| {
        let (send, receive) = channel();
        for _ in 0..threads.min(items.len()) {
            let (send, take, work) = (send.clone(), &take, &work);
            scope.spawn(move || {
                while let Some((at, item)) = take() {
                    if send.send((at, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let (mut early, mut told) = (BTreeMap::new(), 0);
        for (done, (at, result)) in receive.iter().enumerate() {
            progress.set(done as u64 + 1);
            early.insert(at, result);
            while let Some(result) = early.remove(&told) {
                if let Err(error) = tell(&items[told], result) {
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(error);
                }
                told += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::bail;

    use super::*;
    use crate::screen::Screen;

    #[test]
    fn results_are_told_in_order_whoever_is_first() {
        let items: Vec<u64> = (0..40).collect();
        let mut told = Vec::new();
        let work = |item: &u64| {
            thread::sleep(Duration::from_millis(40 - item));
            item * 2
        };
        let progress = Screen::default().progress("items", 40);
        in_order(&items, 8, &progress, work, |item, double| {
            assert_eq!(double, item * 2);
            told.push(*item);
            Ok(())
        })
        .unwrap();
        assert_eq!(told, items);
    }

    #[test]
    fn after_an_error_no_more_is_begun() {
        let begun = AtomicUsize::new(0);
        let items: Vec<u64> = (0..1000).collect();
        // All of them would take half a minute.
        let work = |item: &u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(if *item > 10 { 60 } else { 0 }));
        };
        let progress = Screen::default().progress("items", 1000);
        let result = in_order(&items, 2, &progress, work, |item, ()| match item {
            3 => bail!("three"),
            _ => Ok(()),
        });
        assert_eq!(result.unwrap_err().to_string(), "three");
        assert!(begun.load(Ordering::Relaxed) < items.len());
    }
}
