//! Finished parts that are kept for other receivers, under the parts' keys.
//!
//! A part is made once for all who ask while it is made, and is then kept as long as there is room. Its
//! memory is no receiver's: it is made to the end if only one of them still waits. How long parts
//! are kept, and which go first, is in `kept`.

mod kept;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_core::streams::StreamNews;
use headwater_core::{Digest, PartKey};
use headwater_proto::augment::{PartOrigin, Provenance, WorkTimes};
use headwater_transport::{PartMemory, WholePart};
use tokio::sync::{Mutex as Turn, Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics;
use crate::session::LeaseError;
use kept::{Found, Kept, Taken};

/// Memory is taken in multiples of this, so that parts of nearly one size use each other's.
const MEMORY_STEP_BYTES: u64 = 64 << 10;

/// A finished part: its bytes, and what is said of it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) part: WholePart,
    pub(crate) report: Arc<Report>,
}

/// What each receiver of a part learns about it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) checksum: u64,
    pub(crate) samples: Vec<Provenance>,
    pub(crate) times: WorkTimes,
    pub(crate) fp8_amaxes: Vec<f32>,
}

type End = Result<Made, LeaseError>;

/// The parts that a worker keeps or makes for whoever wants them.
pub(crate) struct Share {
    share_bytes: u64,
    kept: Mutex<Kept>,
    /// Memory has come back.
    freed: Notify,
    /// Whoever waits for memory waits in line.
    turn: Turn<()>,
    /// Parts that are being made.
    pub(crate) makings: TaskTracker,
    started: Instant,
}

/// How a lease comes to its part.
pub(crate) enum Claim {
    /// It is there.
    Kept(Made),
    /// Somebody makes it.
    Waits(Waiter),
    /// The caller must have it made.
    Makes(Waiter, Making),
}

/// Waits for a part; nobody makes a part that nobody waits for.
pub(crate) struct Waiter {
    share: Arc<Share>,
    key: PartKey,
    number: u64,
    end: oneshot::Receiver<End>,
}

/// The duty to make a part. Dropped before [`Making::end`] it tells whoever waits that it broke off.
pub(crate) struct Making {
    share: Arc<Share>,
    key: PartKey,
    number: u64,
    pub(crate) origin: PartOrigin,
    /// Nobody waits any more.
    pub(crate) unwanted: CancellationToken,
    ended: bool,
}

/// A session that is known to want the parts of a stream, until dropped.
pub(crate) struct Member {
    share: Arc<Share>,
    stream: Digest,
    session: u64,
}

/// Bytes that a link reads from the share, until dropped.
pub(crate) struct Lent {
    share: Arc<Share>,
    bytes: u64,
}

// === impl Share ===

