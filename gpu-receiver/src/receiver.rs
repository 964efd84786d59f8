//! The receiver: opened once in a training rank, asked for one batch after another.

mod checkpoints;
mod generation;
mod open;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_core::{Manifest, Recipe};
use headwater_cuda::DeviceAllocator;
use headwater_discovery::Places;
use headwater_trace::{Span, Tier};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::autosave::AutoSave;
use crate::batch::Batch;
use crate::config::{ReceiverConfig, places};
use crate::error::ReceiverError;
use crate::events::{Command, DriverHandle, Event};
use crate::held::HeldWatch;
use crate::label_mix::LabelMix;
use crate::mailbox::{Found, Mailbox};
use crate::order_list::OrderArrays;
use crate::peek::Peek;
use crate::position::Position;
use crate::sample_order::SampleOrder;
use crate::scaling::{AmaxReduce, Scaling};
use crate::stats::{Snapshot, Stats};
use crate::worker_discovery::follow_workers;

/// Time to leave the workers in order.
const END_LIMIT: Duration = Duration::from_secs(2);

/// How often a wait that goes on is added to the metrics.
const COUNT_WAITS_EVERY: Duration = Duration::from_millis(500);

/// What the trainer's side does for the receiver.
#[derive(Default)]
pub struct Callbacks {
    /// Brings the ranks' amaxes together, which delayed scaling of FP8 tensors needs where there is
    /// more than one rank.
    pub amax_reduce: Option<AmaxReduce>,
    /// Gives the GPU's memory for slots, in the place of the driver.
    pub device_allocator: Option<Box<dyn DeviceAllocator>>,
    /// Arrays in place of the files of a list of samples.
    pub order: OrderArrays,
    /// A connection to the [`HostService`](crate::HostService) of this host (SOCK_SEQPACKET), from which
    /// batches are taken as long as it has them.
    pub host: Option<OwnedFd>,
}

/// Ready batches, in order. Owns the threads that bring them; dropping it ends all sessions.
pub struct Receiver {
    mailbox: Arc<Mailbox>,
    order: Arc<SampleOrder>,
    stats: Arc<Stats>,
    manifests: Vec<Arc<Manifest>>,
    recipe: Recipe,
    scaling: Arc<Scaling>,
    peek: Peek,
    label_mix: LabelMix,
    config: ReceiverConfig,
    driver: DriverHandle,
    /// Held while a command is under way: the driver has one at a time.
    commanding: Mutex<()>,
    autosave: Option<AutoSave>,
    /// Where batches are watched while the trainer has them.
    held: Option<Arc<HeldWatch>>,
    runtime: Option<Runtime>,
    /// Says when the driver has left its workers.
    ended: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    /// The task that looks for workers.
    following: Mutex<Option<AbortHandle>>,
    /// Since when the trainer waits for a batch, as the trace shows it.
    waits_since: Mutex<Option<std::time::Instant>>,
    made_in: u32,
}

// === impl Receiver ===

impl Receiver {
    /// The next batch; `None` once at the end of each epoch, and from the last epoch on.
    ///
    /// Blocks. Batches come strictly in order of step.
    ///
    /// # Errors
    /// See [`ReceiverError`]; after `NoWorker`, `SlotsHeld`, `SlotsKept` and `SlotsMissing` it may be called
    /// again.
    pub fn next_batch(&self) -> Result<Option<Batch>, ReceiverError> {
        loop {
            if let Some(found) = self.next_within(Duration::from_secs(3600))? {
                return Ok(found);
            }
        }
    }

    /// As [`Receiver::next_batch`], but gives up after `limit` with `Ok(None)`.
    ///
    /// # Errors
    /// As for [`Receiver::next_batch`]; `NoWorker`, `SlotsHeld`, `SlotsKept` and `SlotsMissing` only where they
    /// lasted into the wait, which may take 50 ms to show. `Busy` within `amax_reduce`.
    pub fn next_within(&self, limit: Duration) -> Result<Option<Option<Batch>>, ReceiverError> {
        let runtime = self.runtime()?;
        self.check_held()?;
        if self.is_over() {
            return Ok(Some(None));
        }
        self.save_if_due();
        let mut span = self.next_span();
        let asked = Instant::now();
        let mut wait = self.stats.wait();
        loop {
            let changed = self.mailbox.changed();
            let taking = self.scaling.taking()?;
            let found = self.mailbox.take(asked, |epoch| self.steps_per_epoch(epoch));
            wait.count();
            match found? {
                Found::Batch(batch) => {
                    wait.over(batch.history());
                    self.stats.show_place(self.position());
                    batch.trace_taken(&mut span);
                    span.end();
                    self.on_taken(&batch)?;
                    if let Some(watch) = &self.held {
                        batch.watch(watch)?;
                    }
                    self.peek.on_taken(&batch);
                    self.label_mix.on_taken(&batch);
                    // To wake the driver takes tens of microseconds: not while the window is half full. It
                    // hears of this batch's slot, too, when the trainer is through with it.
                    if 2 * self.mailbox.ready() < self.config.window.window_batches as usize {
                        self.driver.room.notify_one();
                    }
                    return Ok(Some(Some(batch)));
                }
                Found::EpochEnd => {
                    self.stats.show_place(self.position());
                    self.driver.room.notify_one();
                    return Ok(Some(None));
                }
                Found::Nothing => {}
            }
            drop(taking);
            let left = limit.saturating_sub(asked.elapsed()).min(COUNT_WAITS_EVERY);
            if left.is_zero() {
                self.keep_next_span(span);
                return Ok(None);
            }
            runtime.block_on(async { tokio::time::timeout(left, changed).await }).ok();
        }
    }

