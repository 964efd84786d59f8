//! The service of a host: a receiver, and the trials that are given its batches.

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headwater_core::Recipe;
use headwater_core::part::PartScope;
use headwater_inventory::Machine;
use headwater_transport::SLOTS_MAX;
use headwater_transport::packets::PacketSocket;
use tokio::sync::Notify;

use super::batch_cache::{BatchCache, ClientId, Demand, Reply, Want};
use super::frames::{self, Inbox};
use super::held::{HELD_ALWAYS, HELD_BEYOND, Held, HeldByAll, RESERVES_MAX, held_max};
use super::messages::{Answer, Ask, Sample};
use crate::batch::Batch;
use crate::config::{DatasetUse, ReceiverConfig};
use crate::error::ReceiverError;
use crate::position::Position;
use crate::receiver::Receiver;
use crate::room::{slots_to_lock, slots_with_room};
use crate::setup::hello;

/// How long is waited for a batch between two looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// How long no trial is given batches before the service leaves its workers.
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// How often a trial that waits hears that it is not forgotten.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// Questions that a trial may have open.
const ASKS_MAX: usize = 64;

/// A receiver whose batches the trials of a host are given.
pub struct HostService {
    shared: Arc<Shared>,
    making: Option<JoinHandle<()>>,
}

struct Shared {
    receiver: Receiver,
    scope: PartScope,
    stock: Mutex<BatchCache<Batch>>,
    /// What trials hold.
    held: Arc<Mutex<HeldByAll>>,
    /// Rung when somebody wants something.
    wanted: Condvar,
    /// Rung when there may be something to say to trials.
    changed: Notify,
    ended: AtomicBool,
    next_client: AtomicU64,
}

/// A trial that is attended to, until this is dropped.
struct Client<'a> {
    shared: &'a Shared,
    id: ClientId,
    held: Held<Batch>,
    /// Slots whose memory it has, in order.
    known: Vec<u32>,
}

// === impl HostService ===

impl HostService {
    /// What the service follows of a trial's configuration: equal for trials that can share it. What a trial has
    /// or draws by itself has its default, and so has what only a GPU needs.
    #[must_use]
    pub fn config(of_trial: &ReceiverConfig) -> ReceiverConfig {
        let ReceiverConfig { job, epochs, drawn, checkpoints, window, device, .. } =
            ReceiverConfig::default();
        let mut config = ReceiverConfig { job, epochs, drawn, checkpoints, ..of_trial.clone() };
        config.window.slots_max = window.slots_max;
        config.device.gpudirect = device.gpudirect;
        config.device.cuda_cache_dir = device.cuda_cache_dir;
        config
    }

    /// Opens a receiver as a trial of this configuration would have one, without what is the trial's own, and
    /// makes batches when they are asked for.
    ///
    /// Blocks until the storage tier has answered; not to be called on an async thread.
    ///
    /// # Errors
    /// As [`Receiver::open`].
    pub fn open(
        config: &ReceiverConfig,
        recipe: Recipe,
        datasets: &[DatasetUse],
    ) -> Result<Self, ReceiverError> {
        recipe.validate()?;
        let machine = Machine::this();
        // Others have none that would take more than half of the memory.
        let room = slots_with_room(&machine, config, &recipe).map(|slots| slots / 2);
        let room = room.into_iter().chain(slots_to_lock(&machine, config, &recipe)).min();
        let window = &config.window;
        let held_by_all = (window.host_batches + HELD_BEYOND) as usize;
        // Those that are made, those that are kept, and those that trials hold.
        let made_and_kept = (window.window_batches + window.host_batches) as usize;
        let reserves = reserves(made_and_kept + held_by_all, room);
        let slots_max = made_and_kept + held_max(held_by_all, reserves);
        let mut own = Self::config(config);
        own.window.slots_max = slots_max as u32;
        let receiver = Receiver::open(own, recipe, datasets)?;
        let keep = window.host_batches as usize;
        let scope = hello(receiver.config(), receiver.recipe(), receiver.manifests()).part_scope();
        let shared = Arc::new(Shared {
            scope,
            receiver,
            stock: Mutex::new(BatchCache::new(
                keep,
                window.window_batches.into(),
                window.max_lead.into(),
            )),
            held: HeldByAll::new(held_by_all, reserves),
            wanted: Condvar::new(),
            changed: Notify::new(),
            ended: AtomicBool::new(false),
            next_client: AtomicU64::new(1),
        });
        let maker = Arc::clone(&shared);
        let making = std::thread::Builder::new().name("hw-host".into()).spawn(move || maker.make());
        let making = making
            .map_err(|error| ReceiverError::Closed { reason: format!("no threads: {error}") })?;
        Ok(Self { shared, making: Some(making) })
    }

