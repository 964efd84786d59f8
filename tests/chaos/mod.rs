//! Workers, storage nodes and the trainer itself are killed, stopped, drained and started again; shards,
//! descriptors and memory are taken away, clocks jump, a storage node lies: the trainer gets the batches
//! that it would have got anyway.
//!
//! `HEADWATER_CHAOS_SEED` replays a schedule of faults, `HEADWATER_CHAOS_SECONDS` makes it longer, and
//! `HEADWATER_CHAOS_DRESS` names the recipe, or is `all`; `make soak` sets them, and keeps the report. Each rank,
//! and the trials beside them, compare what they release with what they were given (`receiver.verify_held`).

mod dress;
mod faults;
mod liar;
mod report;
mod restless;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dress::Dress;
use faults::{Fault, Means};
use headwater_core::draw::DrawRng;
use headwater_core::{DrawKey, SampleId};
use headwater_receiver::{LeaseConfig, ReceiverConfig};
use report::report;
use restless::Restless;
use rustix::process::Signal;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::{CALM_HEARTBEAT_MS, HEARTBEAT_MS, Ranks, Stream};
use crate::support::{unix_ms, variable};

const SECONDS_DEFAULT: u64 = 8;
const WORKERS: usize = 3;
const WORLD: u32 = 2;
/// Workers beyond the first read over gRPC: a file that they have open would outlive its storage node.
const OVER_GRPC: &str = "local_files = \"off\"";
/// Shards are opened anew again and again.
const ONE_SHARD: &str = "open_shards_max = 1";
const ONE_LOCAL_SHARD: &str = "local_shards_max = 1";

