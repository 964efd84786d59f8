//! A fleet of real receivers among modelled workers and storage nodes, on virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::recipe::CropSpec;
use headwater_core::sampler::{Sampler, SamplerConfig};
use headwater_core::{Digest, Dtype, Layout, Manifest, Recipe, ShardEntry};
use headwater_proto::WIRE_VERSION;
use headwater_proto::augment::{FromWorker, SessionHello, SessionWelcome};
use headwater_transport::{LinkKind, ReceiverLink};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;

use super::link::ModelLink;
use super::network::{Network, chance, count};
use super::scene::Scene;
use super::shares::Shares;
use super::storage::Storage;
use super::trainer::{Jump, Trainer};
use super::worker::{CREDITS, Health, Session, Worker};
use crate::config::{GpuDirect, LeaseConfig, ReceiverConfig, SampleConfig, Verify, WindowConfig};
use crate::driver::{CpuWork, Driver, DriverParts, Outcome};
use crate::events::{Command, DriverHandle, Event, ways};
use crate::mailbox::Mailbox;
use crate::position::Position;
use crate::sample_order::SampleOrder;
use crate::scaling::Scaling;
use crate::sessions::{Dial, DialError, Opened, Refusal};
use crate::setup::pass_on;
use crate::slots::{SlotMaker, SlotPool};
use crate::stats::Stats;

const BATCH_SAMPLES: u32 = 16;
const PART_SAMPLES: u32 = 4;
/// Samples of a batch.
pub(super) const BATCH: u64 = BATCH_SAMPLES as u64;
/// Leases of a batch to which nothing happens.
pub(super) const PARTS: u64 = (BATCH_SAMPLES / PART_SAMPLES) as u64;
/// One worker in this number is on its receivers' host.
const SHM_EVERY: u64 = 4;
/// What late trials are late by, or a multiple.
pub(super) const LATE: Duration = Duration::from_secs(5);
/// Messages on their way to one worker, or from it.
const MESSAGES: usize = 256;

/// How large a fleet is and what it does.
#[derive(Clone, Debug)]
pub(super) struct FleetConfig {
    pub(super) seed: u64,
    pub(super) receivers: usize,
    pub(super) workers: usize,
    /// Workers that a receiver holds sessions with; 0: all. It hears of all of them.
    pub(super) workers_max: u32,
    /// Sessions that a worker takes.
    pub(super) sessions_max: usize,
    /// Receivers that begin when the others have their sessions.
    pub(super) late: usize,
    pub(super) storage_nodes: usize,
    pub(super) steps: u64,
    /// Messages that may be on their way to one worker.
    pub(super) outbox: usize,
    /// Leases that a worker takes at once.
    pub(super) credits: u32,
    /// Receivers are trials: each wants the same parts, and workers share them.
    pub(super) trials: Option<Trials>,
}

/// What trials are like.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trials {
    /// One in five begins later, and one in five ends half-way; their steps take about the same time. Else
    /// they begin together, and the slowest one's steps take 1.44 times as long as the fastest one's.
    pub(super) come_and_go: bool,
    /// Steps before the slowest; 0: any number.
    pub(super) max_lead: u32,
    /// After the first of these steps all go to the second: every other one loads a state, the rest seek.
    pub(super) jump: Option<(u64, u64)>,
}

/// Everything that is modelled.
pub(super) struct World {
    pub(super) scene: Arc<Scene>,
    pub(super) workers: Vec<Arc<Worker>>,
    outbox: usize,
    credits: u32,
    shares: bool,
    /// Links of each receiver.
    pub(super) links: Mutex<BTreeMap<usize, Vec<Arc<ModelLink>>>>,
}

/// A fleet that runs.
pub(super) struct Fleet {
    pub(super) config: FleetConfig,
    pub(super) world: Arc<World>,
    drivers: Mutex<BTreeMap<usize, DriverHandle>>,
    manifest: Arc<Manifest>,
    recipe: Recipe,
}

/// The way from one receiver to all workers.
struct ModelDial {
    receiver: usize,
    world: Arc<World>,
}

// === impl FleetConfig ===

