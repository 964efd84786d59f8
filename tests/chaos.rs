//! Workers, storage nodes and the trainer itself are killed, stopped, drained and started again: the
//! trainer gets the batches that it would have got anyway.
//!
//! `HEADWATER_CHAOS_SEED` replays a schedule of faults, `HEADWATER_CHAOS_SECONDS` makes it longer;
//! `make soak` does, and keeps the report.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_core::draw::DrawRng;
use headwater_core::{DrawKey, SampleId};
use headwater_receiver::ReceiverConfig;
use rustix::process::Signal;
use support::fleet::Fleet;
use support::trainer::{CALM_HEARTBEAT_MS, HEARTBEAT_MS, Ranks, Stream};
use support::{unix_ms, variable};

const SECONDS_DEFAULT: u64 = 12;
const WORKERS: usize = 3;
const WORLD: u32 = 2;
/// Without faults the machine makes many batches in this time.
const PAUSE_MS: [u64; 2] = [100, 900];
/// Workers beyond the first read over gRPC: a mapped shard would outlive its storage node.
const OVER_GRPC: &str = "local_map = \"off\"";

/// Steps between checkpoints: a trainer that is killed goes back by so many at most.
const CHECKPOINT_STEPS: u32 = 5;
/// Longest time for a process that was asked to end.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// What is done to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillWorker,
    StopWorker,
    DrainWorker,
    KillStorage,
    StopStorage,
    DrainStorage,
    KillTrainer,
}

/// The faults of one run, all drawn from one seed.
struct Chaos {
    rng: DrawRng,
    fleet: Fleet,
    config: ReceiverConfig,
    ranks: Ranks,
    /// How often the trainer was started, and what its earlier lives took.
    lives: usize,
    taken: Stream,
    /// When each rank got each batch, over all lives, in ms.
    times: Vec<Vec<u64>>,
    /// Faults that were injected, with the time of each.
    injected: Vec<(Fault, u64)>,
}

// === impl Fault ===

impl Fault {
    const ALL: [Self; 7] = [
        Self::KillWorker,
        Self::StopWorker,
        Self::DrainWorker,
        Self::KillStorage,
        Self::StopStorage,
        Self::DrainStorage,
        Self::KillTrainer,
    ];
}

// === impl Chaos ===

impl Chaos {
    fn new(seed: u64) -> Self {
        let sample = SampleId::new(0, 0);
        let key = DrawKey { seed, epoch: 0, pass: 0, sample, stream: 0 };
        let mut fleet = Fleet::without_workers(support::data("photos/photos-*.tar"));
        fleet.add_storage();
        for number in 0..WORKERS {
            fleet.add_worker(Self::worker_config(number));
        }
        let config = ReceiverConfig {
            world_size: WORLD,
            batch_samples: 8,
            epochs: 1_000_000,
            heartbeat_ms: HEARTBEAT_MS,
            links: vec!["shm".into(), "tcp".into()],
            ..fleet.config()
        };
        let mut ranks = Self::start(&config, &fleet, 0);
        ranks.wait_for(0, 3);
        let times = vec![Vec::new(); WORLD as usize];
        let (taken, injected) = (Stream::new(), Vec::new());
        Self { rng: key.rng(), fleet, config, ranks, lives: 1, taken, times, injected }
    }

    fn worker_config(number: usize) -> &'static str {
        if number == 0 { "" } else { OVER_GRPC }
    }

    /// A life of the trainer, which goes on from the newest checkpoint of the one before.
    fn start(config: &ReceiverConfig, fleet: &Fleet, life: usize) -> Ranks {
        let checkpoints = fleet.dir().join("checkpoints");
        let keys = [
            format!("receiver.checkpoint_dir={}", checkpoints.display()),
            format!("receiver.checkpoint_every_steps={CHECKPOINT_STEPS}"),
            "receiver.resume=true".to_owned(),
        ];
        let set: Vec<String> = keys.into_iter().flat_map(|key| ["--set".into(), key]).collect();
        Ranks::start(config, fleet.dir(), &format!("life-{life}"), &set)
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.rng.unit() * end as f64) as usize).min(end - 1)
    }

    fn pause(&mut self) {
        let [least, most] = PAUSE_MS;
        let ms = least + self.below((most - least) as usize) as u64;
        sleep(Duration::from_millis(ms));
    }

    /// One fault, from its beginning to its end.
    fn inject(&mut self, fault: Fault) {
        let (worker, storage) = (self.below(WORKERS), self.below(2));
        self.injected.push((fault, unix_ms()));
        match fault {
            Fault::KillWorker => {
                self.fleet.worker(worker).kill();
                self.pause();
                self.fleet.restart_worker(worker, Self::worker_config(worker));
            }
            Fault::StopWorker => {
                self.fleet.worker(worker).signal(Signal::STOP);
                // Often longer than its heartbeats may stay out: it wakes as one given up.
                (0..3).for_each(|_| self.pause());
                self.fleet.worker(worker).signal(Signal::CONT);
            }
            Fault::DrainWorker => {
                self.fleet.worker(worker).signal(Signal::TERM);
                let code = self.fleet.worker(worker).wait(DRAIN_LIMIT);
                assert_eq!(code, Some(0), "a worker that was asked to end");
                self.fleet.restart_worker(worker, Self::worker_config(worker));
            }
            Fault::KillStorage => {
                self.fleet.storage_node(storage).kill();
                self.pause();
                self.fleet.restart_storage_node(storage);
            }
            Fault::StopStorage => {
                self.fleet.storage_node(storage).signal(Signal::STOP);
                self.pause();
                self.fleet.storage_node(storage).signal(Signal::CONT);
            }
            Fault::DrainStorage => {
                self.fleet.storage_node(storage).signal(Signal::TERM);
                let code = self.fleet.storage_node(storage).wait(DRAIN_LIMIT);
                assert_eq!(code, Some(0), "a storage node that was asked to end");
                self.fleet.restart_storage_node(storage);
            }
            Fault::KillTrainer => self.kill_trainer(),
        }
    }

    /// kill -9 of every rank, then the next life. Ranks that train stay together; these do so by
    /// holding back rank 0, which writes the checkpoints.
    fn kill_trainer(&mut self) {
        self.ranks.signal(0, Signal::STOP);
        let taken = self.ranks.taken(0);
        (1..self.ranks.len()).for_each(|rank| self.ranks.wait_for(rank, taken));
        self.ranks.kill();
        self.note_life();
        self.ranks = Self::start(&self.config, &self.fleet, self.lives);
        self.lives += 1;
        // It is a trainer that is killed, not one that starts: it has batches before the next.
        (0..self.ranks.len()).for_each(|rank| self.ranks.wait_for(rank, 1));
    }

    /// Adds what the trainer took in this life. What it took again must be what it was.
    fn note_life(&mut self) {
        for (rank, times) in self.times.iter_mut().enumerate() {
            times.extend(self.ranks.times(rank));
        }
        let stream = self.ranks.stream();
        let (last, first) = (self.taken.keys().next_back(), stream.keys().next());
        assert!(first <= last || last.is_none() || follows(last, first), "a hole before {first:?}");
        for (place, batch) in stream {
            let before = self.taken.insert(place, batch);
            let same = before.is_none_or(|before| before == self.taken[&place]);
            assert!(same, "{place:?} differs in life {}", self.lives);
        }
    }

    /// Ends the trainer in order; all that it took.
    fn finish(&mut self) -> Stream {
        let before = self.ranks.taken(0);
        self.ranks.wait_for(0, before + 5);
        (0..self.ranks.len()).for_each(|rank| self.ranks.signal(rank, Signal::TERM));
        self.ranks.finish();
        self.note_life();
        std::mem::take(&mut self.taken)
    }
}

