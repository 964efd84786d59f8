//! Workers, storage nodes and the trainer itself are killed, stopped, drained and started again; shards,
//! descriptors and memory are taken away, clocks jump, a storage node lies: the trainer gets the batches
//! that it would have got anyway.
//!
//! `HEADWATER_CHAOS_SEED` replays a schedule of faults, `HEADWATER_CHAOS_SECONDS` makes it longer;
//! `make soak` does, and keeps the report.

mod faults;
mod liar;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use faults::{Fault, Means};
use headwater_core::draw::DrawRng;
use headwater_core::{DrawKey, SampleId};
use headwater_receiver::ReceiverConfig;
use report::report;
use rustix::process::Signal;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::{CALM_HEARTBEAT_MS, HEARTBEAT_MS, Ranks, Stream};
use crate::support::{unix_ms, variable};

const SECONDS_DEFAULT: u64 = 12;
const WORKERS: usize = 3;
const WORLD: u32 = 2;
/// Workers beyond the first read over gRPC: a file that they have open would outlive its storage node.
const OVER_GRPC: &str = "local_files = \"off\"";
/// Shards are opened anew again and again.
const ONE_SHARD: &str = "open_shards_max = 1";
const ONE_LOCAL_SHARD: &str = "local_shards_max = 1";

/// Steps between checkpoints: a trainer that is killed goes back by so many at most.
const CHECKPOINT_STEPS: u32 = 5;

/// The faults of one run, all drawn from one seed.
struct Chaos {
    rng: DrawRng,
    fleet: Fleet,
    means: Means,
    /// Folder of the shards.
    shards: PathBuf,
    /// Folder of files that must not be taken for them.
    forged: PathBuf,
    config: ReceiverConfig,
    ranks: Ranks,
    /// How often the trainer was started, and what its earlier lives took.
    lives: usize,
    taken: Stream,
    /// When each rank got each batch, over all lives, in ms.
    times: Vec<Vec<u64>>,
    /// Faults that were injected, with the time of each.
    injected: Vec<(Fault, u64)>,
    /// Lies that storage nodes told.
    lies: usize,
    _place: tempfile::TempDir,
}

// === impl Chaos ===

impl Chaos {
    fn new(seed: u64) -> Self {
        let sample = SampleId::new(0, 0);
        let key = DrawKey { seed, epoch: 0, pass: 0, sample, stream: 0 };
        let place = tempfile::tempdir().expect("a folder");
        let shards = place.path().join("shards");
        copy_shards(&shards);
        let forged = place.path().join("forged");
        liar::forge(&shards, &forged);
        let means = Means::find(place.path());
        let mut fleet = Fleet::empty(shards.join("photos-*.tar"), "");
        fleet.store(ONE_SHARD);
        for number in 0..2 {
            means.surround(&mut fleet, number == 1);
            fleet.add_storage();
        }
        for number in 0..WORKERS {
            means.surround(&mut fleet, number + 1 == WORKERS);
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
        Self {
            rng: key.rng(),
            fleet,
            means,
            shards,
            forged,
            config,
            ranks,
            lives: 1,
            taken,
            times,
            injected,
            lies: 0,
            _place: place,
        }
    }

    fn worker_config(number: usize) -> &'static str {
        if number == 0 { ONE_LOCAL_SHARD } else { OVER_GRPC }
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

/// The photographs, where nobody else reads them.
fn copy_shards(folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    let photos = std::fs::read_dir(support::data("photos")).expect("photographs");
    for file in photos.map(|file| file.expect("a file").path()) {
        if file.extension().is_some_and(|ending| ending == "tar") {
            std::fs::copy(&file, folder.join(file.file_name().expect("a name"))).expect("a copy");
        }
    }
}

/// Whether one place comes right after the other.
fn follows(one: Option<&(u64, u64)>, other: Option<&(u64, u64)>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    *other == (one.0, one.1 + 1) || *other == (one.0 + 1, 0)
}

#[test]
fn faults_of_every_kind_change_no_batch() {
    let seed = variable("HEADWATER_CHAOS_SEED", unix_ms());
    let lasts = Duration::from_secs(variable("HEADWATER_CHAOS_SECONDS", SECONDS_DEFAULT));
    println!("HEADWATER_CHAOS_SEED={seed}");
    let mut chaos = Chaos::new(seed);
    let started = Instant::now();
    // Every kind once at least, however slow the machine is.
    let faults = chaos.means.faults();
    for round in 0.. {
        if round >= faults.len() && started.elapsed() > lasts {
            break;
        }
        let drawn = chaos.below(faults.len());
        chaos.inject(faults[if round < faults.len() { round } else { drawn }]);
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
