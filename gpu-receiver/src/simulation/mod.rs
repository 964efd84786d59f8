//! The control plane of whole fleets: the real driver, ledger, sessions and sampler of every
//! receiver, among modelled workers, links and storage nodes, on virtual time in one thread.
//!
//! `HEADWATER_SIMULATION_SEED` replays a seed; `HEADWATER_SIMULATION=full` runs the large fleets
//! (`make simulate`). The same seed goes the same way: nothing is left to the machine's clock.

mod breadth;
mod faults;
mod fleet;
mod link;
mod network;
mod scene;
mod shares;
mod sizing;
mod storage;
mod trainer;
mod trials;
mod wedged;
mod worker;

use std::sync::Arc;

use headwater_transport::{LinkKind, ReceiverLink};
use tokio::sync::mpsc;

use faults::{Outcome, Weather, run};
use fleet::{FleetConfig, PARTS};
use link::ModelLink;

const SEEDS_SHORT: u64 = 4;
const SEEDS_FULL: u64 = 3;

/// A link of this kind that nothing comes over.
pub(crate) fn idle_link(kind: LinkKind) -> Arc<dyn ReceiverLink> {
    Arc::new(ModelLink::new(kind, mpsc::unbounded_channel().0))
}

/// A link for tests without workers that refuses slots from a number on.
pub(crate) fn scarce_link(kind: LinkKind, slots_max: u32) -> Arc<dyn ReceiverLink> {
    Arc::new(ModelLink::scarce(kind, slots_max))
}

fn is_full() -> bool {
    std::env::var("HEADWATER_SIMULATION").is_ok_and(|value| value == "full")
}

/// The seed to replay, or the given ones.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("HEADWATER_SIMULATION_SEED") {
        Ok(seed) => vec![seed.parse().expect("HEADWATER_SIMULATION_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}

/// Runs and says which seed it was, should it fail.
fn replayable(config: &FleetConfig, weather: Weather) -> Outcome {
    println!("HEADWATER_SIMULATION_SEED={} {config:?}", config.seed);
    let outcome = run(config.clone(), weather);
    println!("{outcome}");
    outcome
}

#[test]
fn a_fleet_in_a_storm_delivers_every_step_once_and_in_order() {
    let (receivers, steps, count) =
        if is_full() { (1000, 60, SEEDS_FULL) } else { (40, 50, SEEDS_SHORT) };
    let mut late_writers = 0;
    for seed in seeds(count) {
        let config = FleetConfig::of(seed, receivers, steps);
        let outcome = replayable(&config, Weather::Storm);
        outcome.assert_exactly_once();
        assert_eq!(outcome.damage, 0, "seed {seed}: a slot was written under another batch");
        late_writers += outcome.late_writers;
    }
    assert!(late_writers > 0, "no writer came late: nothing was tested");
}

#[test]
fn leases_of_a_batch_do_not_grow_with_the_fleet() {
    let sizes: &[usize] = if is_full() { &[10, 100, 1000, 10_000] } else { &[10, 60] };
    let seed = seeds(1)[0];
    for &receivers in sizes {
        let outcome = replayable(&FleetConfig::of(seed, receivers, 30), Weather::Calm);
        outcome.assert_exactly_once();
        let (batches, parts) = (outcome.batches as f64, outcome.batches * PARTS);
        // Of a hundred thousand parts, a few wait long enough at a busy worker to be hedged.
        let hedged = outcome.leases - parts;
        assert!(
            hedged * 10_000 <= parts,
            "{receivers} receivers: {hedged} of {parts} parts hedged"
        );
        assert_eq!(outcome.answers, outcome.leases, "{receivers} receivers: answers");
        let heartbeats = outcome.heartbeats as f64 / batches;
        println!("{receivers} receivers: {} leases, {heartbeats:.1} heartbeats a batch", PARTS);
    }
}

#[test]
fn a_worker_that_has_more_messages_before_it_than_may_be_loses_its_session_and_no_batch() {
    let roomy = FleetConfig { workers: 4, ..FleetConfig::of(seeds(1)[0], 6, 30) };
    let narrow = FleetConfig { outbox: 2, ..roomy.clone() };
    let [roomy, narrow] = [roomy, narrow].map(|config| replayable(&config, Weather::Calm));
    for outcome in [&roomy, &narrow] {
        outcome.assert_exactly_once();
        assert_eq!(outcome.damage, 0);
    }
    assert_eq!(roomy.sessions, 6 * 4);
    assert!(narrow.sessions > roomy.sessions, "nobody had too many: nothing was tested");
}

#[test]
fn the_same_seed_goes_the_same_way() {
    let config = FleetConfig::of(seeds(1)[0], 12, 30);
    let [first, second] = [0, 1].map(|_| run(config.clone(), Weather::Storm));
    assert_eq!(first.trace, second.trace);
    let other = run(FleetConfig { seed: config.seed + 1, ..config }, Weather::Storm);
    assert_ne!(first.trace, other.trace);
}