    /// Whether every batch was released as it was given, where `receiver.verify_held` asks for that. Asked with each
    /// call for the next batch, too.
    ///
    /// # Errors
    /// [`ReceiverError::HeldChanged`]: of the first that was not, once.
    pub fn check_held(&self) -> Result<(), ReceiverError> {
        self.held.as_ref().map_or(Ok(()), |watch| watch.check())
    }

    /// The trainer's wait for a batch, over all calls until one comes.
    fn next_span(&self) -> Span {
        let mut since = self.waits_since.lock().unwrap_or_else(PoisonError::into_inner);
        let span = Span::on_thread(Tier::Receiver, "next");
        match since.take() {
            Some(since) => span.since(since),
            None => span,
        }
    }

    fn keep_next_span(&self, span: Span) {
        *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner) = span.started();
        span.forget();
    }

    fn on_taken(&self, batch: &Batch) -> Result<(), ReceiverError> {
        self.scaling.on_taken(batch).inspect_err(|error| {
            // Scales of later batches follow from this one's amaxes: none of them may be taken.
            self.mailbox.cut(ReceiverError::Closed { reason: error.to_string() });
        })
    }

    /// The workers there should be, written as in `receiver.workers`: sessions with others are
    /// ended, with new ones begun. Takes the place of what was configured or set before.
    ///
    /// # Errors
    /// An entry that cannot be understood; the receiver is closed.
    pub fn set_workers(&self, workers: &[String]) -> Result<(), ReceiverError> {
        let runtime = self.runtime()?;
        if self.driver.events.is_closed() {
            return Err(closed());
        }
        self.follow(places("workers", workers)?, runtime.handle());
        Ok(())
    }

    /// Says whether nobody is going to take a batch for now: the receiver leaves its workers then, and holds back no
    /// other one of its stream. What is ready stays.
    ///
    /// # Errors
    /// The receiver is closed.
    pub(crate) fn set_idle(&self, idle: bool) -> Result<(), ReceiverError> {
        self.ask(|reply| Command::SetIdle(idle, reply))
    }

    /// Looks for workers there, and nowhere else from now on.
    fn follow(&self, places: Places, handle: &Handle) {
        let refresh = Duration::from_millis(self.config.leases.workers_refresh_ms.into());
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = following.take() {
            before.abort();
        }
        let follow = follow_workers(places, refresh, self.driver.events.clone());
        *following = Some(handle.spawn(follow).abort_handle());
    }

    /// The place of the batch that is taken next.
    #[must_use]
    pub fn position(&self) -> Position {
        self.mailbox.position()
    }

    /// Steps of an epoch, the same on every rank.
    #[must_use]
    pub fn steps_per_epoch(&self, epoch: u32) -> u64 {
        self.order.steps_per_epoch(epoch)
    }

    /// Whether a place is behind the last batch of this rank, in an exact epoch where other ranks have one more.
    #[must_use]
    pub fn is_own_end(&self, at: Position) -> bool {
        self.order.is_own_end(at)
    }

    /// Whether the last epoch has been taken whole.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.config.epochs > 0 && self.position().epoch >= self.config.epochs
    }

    /// The job-wide number of a step, counted over epochs.
    #[must_use]
    pub fn job_step(&self, epoch: u32, step: u64) -> u64 {
        self.order.job_step(epoch, step)
    }

    /// Number of a batch, counted over epochs without a gap: a short batch that has too few samples for the
    /// ranks, and is not made, has no number.
    #[must_use]
    pub fn batch_number(&self, epoch: u32, step: u64) -> u64 {
        self.order.batch_number(epoch, step)
    }

    /// The datasets' manifests, in their order.
    #[must_use]
    pub fn manifests(&self) -> &[Arc<Manifest>] {
        &self.manifests
    }

    /// What is done to samples.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The receiver's configuration.
    #[must_use]
    pub fn config(&self) -> &ReceiverConfig {
        &self.config
    }

    /// Copies of batches for somebody who looks on.
    #[must_use]
    pub fn peek(&self) -> &Peek {
        &self.peek
    }

    /// Figures so far.
    #[must_use]
    pub fn stats(&self) -> Snapshot {
        self.stats.snapshot()
    }

    fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ReceiverError> {
        let runtime = self.runtime()?;
        let _commanding = self.commanding.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, answer) = oneshot::channel();
        let asked = self.driver.events.send(Event::Command(command(reply)));
        runtime.block_on(async {
            asked.await.map_err(|_| closed())?;
            answer.await.map_err(|_| closed())
        })
    }

    /// The runtime, in the process that made it: its threads do not survive a fork.
    fn runtime(&self) -> Result<&Runtime, ReceiverError> {
        if std::process::id() != self.made_in {
            return Err(ReceiverError::Forked { made_in: self.made_in });
        }
        self.runtime.as_ref().ok_or_else(closed)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if std::process::id() != self.made_in {
            // Its threads are in another process: there is nothing to stop here.
            std::mem::forget(runtime);
            return;
        }
        self.peek.close();
        self.driver.stop();
        if let Some(ended) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = ended.recv_timeout(END_LIMIT);
        }
        runtime.shutdown_timeout(Duration::from_secs(2));
    }
}

fn closed() -> ReceiverError {
    ReceiverError::Closed { reason: "its own task has ended".into() }
}