impl FleetConfig {
    /// As many as there are receivers, in proportion.
    pub(super) fn of(seed: u64, receivers: usize, steps: u64) -> Self {
        let (workers, storage_nodes) = (receivers * 2, (receivers / 10).max(3));
        let (workers_max, sessions_max, late) = (16, 4096, 0);
        let (outbox, credits) = (MESSAGES, CREDITS);
        let trials = None;
        Self {
            seed,
            receivers,
            workers,
            workers_max,
            sessions_max,
            late,
            storage_nodes,
            steps,
            outbox,
            credits,
            trials,
        }
    }

    fn comes_and_goes(&self) -> bool {
        self.trials.is_some_and(|trials| trials.come_and_go)
    }

    /// How long a trial's steps take, in per cent.
    fn step_percent(&self, rank: usize) -> u32 {
        let place = rank as u32 % 5;
        if self.comes_and_goes() { 98 + place } else { 90 + 10 * place }
    }

    /// Steps that a receiver's trainer takes.
    pub(super) fn steps_of(&self, rank: usize) -> u64 {
        let jump = self.trials.and_then(|trials| trials.jump);
        let steps = self.steps - jump.map_or(0, |(after, to)| to - after);
        if self.comes_and_goes() && rank % 5 == 1 { steps / 2 } else { steps }
    }

    /// When a receiver starts.
    pub(super) fn start_of(&self, rank: usize) -> Duration {
        if rank + self.late >= self.receivers {
            return LATE;
        }
        let late = self.comes_and_goes() && rank % 5 == 3;
        if late { LATE * (1 + rank as u32 % 3) } else { Duration::ZERO }
    }
}

// === impl World ===

impl World {
    fn new(config: &FleetConfig) -> Self {
        let scene = Scene {
            seed: config.seed,
            network: Network::default(),
            storage: Storage::new(config.storage_nodes),
            started: Instant::now(),
            shares: config.trials.map(|_| Shares::default()),
        };
        Self {
            scene: Arc::new(scene),
            workers: (0..config.workers)
                .map(|number| Arc::new(Worker::new(number, config.sessions_max)))
                .collect(),
            outbox: config.outbox,
            credits: config.credits,
            shares: config.trials.is_some(),
            links: Mutex::default(),
        }
    }

    pub(super) fn set_health(&self, worker: usize, health: Health) {
        self.workers[worker].health.send_replace(health);
        if let (Some(shares), Health::Dead | Health::Silent | Health::Drains) =
            (&self.scene.shares, health)
        {
            shares.forget(worker);
        }
    }

    fn link(&self, receiver: usize, kind: LinkKind) -> Option<Arc<ModelLink>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&receiver)?.iter().find(|link| link.kind() == kind).cloned()
    }
}

// === impl ModelDial ===

#[async_trait]
impl Dial for ModelDial {
    async fn dial(
        &self,
        address: &str,
        hello: SessionHello,
        _links: &[Arc<dyn ReceiverLink>],
    ) -> Result<Opened, DialError> {
        let failed = |reason: &str, refusal| DialError {
            reason: reason.to_owned(),
            hopeless: false,
            refusal,
        };
        let refused = |reason: &str| failed(reason, Refusal::Other);
        let number = address.trim_start_matches("worker-").trim_end_matches(":7402");
        let worker = &self.world.workers[number.parse::<usize>().expect("a worker's number")];
        self.world.scene.network.pass(self.receiver, worker.number).await;
        let health = *worker.health.borrow();
        match health {
            Health::Serves | Health::Wedged => {}
            Health::Silent => std::future::pending().await,
            Health::Dead | Health::Drains => return Err(refused("connection refused")),
        }
        let near = chance(self.world.scene.seed, "near", [worker.number as u64, 0], SHM_EVERY) == 0;
        let kind = if near { LinkKind::Shm } else { LinkKind::Tcp };
        let link = self.world.link(self.receiver, kind).expect("links before sessions");
        let peer = link.connect(&hello.session_key).ok_or_else(|| refused("unknown key"))?;
        let held = hello.sessions_held;
        let now = self.world.scene.started.elapsed();
        let seat = match worker.enter(&hello.receiver, held, now) {
            Ok(seat) => seat,
            Err(is_kept) => {
                self.world.scene.network.pass(self.receiver, worker.number).await;
                let refusal = if is_kept { Refusal::Place } else { Refusal::Full };
                return Err(failed("as many sessions as may be", refusal));
            }
        };
        count(&self.world.scene.network.counts.sessions);
        let (outbox, worker_inbox) = mpsc::channel(self.world.outbox);
        let (worker_outbox, inbox) = mpsc::channel::<Result<FromWorker, String>>(MESSAGES);
        let heartbeat = Duration::from_millis(hello.heartbeat_ms.into());
        tokio::spawn(Arc::clone(worker).serve(
            Arc::clone(&self.world.scene),
            Session {
                receiver: self.receiver,
                peer,
                stream: hello.stream,
                heartbeat,
                link,
                seat,
                inbox: worker_inbox,
                outbox: worker_outbox,
            },
        ));
        self.world.scene.network.pass(self.receiver, worker.number).await;
        let welcome = SessionWelcome {
            wire_version: WIRE_VERSION,
            worker: format!("worker-{}", worker.number),
            link: kind.name().to_owned(),
            refused_links: Vec::new(),
            credits: self.world.credits,
            backend: "modelled".to_owned(),
            shares: self.world.shares,
        };
        Ok(Opened { outbox, inbox: Box::pin(ReceiverStream::new(inbox)), welcome })
    }
}