/// Steps between checkpoints: a trainer that is killed goes back by at most this number.
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
    dress: Dress,
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
    fn new(seed: u64, dress: Dress, place: tempfile::TempDir) -> Self {
        let sample = SampleId::new(0, 0);
        let key = DrawKey { seed, epoch: 0, pass: 0, sample, stream: 0 };
        let shards = place.path().join("shards");
        copy_shards(&dress.data(), &shards);
        let forged = place.path().join("forged");
        liar::forge(&shards, &forged);
        let means = Means::find(place.path());
        let mut fleet = Fleet::empty(shards.join(dress.shards.1), "");
        fleet.store(ONE_SHARD);
        for number in 0..2 {
            means.surround(&mut fleet, number == 1);
            fleet.add_storage();
        }
        for number in 0..WORKERS {
            means.surround(&mut fleet, number + 1 == WORKERS);
            fleet.add_worker(&Self::worker_config(&dress, number));
        }
        let mut config = ReceiverConfig {
            world_size: WORLD,
            batch_samples: 8,
            epochs: 1_000_000,
            links: vec!["shm".into(), "tcp".into()],
            ..fleet.config()
        };
        config.leases.heartbeat_ms = HEARTBEAT_MS;
        let mut ranks = Self::start(&config, &dress, &fleet, 0);
        ranks.wait_for(0, 3);
        let times = vec![Vec::new(); WORLD as usize];
        let (taken, injected) = (Stream::new(), Vec::new());
        Self {
            rng: key.rng(),
            fleet,
            means,
            shards,
            forged,
            dress,
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

    fn worker_config(dress: &Dress, number: usize) -> String {
        let reading = if number == 0 { ONE_LOCAL_SHARD } else { OVER_GRPC };
        format!("{reading}\n{}", dress.worker)
    }

    /// A life of the trainer, which goes on from the newest checkpoint of the one before.
    fn start(config: &ReceiverConfig, dress: &Dress, fleet: &Fleet, life: usize) -> Ranks {
        let checkpoints = fleet.dir().join("checkpoints");
        let keys = [
            format!("receiver.checkpoint_dir={}", checkpoints.display()),
            format!("receiver.checkpoint_every_steps={CHECKPOINT_STEPS}"),
            "receiver.resume=true".to_owned(),
        ];
        let settings = keys.iter().chain(&dress.settings);
        let set = support::set_flags(settings);
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
        self.ranks = Self::start(&self.config, &self.dress, &self.fleet, self.lives);
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
        self.ranks.end();
        self.note_life();
        std::mem::take(&mut self.taken)
    }
}

/// The shards of a folder, where nobody else reads them.
fn copy_shards(of: &Path, folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    let shards = std::fs::read_dir(of).expect("shards");
    for file in shards.map(|file| file.expect("a file").path()) {
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

/// The dresses of this run, and for how long each is worn.
fn dresses(place: &Path) -> (Vec<Dress>, Duration) {
    let seconds = variable("HEADWATER_CHAOS_SECONDS", SECONDS_DEFAULT);
    let mut all = Dress::all(place);
    let named = std::env::var("HEADWATER_CHAOS_DRESS").unwrap_or_default();
    match named.as_str() {
        "all" => {}
        // The one that has been worn longest; others are the soak's.
        "" => all.retain(|dress| dress.name == "dinov2"),
        name => all.retain(|dress| dress.name == name),
    }
    assert!(!all.is_empty(), "HEADWATER_CHAOS_DRESS is `{named}`, which there is not");
    let each = Duration::from_secs(seconds) / all.len() as u32;
    (all, each)
}

#[test]
fn faults_of_every_kind_change_no_batch() {
    let seed = variable("HEADWATER_CHAOS_SEED", unix_ms());
    let place = tempfile::tempdir().expect("a folder");
    let (dresses, lasts) = dresses(place.path());
    let (mut faults, mut compared) = (0, 0);
    for dress in dresses {
        println!("HEADWATER_CHAOS_SEED={seed} HEADWATER_CHAOS_DRESS={}", dress.name);
        let (injected, batches) = faults_change_no_batch(seed, dress, lasts);
        faults += injected;
        compared += batches;
    }
    println!(
        "all: {faults} faults, {compared} batches compared, 0 differ, 0 changed while they were held"
    );
}

/// Faults, the batches that were compared.
fn faults_change_no_batch(seed: u64, dress: Dress, lasts: Duration) -> (usize, usize) {
    let place = tempfile::tempdir().expect("a folder");
    let mut chaos = Chaos::new(seed, dress, place);
    let restless = Restless::start(&chaos.config, &chaos.dress, seed);
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
    let restless = restless.finish();
    let faulty = chaos.finish();
    let undisturbed = undisturbed(&chaos, faulty.len());
    assert!(faulty.keys().eq(undisturbed.keys()), "not the same batches");
    for (place, batch) in &faulty {
        assert!(batch == &undisturbed[place], "{place:?} differs from a run without faults");
    }
    let mut compared = faulty.len() * WORLD as usize;
    for (place, batch) in restless.iter().flatten() {
        // Rank 0 has the first samples of a global batch.
        let Some(expected) = undisturbed.get(place) else { continue };
        assert!(batch[..] == expected[..batch.len()], "{place:?} of a restless trial differs");
        compared += 1;
    }
    println!("{}", report(seed, &chaos, compared));
    (chaos.injected.len(), compared)
}

/// The first batches of the same stream from a fleet to which nothing happens.
fn undisturbed(chaos: &Chaos, batches: usize) -> Stream {
    let dress = &chaos.dress;
    let mut fleet = Fleet::without_workers(dress.data().join(dress.shards.1));
    (0..2).for_each(|_| _ = fleet.add_worker(&dress.worker));
    let (storage, workers) = (fleet.config().storage, fleet.config().workers);
    let heartbeat_ms = CALM_HEARTBEAT_MS;
    let leases = LeaseConfig { heartbeat_ms, ..chaos.config.leases.clone() };
    let calm = ReceiverConfig { storage, workers, leases, ..chaos.config.clone() };
    let only = ["--batches".to_owned(), batches.to_string()];
    let only: Vec<String> = only.into_iter().chain(support::set_flags(&dress.settings)).collect();
    let mut ranks = Ranks::start(&calm, chaos.fleet.dir(), "undisturbed", &only);
    ranks.finish();
    ranks.stream()
}
