//! Buffers of spans, one per thread, and the thread that empties them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use crate::error::TraceError;
use crate::event::Event;
use crate::lanes;
use crate::sink::Sink;

/// Spans that a thread may have recorded since its buffer was emptied; more are dropped.
const SPANS_MAX: usize = 16 << 10;
/// How often buffers are emptied and files written.
const EMPTY_EVERY: Duration = Duration::from_millis(200);
/// Tries to open a buffer that the writer empties, which takes it a few instructions.
const TRIES: usize = 64;

/// The process that records; 0: none does.
static ON_IN: AtomicU32 = AtomicU32::new(0);
/// The process whose writer thread runs; 0: none does.
static WRITING_IN: AtomicU32 = AtomicU32::new(0);
static BUFFERS: Mutex<Vec<Arc<Buffer>>> = Mutex::new(Vec::new());
static SINKS: Mutex<Sinks> = Mutex::new(Sinks { open: Vec::new(), next: 0 });
static WAKE: Condvar = Condvar::new();

/// What one thread has recorded.
#[derive(Debug, Default)]
struct Buffer {
    events: Mutex<Vec<Event>>,
    dropped: AtomicU64,
}

struct Sinks {
    open: Vec<OpenSink>,
    next: u64,
}

struct OpenSink {
    number: u64,
    sink: Box<dyn Sink>,
    /// Names of lanes that it has heard.
    known: BTreeMap<u32, String>,
    dropped: u64,
    ended: Arc<Mutex<Option<String>>>,
}

/// A trace that is being written. It ends when this is dropped.
#[derive(Debug)]
pub struct Recording {
    number: u64,
    ended: Arc<Mutex<Option<String>>>,
    started_in: u32,
}

/// Whether spans are recorded: one relaxed load where they are not. They are not in a process that was
/// forked from one that records: its locks may be shut for ever.
#[must_use]
pub fn is_on() -> bool {
    let process = ON_IN.load(Ordering::Relaxed);
    process != 0 && process == std::process::id()
}

/// Gives every span from now on to `sink` too.
///
/// # Errors
/// The system has no thread for the writer, or this process was forked from one that records.
pub fn start(sink: Box<dyn Sink>) -> Result<Recording, TraceError> {
    let process = std::process::id();
    let made_in = WRITING_IN.load(Ordering::Relaxed);
    if made_in != 0 && made_in != process {
        return Err(TraceError::Forked { made_in });
    }
    let mut sinks = lock(&SINKS);
    if WRITING_IN.load(Ordering::Relaxed) == 0 {
        thread::Builder::new()
            .name("hw-trace".to_owned())
            .spawn(write_on)
            .map_err(TraceError::Thread)?;
        WRITING_IN.store(process, Ordering::Relaxed);
    }
    if sinks.open.is_empty() {
        drop(emptied());
    }
    let (number, ended) = (sinks.next, Arc::default());
    sinks.next += 1;
    let known = BTreeMap::new();
    let opened = OpenSink { number, sink, known, dropped: 0, ended: Arc::clone(&ended) };
    sinks.open.push(opened);
    ON_IN.store(process, Ordering::Relaxed);
    Ok(Recording { number, ended, started_in: process })
}

/// Keeps a span for the writer.
pub(crate) fn record(event: Event) {
    thread_local!(static OWN: RefCell<Option<Arc<Buffer>>> = const { RefCell::new(None) });
    // A thread that ends has none any more.
    let _ = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        let buffer = own.get_or_insert_with(|| {
            let buffer = Arc::<Buffer>::default();
            lock(&BUFFERS).push(Arc::clone(&buffer));
            buffer
        });
        buffer.push(event);
    });
}

/// Writes until no sink is left.
fn write_on() {
    let mut sinks = lock(&SINKS);
    loop {
        let waited = WAKE.wait_timeout(sinks, EMPTY_EVERY);
        sinks = waited.unwrap_or_else(PoisonError::into_inner).0;
        sinks.write();
        if sinks.open.is_empty() {
            WRITING_IN.store(0, Ordering::Relaxed);
            return;
        }
    }
}

/// All that was recorded since the last time, and how much was dropped.
fn emptied() -> (Vec<Event>, u64) {
    let mut buffers = lock(&BUFFERS);
    let (mut events, mut dropped) = (Vec::new(), 0);
    for buffer in &*buffers {
        // Made before the lock, which a thread that works may wait for.
        let mut emptied = Vec::with_capacity(128);
        mem::swap(&mut *lock(&buffer.events), &mut emptied);
        events.append(&mut emptied);
        dropped += buffer.dropped.swap(0, Ordering::Relaxed);
    }
    // Those of threads that have ended, once they are empty.
    buffers.retain(|buffer| Arc::strong_count(buffer) > 1 || !lock(&buffer.events).is_empty());
    (events, dropped)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Buffer ===

impl Buffer {
    /// Never waits: whoever is traced goes on, whatever the writer does.
    fn push(&self, event: Event) {
        for _ in 0..TRIES {
            let mut events = match self.events.try_lock() {
                Ok(events) => events,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::hint::spin_loop();
                    continue;
                }
            };
            if events.len() < SPANS_MAX {
                events.push(event);
                return;
            }
            break;
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

// === impl Sinks ===

impl Sinks {
    /// Gives the sinks what was recorded. Those that cannot go on are closed.
    fn write(&mut self) {
        let (events, dropped) = emptied();
        for open in &mut self.open {
            open.write(&events, dropped);
        }
        self.open.retain(|open| lock(&open.ended).is_none());
        if self.open.is_empty() {
            ON_IN.store(0, Ordering::Relaxed);
        }
    }
}

// === impl OpenSink ===

impl OpenSink {
    fn write(&mut self, events: &[Event], dropped: u64) {
        self.dropped += dropped;
        let lanes = lanes::names(&self.known);
        self.known.extend(lanes.iter().map(|named| (named.lane, named.name.clone())));
        if let Err(reason) = self.sink.write(&lanes, events) {
            tracing::warn!("{reason}");
            *lock(&self.ended) = Some(reason);
        }
    }

    fn finish(mut self) {
        if self.dropped > 0 {
            let dropped = self.dropped;
            tracing::warn!(dropped, "spans are missing from the trace: they came too fast");
        }
        let finished = self.sink.finish(self.dropped);
        if let Err(reason) = &finished {
            tracing::warn!("{reason}");
        }
        *lock(&self.ended) = Some(finished.err().unwrap_or_default());
    }
}

// === impl Recording ===

impl Recording {
    /// Ends the trace: what was recorded so far is written.
    pub fn stop(&self) {
        // What is a forked process's own was not started by it.
        if self.started_in != std::process::id() {
            return;
        }
        let mut sinks = lock(&SINKS);
        sinks.write();
        if let Some(at) = sinks.open.iter().position(|open| open.number == self.number) {
            sinks.open.remove(at).finish();
        }
        if sinks.open.is_empty() {
            ON_IN.store(0, Ordering::Relaxed);
            WAKE.notify_all();
        }
    }

    /// Why the trace ended before it was stopped; `None` where it did not.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.ended).clone().filter(|reason| !reason.is_empty())
    }

    /// Whether spans are still written.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.started_in == std::process::id() && lock(&self.ended).is_none()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop();
    }
}
