//! The receiver: opened once in a training rank, asked for one batch after another.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_access::Access;
use headwater_core::part::PartScope;
use headwater_core::sampler::Sampler;
use headwater_core::{Layout, Manifest, Recipe};
use headwater_cuda::DeviceAllocator;
use headwater_discovery::Places;
use headwater_proto::WIRE_VERSION;
use headwater_proto::augment::{DatasetRef, SessionHello};
use headwater_storage_client::Dataset;
use headwater_transport::LinkKind;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::autosave::{AutoSave, resumed};
use crate::batch::Batch;
use crate::config::{DatasetUse, ReceiverConfig, places};
use crate::device::Twins;
use crate::driver::{Command, Driver, DriverState, Event, lock};
use crate::error::ReceiverError;
use crate::following::follow_workers;
use crate::foresight::tell_storage;
use crate::ledger::Ledger;
use crate::mailbox::{Found, Mailbox, Position};
use crate::masking::Masking;
use crate::scaling::{AmaxReduce, Scaling};
use crate::service::Grpc;
use crate::sessions::SessionShared;
use crate::setup::{fetch_datasets, ledger_config, open_links, sampler_config};
use crate::slots::{SlotMaker, SlotPool};
use crate::stats::{Snapshot, Stats};

/// Time to leave the workers in order.
const END_LIMIT: Duration = Duration::from_secs(2);

/// What the trainer's side does for the receiver.
#[derive(Default)]
pub struct Callbacks {
    /// Brings the ranks' amaxes together, which delayed scaling of FP8 tensors needs where there is
    /// more than one rank.
    pub amax_reduce: Option<AmaxReduce>,
    /// Gives the GPU's memory for slots, in the place of the driver.
    pub device_allocator: Option<Box<dyn DeviceAllocator>>,
}

/// Ready batches, in order. Owns the threads that bring them; dropping it ends all sessions.
pub struct Receiver {
    mailbox: Arc<Mailbox>,
    pub(crate) sampler: Arc<Mutex<Sampler>>,
    stats: Arc<Stats>,
    manifests: Vec<Arc<Manifest>>,
    recipe: Recipe,
    pub(crate) scaling: Arc<Scaling>,
    config: ReceiverConfig,
    events: mpsc::UnboundedSender<Event>,
    autosave: Option<AutoSave>,
    runtime: Option<Runtime>,
    /// Says when the driver has left its workers.
    ended: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    /// The task that looks for workers.
    following: Mutex<Option<AbortHandle>>,
    made_in: u32,
}

// === impl Receiver ===

impl Receiver {
    /// Fetches the manifests, makes slots and links, and begins to lease parts.
    ///
    /// Blocks until the storage tier has answered; not to be called on an async thread.
    ///
    /// # Errors
    /// A wrong configuration, no storage tier within its limit, no memory for slots, no link.
    pub fn open(
        config: ReceiverConfig,
        recipe: Recipe,
        datasets: &[DatasetUse],
    ) -> Result<Self, ReceiverError> {
        Self::open_with(config, recipe, datasets, Callbacks::default())
    }

