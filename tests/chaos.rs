//! Workers and storage nodes that are killed, stopped and started again while an epoch runs: the
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
use support::trainer::Ranks;
use support::{unix_ms, variable};

const SECONDS_DEFAULT: u64 = 12;
const WORKERS: usize = 3;
const WORLD: u32 = 2;
/// Without faults the machine makes many batches in this time.
const PAUSE_MS: [u64; 2] = [100, 900];
/// Workers beyond the first read over gRPC: a mapped shard would outlive its storage node.
const OVER_GRPC: &str = "local_map = \"off\"";

/// What is done to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillWorker,
    StopWorker,
    DrainWorker,
    KillStorage,
    StopStorage,
}

/// The faults of one run, all drawn from one seed.
struct Chaos {
    rng: DrawRng,
    fleet: Fleet,
    /// Faults that were injected, with the time of each.
    injected: Vec<(Fault, u64)>,
}

// === impl Fault ===

impl Fault {
    const ALL: [Self; 5] = [
        Self::KillWorker,
        Self::StopWorker,
        Self::DrainWorker,
        Self::KillStorage,
        Self::StopStorage,
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
        Self { rng: key.rng(), fleet, injected: Vec::new() }
    }

    fn worker_config(number: usize) -> &'static str {
        if number == 0 { "" } else { OVER_GRPC }
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
    fn inject(&mut self) {
        let fault = Fault::ALL[self.below(Fault::ALL.len())];
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
                self.pause();
                self.pause();
                self.fleet.worker(worker).signal(Signal::CONT);
            }
            Fault::DrainWorker => {
                self.fleet.worker(worker).signal(Signal::TERM);
                let code = self.fleet.worker(worker).wait(Duration::from_secs(30));
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
        }
    }
}

/// How long after each fault no rank got a batch, in ms: from the last batch before it to the
/// first after it.
fn gaps(injected: &[(Fault, u64)], ranks: &Ranks) -> Vec<u64> {
    let times: Vec<Vec<u64>> = (0..ranks.len()).map(|rank| ranks.times(rank)).collect();
    let gap = |at: u64, times: &[u64]| {
        let after = times.partition_point(|time| *time < at);
        let (before, after) = (times.get(after.wrapping_sub(1))?, times.get(after)?);
        Some(after - before)
    };
    let worst = |at: u64| times.iter().filter_map(|times| gap(at, times)).max();
    let mut gaps: Vec<u64> = injected.iter().filter_map(|(_, at)| worst(*at)).collect();
    gaps.sort_unstable();
    gaps
}

fn report(seed: u64, chaos: &Chaos, ranks: &Ranks, batches: usize) -> String {
    let mut kinds: BTreeMap<Fault, usize> = BTreeMap::new();
    for (fault, _) in &chaos.injected {
        *kinds.entry(*fault).or_default() += 1;
    }
    let gaps = gaps(&chaos.injected, ranks);
    let median = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    let worst = gaps.last().copied().unwrap_or_default();
    let mut text = format!("seed {seed}: {} faults", chaos.injected.len());
    for (fault, count) in kinds {
        write!(text, ", {count} {fault:?}").expect("text");
    }
    let compared = batches * WORLD as usize;
    write!(text, "; {compared} batches compared, 0 differ; gap at a fault: median {median} ms, ")
        .expect("text");
    write!(text, "worst {worst} ms").expect("text");
    text
}

#[test]
fn faults_of_every_kind_change_no_batch() {
    let seed = variable("HEADWATER_CHAOS_SEED", unix_ms());
    let lasts = Duration::from_secs(variable("HEADWATER_CHAOS_SECONDS", SECONDS_DEFAULT));
    println!("HEADWATER_CHAOS_SEED={seed}");
    let mut chaos = Chaos::new(seed);
    let config = ReceiverConfig {
        world_size: WORLD,
        batch_samples: 8,
        epochs: 1_000_000,
        heartbeat_ms: 200,
        links: vec!["shm".into(), "tcp".into()],
        ..chaos.fleet.config()
    };
    let folder = chaos.fleet.dir().to_owned();
    let mut ranks = Ranks::start(&config, &folder, "faulty", &[]);
    ranks.wait_for(0, 3);
    let started = Instant::now();
    while started.elapsed() < lasts {
        chaos.inject();
        chaos.pause();
        ranks.check();
    }
    let before = ranks.taken(0);
    ranks.wait_for(0, before + 5);
    (0..ranks.len()).for_each(|rank| ranks.signal(rank, Signal::TERM));
    ranks.finish();
    let faulty = ranks.stream();

    // The same with a fleet to which nothing happens.
    let batches = faulty.len();
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 2);
    let (storage, workers) = (fleet.config().storage, fleet.config().workers);
    let calm = ReceiverConfig { storage, workers, ..config };
    let only = ["--batches".to_owned(), batches.to_string()];
    let mut undisturbed = Ranks::start(&calm, &folder, "undisturbed", &only);
    undisturbed.finish();
    let undisturbed = undisturbed.stream();
    assert!(faulty.keys().eq(undisturbed.keys()), "not the same batches");
    for (place, batch) in &faulty {
        assert!(batch == &undisturbed[place], "{place:?} differs from a run without faults");
    }
    println!("{}", report(seed, &chaos, &ranks, batches));
}
