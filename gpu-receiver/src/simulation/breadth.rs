//! Sessions of fleets in which every receiver knows all workers, and workers take only some.

use std::time::Duration;

use super::faults::{Outcome, Weather};
use super::fleet::FleetConfig;
use super::{is_full, replayable, seeds};

/// A trainer that had to wait for longer starves.
const STARVES: Duration = Duration::from_secs(2);

fn with(receivers: usize, workers: usize, sessions_max: usize) -> FleetConfig {
    FleetConfig { workers, sessions_max, ..FleetConfig::of(seeds(1)[0], receivers, 30) }
}

fn largest(outcome: &Outcome) -> usize {
    outcome.sessions_of.iter().copied().max().unwrap_or(0)
}

#[test]
fn all_ranks_train_where_workers_have_as_many_places_as_there_are_ranks() {
    // As few as may be; then the seed's job of 288 ranks, and the workers that `headwater plan --size` asks for.
    let fleets = [(6, 3, 2), (6, 2, 4), (8, 4, 2), (288, 10, 256), (288, 10, 29)];
    for (receivers, workers, sessions_max) in fleets {
        // Such a fleet is slow, whoever has which worker: only its beginning counts.
        let slow = receivers * 8 / workers;
        let config = FleetConfig { steps: 3, ..with(receivers, workers, sessions_max) };
        let outcome = replayable(&config, Weather::Calm);
        outcome.assert_exactly_once();
        assert!(largest(&outcome) <= sessions_max, "{}", largest(&outcome));
        let bound = STARVES + Duration::from_millis(150) * slow as u32;
        assert!(outcome.longest_wait < bound, "{receivers}, {workers}: {:?}", outcome.longest_wait);
    }
}

#[test]
fn sessions_are_ranks_times_k_and_evenly_spread() {
    let sizes: &[(usize, usize)] =
        if is_full() { &[(1000, 400), (10_000, 2000)] } else { &[(60, 120), (100, 40)] };
    for &(receivers, workers) in sizes {
        let config = FleetConfig { steps: 6, ..with(receivers, workers, 4096) };
        let outcome = replayable(&config, Weather::Calm);
        outcome.assert_exactly_once();
        let held = receivers as u64 * u64::from(config.workers_max);
        assert_eq!(outcome.sessions, held, "{receivers} receivers, {workers} workers");
        let mean = held as f64 / workers as f64;
        let bound = mean.ceil().max(mean * 1.1) as usize;
        assert!(largest(&outcome) <= bound, "{} sessions, mean {mean}", largest(&outcome));
    }
}

#[test]
fn a_worker_more_moves_few_sessions_and_loses_nothing() {
    let (receivers, workers) = if is_full() { (1000, 400) } else { (60, 120) };
    let config = FleetConfig { steps: 60, ..with(receivers, workers, 4096) };
    let outcome = replayable(&config, Weather::Grown);
    outcome.assert_exactly_once();
    let held = receivers as u64 * u64::from(config.workers_max);
    let moved = outcome.sessions - held;
    assert!(moved > 0, "nobody has a session with it");
    assert!(moved * 100 <= 5 * held, "{moved} of {held} sessions moved");
    // A session that moves ends when its leases have: nothing is withdrawn but what is hedged, and each has its answer.
    assert_eq!(outcome.leases, outcome.answers);
    assert!(outcome.withdrawals * 200 <= outcome.batches, "{}", outcome.withdrawals);
}

#[test]
fn a_rank_that_comes_to_a_full_tier_has_one_session_make_room() {
    let mut asked = 0;
    for (receivers, workers, most) in [(5, 8, 2), (9, 16, 2), (21, 40, 2)] {
        let config =
            FleetConfig { workers_max: most, late: 1, steps: 60, ..with(receivers, workers, 1) };
        let outcome = replayable(&config, Weather::Calm);
        outcome.assert_exactly_once();
        assert!(outcome.asked <= 1, "{} sessions had to make room", outcome.asked);
        asked += outcome.asked;
        let waits = &outcome.longest_wait;
        assert!(*waits < STARVES * 2, "{receivers}, {workers}: {waits:?}");
    }
    assert!(asked > 0, "no tier was full: nothing was tested");
}

#[test]
fn the_only_worker_that_lives_is_found_wherever_it_stands() {
    for workers in [61, 400] {
        let config = FleetConfig { workers_max: 2, steps: 20, ..with(4, workers, 4096) };
        let outcome = replayable(&config, Weather::OneLives);
        outcome.assert_exactly_once();
        // A host that is gone is waited for 10 s, and 64 of them at a time.
        let bound =
            Duration::from_secs(10) * (workers as u32).div_ceil(64) + Duration::from_secs(15);
        assert!(outcome.longest_wait < bound, "{workers}: {:?}", outcome.longest_wait);
    }
}
