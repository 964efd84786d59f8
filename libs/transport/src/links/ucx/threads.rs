//! UCX's threads, and the end of the process.
//!
//! When a process exits, UCX's library takes itself apart, while the process's other threads go on. A
//! thread that was still closing a path then was seen to end in a segmentation fault. So the process
//! waits for these threads before: a handler that runs ahead of the library's own asks them to end and
//! waits, and from then on nobody else calls UCX either.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::link::terms::{LinkError, LinkKind};

/// Time for threads to end when the process does: more than each takes to leave and to drain.
const END_LIMIT: Duration = Duration::from_secs(6);

/// The process that has these threads. A fork of it has none, and may have a lock of theirs.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static THREADS: Mutex<Threads> = Mutex::new(Threads { running: 0, ending: false });
static ENDED: Condvar = Condvar::new();
/// `true`: the library may be gone.
static OVER: RwLock<bool> = RwLock::new(false);

struct Threads {
    running: usize,
    /// The process exits.
    ending: bool,
}

/// Counts a thread while it lives.
struct Counted;

/// Runs `work` on a thread that calls UCX.
///
/// # Errors
/// The process exits, or the system gives no thread.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LinkError> {
    let counted = Counted::new().ok_or_else(|| LinkKind::Ucx.setup("the process exits"))?;
    let counting = move || {
        work();
        drop(counted);
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(counting);
    let failed = |error| LinkKind::Ucx.setup(format!("no thread for it: {error}"));
    thread.map(drop).map_err(failed)
}

/// Whether the process exits: each of these threads is to end soon.
pub(super) fn are_ending() -> bool {
    threads().ending
}

/// Held around calls of UCX that are made on other threads. `None`: the library may be gone.
pub(super) fn call() -> Option<RwLockReadGuard<'static, bool>> {
    OVER.try_read().ok().filter(|over| !**over)
}

/// Lets the process wait for these threads when it exits. To be called after the library was opened:
/// handlers run in the opposite order.
pub(super) fn await_at_exit() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    // SAFETY: the handler is a function of this program, takes nothing and does not unwind.
    if unsafe { libc::atexit(end) } != 0 {
        tracing::warn!("this process does not wait for UCX's threads when it exits");
    }
}

extern "C" fn end() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let limit = Instant::now() + END_LIMIT;
    let mut threads = threads();
    threads.ending = true;
    while threads.running > 0 {
        let Some(left) = limit.checked_duration_since(Instant::now()) else { break };
        threads = ENDED.wait_timeout(threads, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(threads);
    // Whoever is in the middle of a call on another thread is waited for as well.
    while Instant::now() < limit {
        if let Ok(mut over) = OVER.try_write() {
            *over = true;
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Counted ===

impl Counted {
    fn new() -> Option<Self> {
        let mut threads = threads();
        threads.running += usize::from(!threads.ending);
        (!threads.ending).then_some(Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        threads().running -= 1;
        ENDED.notify_all();
    }
}
