//! The cost model of docs/sizing.md beside fleets of the sizes it asks for.
//!
//! By the model a tier of `n` workers makes `n x threads x rate of a thread` samples a second: ranks that
//! would take more wait for the rest of their time, and at a share `busy` of that they do not wait.

use super::faults::Weather;
use super::fleet::{BATCH, FleetConfig};
use super::trainer::STEP;
use super::worker::{THREADS, Worker};
use super::{is_full, replayable, seeds};

/// Share of the workers' time that the model plans to be busy.
const BUSY: f64 = 0.85;

/// Workers that have just enough time for all ranks, by the model.
fn needed(receivers: usize) -> f64 {
    let taken = receivers as f64 * BATCH as f64 / STEP.as_secs_f64();
    taken / (Worker::thread_rate() * THREADS as f64)
}

/// Share of their time that ranks wait, with this number of workers.
fn stall(seed: u64, receivers: usize, workers: f64) -> f64 {
    let workers = workers.ceil() as usize;
    let config = FleetConfig { workers, ..FleetConfig::of(seed, receivers, 60) };
    let outcome = replayable(&config, Weather::Calm);
    outcome.assert_exactly_once();
    println!("{workers} workers: ranks wait {:.1} %", 100.0 * outcome.stall);
    outcome.stall
}

#[test]
fn a_fleet_of_the_size_that_the_model_asks_for_leaves_nobody_waiting() {
    let receivers = if is_full() { 1000 } else { 60 };
    let size = needed(receivers) / BUSY;
    for seed in seeds(2) {
        let waited = stall(seed, receivers, size);
        assert!(waited < 0.02, "seed {seed}: ranks wait {waited:.3} of their time");
    }
}

#[test]
fn ranks_of_a_smaller_fleet_wait_as_long_as_the_model_says() {
    let receivers = if is_full() { 1000 } else { 40 };
    for share in [0.9, 0.75, 0.5] {
        let workers = (needed(receivers) * share).ceil();
        let by_model = 1.0 - workers / needed(receivers);
        let waited = stall(seeds(1)[0], receivers, workers);
        assert!(
            (waited - by_model).abs() < 0.05,
            "{workers} workers: {waited:.3}, not {by_model:.3}"
        );
    }
}
