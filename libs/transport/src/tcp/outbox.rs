//! Parts on their way out of a worker, in order, until each is acknowledged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::wire::Ack;
use crate::contract::{LeaseId, LinkError, LinkKind};
use crate::part::PartBuffer;
use crate::recent::Recent;

/// Withdrawn leases that are remembered, for a `begin` that comes after the withdrawal. The
/// receiver throws away what slips through.
const REMEMBERED_WITHDRAWALS: usize = 4096;

/// No longer than the link has buffers.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Job>,
    sent: VecDeque<Job>,
    withdrawn: Recent,
    leaving: bool,
    closed: Option<String>,
}

#[derive(Debug)]
struct Job {
    part: Arc<PartBuffer>,
    done: oneshot::Sender<Result<(), LinkError>>,
}

// === impl Outbox ===

impl Outbox {
    pub(super) fn new() -> Self {
        let state = State {
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            withdrawn: Recent::new(REMEMBERED_WITHDRAWALS),
            leaving: false,
            closed: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Why a lease cannot be begun, if it cannot.
    pub(super) fn check(&self, lease: LeaseId) -> Result<(), LinkError> {
        self.lock().check(lease)
    }

    /// As [`Self::check`], as soon as there is a reason.
    pub(super) async fn refusal(&self, lease: LeaseId) -> LinkError {
        loop {
            let changed = self.changed.notified();
            if let Err(error) = self.check(lease) {
                return error;
            }
            changed.await;
        }
    }

    /// Puts a part in line and waits for its acknowledgement.
    pub(super) async fn deliver(&self, part: PartBuffer) -> Result<(), LinkError> {
        let (done, outcome) = oneshot::channel();
        {
            let mut state = self.lock();
            state.check(part.lease())?;
            state.waiting.push_back(Job { part: Arc::new(part), done });
        }
        self.changed.notify_waiters();
        let dropped = |_| Err(self.closed_error());
        outcome.await.unwrap_or_else(dropped)
    }

    pub(super) fn withdraw(&self, lease: LeaseId) {
        let mut state = self.lock();
        state.withdrawn.insert(lease);
        let waiting = std::mem::take(&mut state.waiting);
        let (out, stay) = waiting.into_iter().partition(|job| job.part.lease() == lease);
        state.waiting = stay;
        drop(state);
        let out: VecDeque<Job> = out;
        for job in out {
            job.done.send(Err(LinkError::Withdrawn { lease })).ok();
        }
        self.changed.notify_waiters();
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

    /// After a break: what was sent and not acknowledged is to be sent again, first.
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
    pub(super) fn close(&self, reason: String) {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        let jobs: Vec<Job> = {
            let State { waiting, sent, .. } = &mut *state;
            sent.drain(..).chain(waiting.drain(..)).collect()
        };
        drop(state);
        for job in jobs {
            job.done.send(Err(self.closed_error())).ok();
        }
        self.changed.notify_waiters();
    }

    /// Resolves when the link is closed.
    pub(super) async fn closed(&self) -> LinkError {
        loop {
            let changed = self.changed.notified();
            if self.lock().closed.is_some() {
                return self.closed_error();
            }
            changed.await;
        }
    }

    fn closed_error(&self) -> LinkError {
        let reason = self.lock().closed.clone();
        let reason = reason.unwrap_or_else(|| "the link was dropped".into());
        LinkError::Closed { kind: LinkKind::Tcp, reason }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn check(&self, lease: LeaseId) -> Result<(), LinkError> {
        if let Some(reason) = &self.closed {
            return Err(LinkError::Closed { kind: LinkKind::Tcp, reason: reason.clone() });
        }
        if self.withdrawn.contains(lease) {
            return Err(LinkError::Withdrawn { lease });
        }
        Ok(())
    }
}