    /// As [`Receiver::open`], with the trainer's help.
    ///
    /// # Errors
    /// As for [`Receiver::open`].
    pub fn open_with(
        config: ReceiverConfig,
        recipe: Recipe,
        datasets: &[DatasetUse],
        callbacks: Callbacks,
    ) -> Result<Self, ReceiverError> {
        let Callbacks { amax_reduce: reduce, device_allocator } = callbacks;
        config.validate()?;
        recipe.validate()?;
        config.mask_plan(&recipe)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads as usize)
            .thread_name("hw-receiver")
            .enable_all()
            .build()
            .map_err(|error| ReceiverError::Closed { reason: format!("no threads: {error}") })?;
        let (manifests, handles) = runtime.block_on(fetch_datasets(&config, datasets))?;
        let autosave = AutoSave::new(&config);
        let sampler = Sampler::new(sampler_config(&config, &recipe, datasets), manifests.clone())?;
        let (sampler, start, amaxes) = resumed(sampler, &config)?;
        let scaling = Scaling::open(&config, &recipe, reduce, start, amaxes.as_ref())?;
        let sampler = Arc::new(Mutex::new(sampler));
        let mailbox = Arc::new(Mailbox::new(start));
        let stats = Arc::new(Stats::default());
        let (events, inbox) = mpsc::unbounded_channel();
        let mut receiver = Self {
            mailbox,
            sampler,
            stats,
            manifests,
            recipe,
            scaling: Arc::new(scaling),
            config,
            events,
            autosave,
            runtime: None,
            ended: Mutex::new(None),
            following: Mutex::new(None),
            made_in: std::process::id(),
        };
        runtime.block_on(receiver.start(start, inbox, handles, device_allocator))?;
        receiver.runtime = Some(runtime);
        Ok(receiver)
    }

    async fn start(
        &self,
        start: Position,
        inbox: mpsc::UnboundedReceiver<Event>,
        datasets: Vec<Dataset>,
        allocator: Option<Box<dyn DeviceAllocator>>,
    ) -> Result<(), ReceiverError> {
        let (ordered, follow) = watch::channel(start);
        tokio::spawn(tell_storage(Arc::clone(&self.sampler), datasets, follow));
        let access = Access::open(&self.config.security)?;
        let layout = Layout::new(&self.recipe, self.config.batch_samples);
        let largest = layout.len_bytes();
        let twins = Twins::open(&self.config, &self.recipe, &layout, allocator)?;
        let slots_bytes = largest * self.config.slots_limit() as u64;
        let links = open_links(&self.config, &access, slots_bytes, &self.events).await?;
        let make = SlotMaker {
            len_bytes: largest,
            shm_dir: self.config.shm_dir.clone(),
            shared: links.iter().any(|link| link.kind() == LinkKind::Shm),
            huge_pages: self.config.huge_pages,
            twins,
            gpudirect: self.config.gpudirect,
        };
        let mut slots = SlotPool::new(make, links.clone(), self.config.slots_limit());
        slots.reserve(self.config.window_batches as usize + 1)?;
        let digests: Vec<_> = self.manifests.iter().map(|m| m.digest()).collect();
        let scope = PartScope::new(self.recipe.digest(), &digests, self.config.seed);
        let (leaving, left) = watch::channel(false);
        let sessions_shared = Arc::new(SessionShared {
            dial: Arc::new(Grpc { access }),
            hello: self.hello(),
            links,
            events: self.events.clone(),
            heartbeat: self.config.heartbeat(),
            next_peer: AtomicU64::new(1),
            leaving: left,
        });
        let (releases, released) = mpsc::unbounded_channel();
        let driver = Driver {
            ledger: Ledger::new(ledger_config(&self.config), scope),
            slots,
            sampler: Arc::clone(&self.sampler),
            mailbox: Arc::clone(&self.mailbox),
            stats: Arc::clone(&self.stats),
            recipe: self.recipe.clone(),
            scaling: Arc::clone(&self.scaling),
            masking: Masking::new(&self.config, &self.recipe)?,
            verify: self.config.verify,
            window_batches: self.config.window_batches as usize,
            worker_wait: Duration::from_millis(self.config.worker_wait_ms.into()),
            epochs_ahead: u32::from(self.config.prefetch_next_epoch),
            epochs: self.config.epochs,
            sessions_shared,
            releases,
            ordered,
            leaving,
            state: DriverState::new(start),
        };
        let run = driver.run(inbox, released);
        let (end, ended) = std::sync::mpsc::channel();
        tokio::spawn(async move {
            run.await;
            let _ = end.send(());
        });
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        self.follow(places("workers", &self.config.workers)?, &Handle::current());
        Ok(())
    }

    fn hello(&self) -> SessionHello {
        let name =
            |m: &Arc<Manifest>| DatasetRef { name: m.dataset().to_owned(), manifest: m.digest() };
        SessionHello {
            wire_version: WIRE_VERSION,
            receiver: format!("{}/{}", self.config.job, self.config.rank),
            session_key: [0; 32],
            recipe: self.recipe.clone(),
            seed: self.config.seed,
            datasets: self.manifests.iter().map(name).collect(),
            links: Vec::new(),
            heartbeat_ms: self.config.heartbeat_ms,
            on_bad_sample: self.config.on_bad_sample,
            image_field: self.config.image_field.clone(),
            label_field: self.config.label_field.clone(),
        }
    }

    /// The next batch; `None` once at the end of each epoch, and from the last epoch on.
    ///
    /// Blocks. Batches come strictly in order of step.
    ///
    /// # Errors
    /// See [`ReceiverError`]; after `NoWorker` and `SlotsHeld` it may be called again.
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
    /// As for [`Receiver::next_batch`]; `NoWorker` and `SlotsHeld` only where they lasted into the
    /// wait, which may take 50 ms to show.
    pub fn next_within(&self, limit: Duration) -> Result<Option<Option<Batch>>, ReceiverError> {
        let runtime = self.runtime()?;
        if self.is_over() {
            return Ok(Some(None));
        }
        if let Some(autosave) = &self.autosave {
            autosave.step_is_over(self);
        }
        let asked = Instant::now();
        loop {
            let changed = self.mailbox.changed();
            let taking = self.scaling.taking();
            match self.mailbox.take(asked, |epoch| self.steps_per_epoch(epoch))? {
                Found::Batch(batch) => {
                    self.taken(&batch)?;
                    self.stats.stalled(asked.elapsed());
                    // Wakes the driver: there is room in the window.
                    self.runtime_nudge();
                    return Ok(Some(Some(batch)));
                }
                Found::EpochEnd => {
                    self.runtime_nudge();
                    return Ok(Some(None));
                }
                Found::Nothing => {}
            }
            drop(taking);
            let left = limit.saturating_sub(asked.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            runtime.block_on(async { tokio::time::timeout(left, changed).await }).ok();
        }
    }

    fn taken(&self, batch: &Batch) -> Result<(), ReceiverError> {
        self.scaling.taken(batch).inspect_err(|error| {
            // Scales of later batches follow from this one's amaxes: none of them may be taken.
            self.mailbox.cut(ReceiverError::Closed { reason: error.to_string() });
        })
    }

    fn runtime_nudge(&self) {
        let _ = self.events.send(Event::Nudge);
    }

    /// Goes to the start of an epoch. Nothing is lost where the stream is there already.
    ///
    /// # Errors
    /// The receiver is closed.
    pub fn set_epoch(&self, epoch: u32) -> Result<(), ReceiverError> {
        self.seek(Position { epoch, step: 0 })
    }

    /// Goes to any place of the stream; the next batch is the one of that place.
    ///
    /// # Errors
    /// There is no such place, or it lies within an epoch and scales of FP8 are delayed: the stream
    /// goes on as before. The receiver is closed.
    pub fn seek(&self, position: Position) -> Result<(), ReceiverError> {
        if self.mailbox.position() == position {
            return Ok(());
        }
        self.scaling.check_seek(position)?;
        // The driver would end the stream over it.
        lock(&self.sampler).batch(position.epoch, position.step)?;
        self.ask(|reply| Command::Seek(position, reply))?
    }

    /// Sets the datasets' weights, in force from the next batch that is taken: what was made
    /// ahead is withdrawn and made again. Every rank must call it at the same place.
    ///
    /// # Errors
    /// Weights that are wrong, naming the dataset.
    pub fn set_weights(&self, weights: Vec<f64>) -> Result<(), ReceiverError> {
        self.ask(|reply| Command::SetWeights(weights, reply))??;
        Ok(())
    }

    /// The workers there should be, written as in `receiver.workers`: sessions with others are
    /// ended, with new ones begun. Takes the place of what was configured or set before.
    ///
    /// # Errors
    /// An entry that cannot be understood; the receiver is closed.
    pub fn set_workers(&self, workers: &[String]) -> Result<(), ReceiverError> {
        let runtime = self.runtime()?;
        if self.events.is_closed() {
            return Err(closed());
        }
        self.follow(places("workers", workers)?, runtime.handle());
        Ok(())
    }

    /// Looks for workers there, and nowhere else from now on.
    fn follow(&self, places: Places, handle: &Handle) {
        let refresh = Duration::from_millis(self.config.workers_refresh_ms.into());
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = following.take() {
            before.abort();
        }
        let follow = follow_workers(places, refresh, self.events.clone());
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
        lock(&self.sampler).steps_per_epoch(epoch)
    }

    /// Whether the last epoch has been taken whole.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.config.epochs > 0 && self.position().epoch >= self.config.epochs
    }

    /// The job-wide number of a step, counted over epochs.
    #[must_use]
    pub fn job_step(&self, epoch: u32, step: u64) -> u64 {
        lock(&self.sampler).job_step(epoch, step)
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

    /// What the receiver was told.
    #[must_use]
    pub fn config(&self) -> &ReceiverConfig {
        &self.config
    }

    /// Figures so far.
    #[must_use]
    pub fn stats(&self) -> Snapshot {
        self.stats.snapshot()
    }

    pub(crate) fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ReceiverError> {
        let runtime = self.runtime()?;
        let (reply, answer) = oneshot::channel();
        self.events.send(Event::Command(command(reply))).map_err(|_| closed())?;
        runtime.block_on(answer).map_err(|_| closed())
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
        let _ = self.events.send(Event::Command(Command::Stop));
        if let Some(ended) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = ended.recv_timeout(END_LIMIT);
        }
        runtime.shutdown_timeout(Duration::from_secs(2));
    }
}

fn closed() -> ReceiverError {
    ReceiverError::Closed { reason: "its own task has ended".into() }
}