impl Share {
    pub(crate) fn new(share_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            share_bytes,
            kept: Mutex::default(),
            freed: Notify::new(),
            turn: Turn::new(()),
            makings: TaskTracker::new(),
            started: Instant::now(),
        })
    }

    /// Whether parts of this size are shared. Two of them must fit, so that one that is sent keeps none
    /// from being made.
    pub(crate) fn takes(&self, part_bytes: u64) -> bool {
        part_bytes.next_multiple_of(MEMORY_STEP_BYTES) <= self.share_bytes / 2
    }

    /// Notes a session that wants the parts of a stream.
    pub(crate) fn enter(self: &Arc<Self>, stream: Digest, session: u64) -> Member {
        self.lock().enter(stream, session);
        Member { share: Arc::clone(self), stream, session }
    }

    /// The part of this key, or the way to it.
    pub(crate) fn claim(self: &Arc<Self>, key: PartKey, stream: Digest) -> Claim {
        let (sender, end) = oneshot::channel();
        let found = self.lock().claim(key, stream, sender);
        let waiter = |number| Waiter { share: Arc::clone(self), key, number, end };
        match found {
            Found::Kept(made) => {
                metrics::part_shared("kept");
                Claim::Kept(made)
            }
            Found::Waits { waiter: number } => {
                metrics::part_shared("waited");
                Claim::Waits(waiter(number))
            }
            Found::Makes { waiter: number, making, unwanted, again } => {
                let origin = if again { PartOrigin::Recomputed } else { PartOrigin::Computed };
                let share = Arc::clone(self);
                let making = Making { share, key, number: making, origin, unwanted, ended: false };
                Claim::Makes(waiter(number), making)
            }
        }
    }

    /// A session has the part: it wants it no more.
    pub(crate) fn delivered(&self, key: PartKey, session: u64) {
        self.lock().delivered(key, session);
    }

    /// Permission for a link to read `bytes` bytes of a part where it lies. `None` where links read so
    /// much already that a slow one could keep parts from being made.
    pub(crate) fn lend(self: &Arc<Self>, bytes: u64) -> Option<Lent> {
        let may = self.lock().lend(bytes, self.share_bytes / 2);
        may.then(|| Lent { share: Arc::clone(self), bytes })
    }

    /// Memory for a part of `bytes` bytes, which must be one that [`Share::takes`]. Parts that are kept go
    /// for it; waits while all of them are being made or read.
    pub(crate) async fn memory(&self, bytes: u64) -> Result<PartMemory, LeaseError> {
        let bytes = bytes.next_multiple_of(MEMORY_STEP_BYTES);
        let _turn = self.turn.lock().await;
        loop {
            let freed = self.freed.notified();
            let taken = self.lock().take(bytes, self.share_bytes);
            match taken {
                Taken::Memory(memory) => return Ok(memory),
                Taken::Allocate => {
                    return PartMemory::new(bytes).map_err(|reason| {
                        self.lock().forget(bytes);
                        LeaseError::Retry(reason)
                    });
                }
                // Let go of outside the lock: its memory comes back then.
                Taken::Evicted(made) => drop(made),
                Taken::Unmapped(memory) => drop(memory),
                Taken::Nothing => freed.await,
            }
        }
    }

    /// Takes memory back that [`Share::memory`] gave.
    pub(crate) fn give_back(&self, memory: PartMemory) {
        self.lock().give_back(memory);
        self.freed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing that panics runs under the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Waiter ===

impl Waiter {
    /// The part.
    ///
    /// # Errors
    /// Why it could not be made: the same for all who wait.
    pub(crate) async fn part(mut self) -> End {
        let broken = || LeaseError::Retry("the worker stopped making the part".into());
        (&mut self.end).await.unwrap_or_else(|_| Err(broken()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let unwanted = self.share.lock().waits_no_more(self.key, self.number);
        if let Some(unwanted) = unwanted {
            unwanted.cancel();
        }
    }
}

// === impl Making ===

impl Making {
    /// Tells whoever waits, and keeps the part if there is one.
    pub(crate) fn end(mut self, end: End) {
        self.tell(end);
    }

    fn tell(&mut self, end: End) {
        self.ended = true;
        if end.is_ok() {
            metrics::part_made(self.origin == PartOrigin::Recomputed);
        }
        let kept = end.as_ref().ok().cloned();
        let waiters = self.share.lock().made(self.key, self.number, kept);
        for waiter in waiters {
            // Whoever has gone needs no part.
            let _ = waiter.send(end.clone());
        }
        // Whoever waits for memory may take that of a part that nobody reads now.
        drop(end);
        self.share.freed.notify_waiters();
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if !self.ended {
            let reason = "making the part panicked: see this worker's log";
            self.tell(Err(LeaseError::Retry(reason.into())));
        }
    }
}

// === impl Member ===

impl Member {
    /// Notes how far the session's receiver is, as it says every `heartbeat`.
    pub(crate) fn heard(&self, step_and_width: (u64, u32), heartbeat: Duration) -> StreamNews {
        let now = self.share.started.elapsed();
        self.share.lock().heard(self.stream, self.session, step_and_width, (heartbeat, now))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.share.lock().leave(self.stream, self.session);
    }
}

// === impl Lent ===

impl Drop for Lent {
    fn drop(&mut self) {
        self.share.lock().take_back(self.bytes);
        self.share.freed.notify_waiters();
    }
}