    /// Attends to a trial until it leaves, or until `gone` says that its process has ended.
    ///
    /// # Errors
    /// It does not follow the protocol, or cannot be given a slot's memory.
    pub async fn attend(
        &self,
        socket: PacketSocket,
        gone: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let id = ClientId(self.shared.next_client.fetch_add(1, Ordering::Relaxed));
        self.shared.stock().enter(id);
        let held = Held::new(Arc::clone(&self.shared.held));
        let mut client = Client { shared: &self.shared, id, held, known: Vec::new() };
        let mut gone = pin!(gone);
        let ended = tokio::select! {
            ended = client.attended(&socket) => ended,
            () = &mut gone => return Ok(()),
        };
        if ended.is_err() {
            // The trial goes on without the service, and reads what it was given until it closes
            // its end.
            client.send_away();
            tokio::select! {
                () = closed(&socket) => {}
                () = gone => {}
            }
        }
        ended
    }
}

/// Trials that can have a reserve at a time, where `slots` are needed for all else, of those that there is room for. The
/// first trial has one in any case. Their slots are made only when they keep batches that nobody else has.
fn reserves(slots: usize, with_room: Option<u64>) -> usize {
    let with_room = with_room.map_or(SLOTS_MAX, |slots| SLOTS_MAX.min(slots as usize));
    (with_room.saturating_sub(slots) / HELD_ALWAYS).clamp(1, RESERVES_MAX)
}

