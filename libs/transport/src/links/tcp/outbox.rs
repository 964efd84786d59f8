//! Parts on their way out of a worker, in order, until each is acknowledged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::wire::Ack;
use crate::link::terms::LinkError;
use crate::link::worker_permits::WorkerPermits;
use crate::memory::part::PartBuffer;
use crate::memory::place::LeaseId;

/// No longer than the link has buffers.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The receiver's are not told over this link: what it withdraws slips through, and is thrown away
    /// there.
    permits: Arc<WorkerPermits<()>>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    sent: VecDeque<Job>,
    leaving: bool,
}

#[derive(Debug)]
struct Job {
    part: Arc<PartBuffer>,
    done: oneshot::Sender<Result<(), LinkError>>,
}

// === impl Outbox ===

impl Outbox {
    pub(super) fn new(permits: Arc<WorkerPermits<()>>) -> Self {
        Self { permits, state: Mutex::default(), changed: Notify::new() }
    }

    /// Puts a part in line and waits for its acknowledgement.
    pub(super) async fn deliver(&self, part: PartBuffer) -> Result<(), LinkError> {
        let (done, outcome) = oneshot::channel();
        {
            let mut state = self.lock();
            // Under the lock: nothing is put in after `close` has taken all out.
            self.permits.check(part.lease())?;
            state.waiting.push_back(Job { part: Arc::new(part), done });
        }
        self.changed.notify_waiters();
        match outcome.await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.permits.closed().await),
        }
    }

    pub(super) fn withdraw(&self, lease: LeaseId) {
        self.permits.withdraw(lease);
        let out: VecDeque<Job> = {
            let mut state = self.lock();
            let all = std::mem::take(&mut state.waiting);
            let (out, stay) = all.into_iter().partition(|job| job.part.lease() == lease);
            state.waiting = stay;
            out
        };
        for job in out {
            job.done.send(Err(LinkError::Withdrawn { lease })).ok();
        }
    }

    /// The next part to send, now counted as sent; `None` when the worker leaves.
    pub(super) async fn next(&self) -> Option<Arc<PartBuffer>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                while let Some(job) = state.waiting.pop_front() {
                    // Whoever gave up waiting has abandoned the part.
                    if !job.done.is_closed() {
                        let part = Arc::clone(&job.part);
                        state.sent.push_back(job);
                        return Some(part);
                    }
                }
                if state.leaving {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Settles the oldest part that was sent; returns its bytes if it arrived.
    pub(super) fn acknowledge(&self, ack: Ack) -> Result<Option<u64>, String> {
        let job = {
            let mut state = self.lock();
            match state.sent.pop_front() {
                Some(job) if job.part.lease() == ack.lease => job,
                Some(job) => {
                    state.sent.push_front(job);
                    return Err(format!("lease {} was acknowledged out of order", ack.lease.0));
                }
                None => return Err(format!("lease {} was not sent", ack.lease.0)),
            }
        };
        let bytes = job.part.len_bytes();
        if ack.arrived {
            job.done.send(Ok(())).ok();
            return Ok(Some(bytes));
        }
        job.done.send(Err(LinkError::Withdrawn { lease: ack.lease })).ok();
        Ok(None)
    }

    /// After a break: what was sent and not acknowledged must be sent again, first.
    pub(super) fn rewind(&self) {
        let mut state = self.lock();
        while let Some(job) = state.sent.pop_back() {
            state.waiting.push_front(job);
        }
    }

    /// No more parts will be put in; lets [`Self::next`] end after the present ones.
    pub(super) fn leave(&self) {
        self.lock().leaving = true;
        self.changed.notify_waiters();
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.lock().leaving
    }

    /// Resolves when the worker leaves.
    pub(super) async fn left(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_leaving() {
                return;
            }
            changed.await;
        }
    }

    /// The link can deliver no more: every part fails.
    pub(super) fn close(&self, reason: &str) {
        self.permits.close(reason);
        let mut state = self.lock();
        let jobs = [std::mem::take(&mut state.sent), std::mem::take(&mut state.waiting)];
        drop(state);
        drop(jobs); // Whoever waits for one hears that the link is closed.
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