// === impl Fleet ===

impl Fleet {
    /// A fleet in which nobody has started.
    pub(super) fn new(config: FleetConfig) -> Self {
        let world = Arc::new(World::new(&config));
        let manifest = Arc::new(manifest(&config));
        let (recipe, drivers) = (recipe(), Mutex::default());
        Self { config, world, drivers, manifest, recipe }
    }

    /// Starts every receiver, with a trainer that takes its batches. Tells each which workers there are, less
    /// those that are left out.
    pub(super) async fn start(
        self: &Arc<Self>,
        left_out: impl Fn(usize) -> bool,
    ) -> Vec<JoinHandle<Trainer>> {
        let mut trainers = Vec::new();
        for rank in 0..self.config.receivers {
            let late = self.config.start_of(rank);
            let first = late.is_zero().then(|| self.start_receiver(rank));
            let fleet = Arc::clone(self);
            trainers.push(tokio::spawn(async move {
                let trainer = match first {
                    Some(trainer) => trainer,
                    None => fleet.start_later(rank, late).await,
                };
                let trainer = trainer.train().await;
                // A trial that is through does not disturb the others.
                if fleet.config.trials.is_some() {
                    fleet.stop(rank);
                }
                trainer
            }));
        }
        self.tell_workers(left_out).await;
        trainers
    }

    async fn start_later(&self, rank: usize, late: Duration) -> Trainer {
        sleep(late).await;
        let trainer = self.start_receiver(rank);
        self.tell(rank, &self.workers(|_| false)).await;
        trainer
    }

    /// Tells every receiver which workers there are, less those that are left out.
    pub(super) async fn tell_workers(&self, left_out: impl Fn(usize) -> bool) {
        let list = self.workers(left_out);
        let ranks: Vec<usize> = self.drivers().keys().copied().collect();
        for rank in ranks {
            self.tell(rank, &list).await;
        }
    }

    fn workers(&self, left_out: impl Fn(usize) -> bool) -> Arc<[String]> {
        let there = (0..self.config.workers).filter(|worker| !left_out(*worker));
        there.map(|worker| format!("worker-{worker}:7402")).collect()
    }

    async fn tell(&self, rank: usize, list: &Arc<[String]>) {
        let events = self.drivers()[&rank].events.clone();
        events.send(Event::Command(Command::SetWorkers(Arc::clone(list)))).await.ok();
    }

    /// Ends a receiver.
    pub(super) fn stop(&self, rank: usize) {
        self.drivers()[&rank].stop();
    }