/// Whether one place comes right after the other.
fn follows(one: Option<&(u64, u64)>, other: Option<&(u64, u64)>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    *other == (one.0, one.1 + 1) || *other == (one.0 + 1, 0)
}

/// How long after a fault no rank got a batch, in ms: from the last batch before it to the first
/// after it; the worst of the ranks.
fn gap(at: u64, times: &[Vec<u64>]) -> Option<u64> {
    let gap = |times: &Vec<u64>| {
        let after = times.partition_point(|time| *time < at);
        let (before, after) = (times.get(after.wrapping_sub(1))?, times.get(after)?);
        Some(after - before)
    };
    times.iter().filter_map(gap).max()
}

/// Median and worst.
fn spread(mut gaps: Vec<u64>) -> (u64, u64) {
    gaps.sort_unstable();
    let median = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    (median, gaps.last().copied().unwrap_or_default())
}

fn report(seed: u64, chaos: &Chaos, batches: usize) -> String {
    let mut kinds: BTreeMap<Fault, Vec<u64>> = BTreeMap::new();
    for (fault, at) in &chaos.injected {
        kinds.entry(*fault).or_default().extend(gap(*at, &chaos.times));
    }
    let (median, worst) = spread(kinds.values().flatten().copied().collect());
    let compared = batches * WORLD as usize;
    let faults = chaos.injected.len();
    let mut text = format!(
        "seed {seed}: {faults} faults; {compared} batches compared, 0 differ; gap at a fault: \
         median {median} ms, worst {worst} ms"
    );
    for (fault, gaps) in kinds {
        let number = gaps.len();
        let (median, worst) = spread(gaps);
        write!(text, "\n{number:>5} {fault:?}: median {median} ms, worst {worst} ms")
            .expect("text");
    }
    text
}

#[test]
fn faults_of_every_kind_change_no_batch() {
    let seed = variable("HEADWATER_CHAOS_SEED", unix_ms());
    let lasts = Duration::from_secs(variable("HEADWATER_CHAOS_SECONDS", SECONDS_DEFAULT));
    println!("HEADWATER_CHAOS_SEED={seed}");
    let mut chaos = Chaos::new(seed);
    let started = Instant::now();
    // Every kind once at least, however slow the machine is.
    for round in 0.. {
        if round >= Fault::ALL.len() && started.elapsed() > lasts {
            break;
        }
        let drawn = chaos.below(Fault::ALL.len());
        chaos.inject(Fault::ALL[if round < Fault::ALL.len() { round } else { drawn }]);
        chaos.pause();
        chaos.ranks.check();
    }
    let faulty = chaos.finish();

    // The same with a fleet to which nothing happens.
    let batches = faulty.len();
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 2);
    let (storage, workers) = (fleet.config().storage, fleet.config().workers);
    let heartbeat_ms = CALM_HEARTBEAT_MS;
    let calm = ReceiverConfig { storage, workers, heartbeat_ms, ..chaos.config.clone() };
    let only = ["--batches".to_owned(), batches.to_string()];
    let mut undisturbed = Ranks::start(&calm, chaos.fleet.dir(), "undisturbed", &only);
    undisturbed.finish();
    let undisturbed = undisturbed.stream();
    assert!(faulty.keys().eq(undisturbed.keys()), "not the same batches");
    for (place, batch) in &faulty {
        assert!(batch == &undisturbed[place], "{place:?} differs from a run without faults");
    }
    println!("{}", report(seed, &chaos, batches));
}