/// Tells a trial that nothing more comes, and waits until it has let go of what it has.
async fn closed(socket: &PacketSocket) {
    // Where that fails the connection has ended already.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
    let mut inbox = Inbox::default();
    loop {
        match inbox.receive::<Ask>(socket).await {
            Ok(None) => return,
            Ok(Some(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            // Not to be known by this connection: its process is waited for.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for HostService {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.shared.wanted.notify_all();
        if let Some(making) = self.making.take() {
            let _ = making.join();
        }
    }
}

// === impl Shared ===

impl Shared {
    fn stock(&self) -> MutexGuard<'_, BatchCache<Batch>> {
        // Every change is complete before anything can panic.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trial is not waited for any more: another one may now be the only one, and go where it
    /// wants.
    fn ring(&self) {
        self.changed.notify_waiters();
        self.wanted.notify_all();
    }

    /// Makes what is wanted, until the service ends. While no trial is given batches here, other receivers do not
    /// wait for this one.
    fn make(&self) {
        let (mut is_idle, mut followed) = (false, Instant::now());
        while !self.ended.load(Ordering::Relaxed) {
            let (demand, is_followed) = self.demand();
            if is_followed {
                followed = Instant::now();
            }
            let idle = followed.elapsed() >= IDLE_AFTER;
            if idle != is_idle {
                is_idle = idle;
                // Where it has ended, the next batch says so.
                let _ = self.receiver.set_idle(idle);
            }
            let made = match demand {
                Demand::Nothing => continue,
                Demand::Next => self.make_next(),
                Demand::Seek(at, number) => self.seek(at, number),
            };
            if let Err(error) = made {
                self.failed(&error);
            }
            self.changed.notify_waiters();
        }
        // The receiver may outlive this, as long as trials hold batches.
        let _ = self.receiver.set_idle(true);
    }

    /// What is wanted, as soon as anything is or a little later, and whether any trial is given batches here.
    fn demand(&self) -> (Demand, bool) {
        let waits = |stock: &mut BatchCache<Batch>| {
            stock.demand() == Demand::Nothing && !self.ended.load(Ordering::Relaxed)
        };
        let waited = self.wanted.wait_timeout_while(self.stock(), LOOK, waits);
        let (stock, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (stock.demand(), stock.is_followed())
    }

    fn make_next(&self) -> Result<(), ReceiverError> {
        // `None` in the place of a batch: an epoch is over, and the next begins.
        if let Some(Some(batch)) = self.receiver.next_within(LOOK)? {
            let (epoch, bucket) = (batch.epoch(), batch.bucket());
            let key = self.scope.key(epoch, bucket, batch.samples(), batch.fp8_scales());
            let number = self.receiver.batch_number(epoch, batch.step());
            self.stock().put(number, key, batch);
        }
        Ok(())
    }

    fn seek(&self, at: Position, number: u64) -> Result<(), ReceiverError> {
        self.receiver.seek(at)?;
        self.stock().moved_to(number);
        Ok(())
    }

    fn failed(&self, error: &ReceiverError) {
        let reason = error.to_string();
        tracing::warn!(reason, "trials of this host go on alone");
        let mut stock = self.stock();
        match error {
            ReceiverError::NoWorker { .. }
            | ReceiverError::SlotsHeld { .. }
            | ReceiverError::SlotsKept { .. }
            | ReceiverError::SlotsMissing { .. }
            | ReceiverError::Sampler(_) => stock.fail(&reason),
            _ => {
                stock.end(&reason);
                self.ended.store(true, Ordering::Relaxed);
            }
        }
    }
}

// === impl Client ===

impl Client<'_> {
    async fn attended(&mut self, socket: &PacketSocket) -> io::Result<()> {
        let mut inbox = Inbox::default();
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        loop {
            let changed = self.shared.changed.notified();
            let replies = self.shared.stock().replies(self.id);
            for reply in replies {
                self.say(socket, reply).await?;
            }
            tokio::select! {
                heard = inbox.receive::<Ask>(socket) => match heard? {
                    Some((ask, _)) => self.hear(ask)?,
                    None => return Ok(()),
                },
                () = changed => {}
                _ = alive.tick() => {
                    if self.shared.stock().open_wants(self.id) > 0 {
                        frames::send(socket, &Answer::Alive, None).await?;
                    }
                }
            }
        }
    }

    fn hear(&mut self, ask: Ask) -> io::Result<()> {
        match ask {
            Ask::Want { ask, generation, epoch, step, key } => {
                let at = Position { epoch, step };
                let number = self.shared.receiver.batch_number(epoch, step);
                let mut stock = self.shared.stock();
                stock.want(self.id, Want { ask, generation, number, at, key });
                if stock.open_wants(self.id) > ASKS_MAX {
                    let fault = "a trial asks for more than it may";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
                }
                drop(stock);
                self.shared.wanted.notify_all();
            }
            Ask::Release { ask } => self.held.release(ask)?,
            Ask::Leave => self.send_away(),
        }
        Ok(())
    }

    /// It makes its batches by itself: nobody waits for it.
    fn send_away(&self) {
        self.shared.stock().send_away(self.id);
        self.shared.ring();
    }

    async fn say(&mut self, socket: &PacketSocket, reply: Reply<Batch>) -> io::Result<()> {
        let (ask, batch) = match reply {
            Reply::Gone { ask, reason } => {
                return frames::send(socket, &Answer::Gone { ask, reason }, None).await;
            }
            Reply::Batch { ask, batch } => (ask, batch),
        };
        let slot = batch.slot().0;
        // Before it is sent: from then on the trial may read it.
        if let Err(reason) = self.held.hold(ask, slot, batch.clone())? {
            self.send_away();
            return frames::send(socket, &Answer::Gone { ask, reason }, None).await;
        }
        if !self.known.contains(&slot) {
            self.known.push(slot);
            let Some(file) = batch.memory().file_to_read()? else {
                return Err(io::Error::other("slots of this service are in no file"));
            };
            let answer = Answer::Slot { slot, len_bytes: batch.memory().len_bytes() };
            frames::send(socket, &answer, Some(file.as_fd())).await?;
        }
        let samples = batch.provenance().iter().map(Sample::from).collect();
        let fp8_amaxes = batch.fp8_amaxes().iter().map(|amax| amax.to_bits()).collect();
        frames::send(socket, &Answer::Batch { ask, slot, samples, fp8_amaxes }, None).await
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.shared.stock().leave(self.id);
        self.shared.ring();
    }
}
