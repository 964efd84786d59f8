//! Trials that share one copy of their batches and do not take them in order: they look ahead, go back, hold on to
//! batches and let go of them in any order, beside the ranks that train.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use headwater_config::{Loaded, Setting, Sources};
use headwater_core::draw::DrawRng;
use headwater_core::{DrawKey, SampleId};
use headwater_receiver::{Batch, Position, Receiver, ReceiverConfig, ReceiverError, SampleConfig};

use super::dress::Dress;
use crate::support::shared_host::SharedHost;
use crate::support::trainer::Stream;

/// Trials that share.
const TRIALS: usize = 2;
/// Batches that a trial holds at most; the service keeps as many and more.
const HELD_MAX: usize = 3;
/// Batches that it goes back.
const BACK: u64 = 6;
const LIMIT: Duration = Duration::from_secs(5);
/// Lets others run; a batch is held for about as long.
const STEP: Duration = Duration::from_millis(15);

/// Trials that go on until they are stopped.
pub(crate) struct Restless {
    stop: Arc<AtomicBool>,
    trials: Vec<JoinHandle<Stream>>,
    _service: SharedHost,
}

struct Trial {
    receiver: Receiver,
    rng: DrawRng,
    held: Vec<Batch>,
    taken: Stream,
}

// === impl Restless ===

impl Restless {
    /// Trials of rank 0 of `config`, with the recipe of `dress`.
    pub(crate) fn start(config: &ReceiverConfig, dress: &Dress, seed: u64) -> Self {
        let set = dress.settings.iter().map(|set| Setting::parse(set).expect("a setting"));
        let loaded = Loaded::read(&Sources::of_overrides(set.collect())).expect("settings");
        let recipe = loaded.config.recipe.recipe().expect("a recipe");
        let of_dress = loaded.config.receiver;
        let config = ReceiverConfig {
            job: "restless".into(),
            rank: 0,
            samples: SampleConfig {
                verify_held: true,
                python_path: of_dress.samples.python_path,
                ..config.samples.clone()
            },
            links: vec!["shm".into()],
            ..config.clone()
        };
        let service = SharedHost::open(config, recipe);
        let stop = Arc::new(AtomicBool::new(false));
        let trials = (0..TRIALS).map(|number| {
            let sample = SampleId::new(0, number as u64);
            let key = DrawKey { seed, epoch: 0, pass: 0, sample, stream: 1 };
            let trial = Trial::new(service.trial(), key.rng());
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || trial.run(&stop))
        });
        let trials = trials.collect();
        Self { stop, trials, _service: service }
    }

    /// Stops them; the batches of rank 0 that they had, by their places.
    pub(crate) fn finish(self) -> Vec<Stream> {
        self.stop.store(true, Ordering::Relaxed);
        self.trials.into_iter().map(|trial| trial.join().expect("a trial")).collect()
    }
}

// === impl Trial ===

impl Trial {
    fn new(receiver: Receiver, rng: DrawRng) -> Self {
        Self { receiver, rng, held: Vec::new(), taken: Stream::new() }
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.rng.unit() * end as f64) as usize).min(end - 1)
    }

    fn run(mut self, stop: &AtomicBool) -> Stream {
        while !stop.load(Ordering::Relaxed) {
            if self.held.len() == HELD_MAX {
                let any = self.below(HELD_MAX);
                self.held.swap_remove(any);
            }
            if self.below(4) == 0 {
                self.go_back();
            }
            match self.receiver.next_within(LIMIT) {
                Ok(Some(Some(batch))) => self.note(batch),
                Ok(_)
                | Err(
                    ReceiverError::NoWorker { .. }
                    | ReceiverError::SlotsHeld { .. }
                    | ReceiverError::SlotsKept { .. }
                    | ReceiverError::SlotsMissing { .. },
                ) => {}
                Err(error) => panic!("a restless trial: {error}"),
            }
            sleep(STEP);
        }
        self.held.clear();
        assert!(self.receiver.stats().host_batches > 0, "no batch of the service");
        self.receiver.check_held().expect("what was held did not change");
        self.taken
    }

    /// As after a peek at a batch: the ones that are held are asked for once more.
    fn go_back(&mut self) {
        let Position { epoch, step } = self.receiver.position();
        let back = self.below(BACK as usize) as u64;
        let at = Position { epoch, step: step.saturating_sub(back) };
        self.receiver.seek(at).expect("an earlier place");
    }

    /// Notes a batch; one that was there before must be what it was.
    fn note(&mut self, batch: Batch) {
        let digests = batch.sample_digests().expect("on the host");
        let keys = batch.provenance().iter().map(|sample| sample.key.clone());
        let now: Vec<_> = keys.zip(digests.iter().map(ToString::to_string)).collect();
        let place = (batch.epoch().into(), batch.step());
        if let Some(before) = self.taken.insert(place, now) {
            let both = before.iter().zip(&self.taken[&place]);
            let differ: Vec<_> = both.filter(|(before, now)| before != now).collect();
            assert!(differ.is_empty(), "{place:?} came again and was another: {differ:?}");
        }
        self.held.push(batch);
    }
}