    fn drivers(&self) -> MutexGuard<'_, BTreeMap<usize, DriverHandle>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_receiver(&self, rank: usize) -> Trainer {
        let trials = self.config.trials;
        let (driver, inbox) = ways();
        let links: Vec<Arc<ModelLink>> = [LinkKind::Shm, LinkKind::Tcp]
            .map(|kind| {
                let (arrivals, reported) = mpsc::unbounded_channel();
                tokio::spawn(pass_on(kind, reported, driver.events.clone()));
                Arc::new(ModelLink::new(kind, arrivals))
            })
            .into();
        self.world.links.lock().unwrap_or_else(PoisonError::into_inner).insert(rank, links.clone());
        let config = ReceiverConfig {
            rank: if trials.is_some() { 0 } else { rank as u32 },
            world_size: if trials.is_some() { 1 } else { self.config.receivers as u32 },
            batch_samples: BATCH_SAMPLES,
            seed: self.config.seed,
            window: WindowConfig {
                max_lead: trials.map_or(0, |trials| trials.max_lead),
                part_samples: PART_SAMPLES,
                prefetch_next_epoch: false,
                ..WindowConfig::default()
            },
            leases: LeaseConfig {
                workers_max: self.config.workers_max,
                attempts_max: 1000,
                worker_wait_ms: 3_600_000,
                ..LeaseConfig::default()
            },
            samples: SampleConfig { verify: Verify::Off, ..SampleConfig::default() },
            epochs: 1,
            ..ReceiverConfig::default()
        };
        let sampler_config =
            SamplerConfig::new(config.seed, config.world_size, config.rank, config.batch_samples);
        let sampler = Sampler::new(sampler_config, vec![Arc::clone(&self.manifest)]);
        let order = Arc::new(SampleOrder::new(sampler.expect("a sampler")));
        let start = Position { epoch: 0, step: 0 };
        let mailbox = Arc::new(Mailbox::new(start));
        let shared_links: Vec<Arc<dyn ReceiverLink>> =
            links.iter().map(|link| Arc::clone(link) as Arc<dyn ReceiverLink>).collect();
        let scaling = Scaling::open(&config, &self.recipe, None, start, None);
        let parts = DriverParts {
            recipe: self.recipe.clone(),
            manifests: vec![Arc::clone(&self.manifest)],
            order: Arc::clone(&order),
            mailbox: Arc::clone(&mailbox),
            stats: Arc::new(Stats::new()),
            scaling: Arc::new(scaling.expect("static scales")),
            slots: SlotPool::new(self.slots(), shared_links.clone(), config.window.slots_limit()),
            links: shared_links,
            dial: Arc::new(ModelDial { receiver: rank, world: Arc::clone(&self.world) }),
            events: driver.events.clone(),
            start_cpu: in_turn,
            start,
            host: None,
        };
        tokio::spawn(Driver::new(&config, parts).expect("no masks").run(inbox));
        let trainer = Trainer::new(rank, mailbox, Arc::clone(&driver.room), order, links);
        let (config, step_percent) = (&self.config, self.config.step_percent(rank));
        let trainer = match trials {
            Some(Trials { jump, .. }) => {
                let (loads, events) = (rank % 2 == 1, driver.events.clone());
                let jump = jump.map(|(after, to)| Jump { after, to, loads, events });
                trainer.with_pace(step_percent, config.steps_of(rank)).with_jump(jump)
            }
            None => trainer,
        };
        self.drivers().insert(rank, driver);
        trainer
    }

    fn slots(&self) -> SlotMaker {
        let len_bytes = Layout::new(&self.recipe, BATCH_SAMPLES).len_bytes();
        SlotMaker {
            len_bytes,
            shared: false,
            huge_pages: false,
            twins: None,
            exportable: false,
            gpudirect: GpuDirect::Off,
        }
    }
}

/// Does CPU work in the simulation's one thread, in no virtual time.
fn in_turn(tasks: &mut JoinSet<Outcome>, work: CpuWork) {
    tasks.spawn(async { work() });
}

/// Exactly one epoch of the fleet's steps, in shards of 1000 samples and a last one.
fn manifest(config: &FleetConfig) -> Manifest {
    let ranks = if config.trials.is_some() { 1 } else { config.receivers as u64 };
    let all = ranks * u64::from(BATCH_SAMPLES) * config.steps;
    let shard = |number: u64| ShardEntry {
        name: format!("modelled-{number:06}.tar"),
        samples: (all - number * 1000).min(1000) as u32,
        bytes: 1,
        digest: Digest::of(&number.to_le_bytes()),
    };
    let shards = (0..all.div_ceil(1000)).map(shard).collect();
    Manifest::new("modelled".to_owned(), vec!["jpg".to_owned()], shards).expect("a manifest")
}

/// As small as pictures can be: nothing is rendered.
fn recipe() -> Recipe {
    let mut recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    for tensor in &mut recipe.tensors {
        (tensor.height, tensor.width) = (8, 8);
        tensor.views[0].crop = CropSpec::CenterAfterResize { resize: 8 };
    }
    recipe
}
