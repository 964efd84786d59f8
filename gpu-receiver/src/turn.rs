//! One thread at a time, and none that waits for itself.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Lets one thread in at a time. A mutex that refuses the thread that has it: a function of the trainer's is called
/// within, and what it calls may want to come in, too.
#[derive(Debug, Default)]
pub struct Turn {
    inside: Mutex<Option<ThreadId>>,
    left: Condvar,
}

/// A thread is in until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Inside<'a>(&'a Turn);

// === impl Turn ===

impl Turn {
    /// Waits until no other thread is in; `None` if this thread is in.
    pub fn enter(&self) -> Option<Inside<'_>> {
        let own = thread::current().id();
        let mut inside = self.lock();
        while let Some(other) = *inside {
            if other == own {
                return None;
            }
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        *inside = Some(own);
        Some(Inside(self))
    }

    fn lock(&self) -> MutexGuard<'_, Option<ThreadId>> {
        // Every change is one assignment.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_is_in_is_refused_and_another_one_waits() {
        let (turn, has_left) = (Turn::default(), AtomicBool::new(false));
        let inside = turn.enter().expect("nobody is in");
        assert!(turn.enter().is_none());
        thread::scope(|scope| {
            let (begins, begun) = std::sync::mpsc::channel();
            let (turn, has_left) = (&turn, &has_left);
            let other = scope.spawn(move || {
                begins.send(()).expect("it is waited for");
                let _inside = turn.enter().expect("another thread was in");
                has_left.load(Ordering::SeqCst)
            });
            begun.recv().expect("it begins");
            // Long enough for a thread that nobody holds up; on a slow machine less is seen, and nothing wrong.
            thread::sleep(Duration::from_millis(50));
            has_left.store(true, Ordering::SeqCst);
            drop(inside);
            assert!(other.join().expect("no panic"), "it came in before the first one left");
        });
        assert!(turn.enter().is_some());
    }
}
