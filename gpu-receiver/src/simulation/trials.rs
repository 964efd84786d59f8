//! Trials that want the same parts: whether they meet at the same workers, and what that costs a lone one.

use super::faults::{Outcome, Weather};
use super::fleet::{FleetConfig, PARTS};
use super::{replayable, seeds};

const STEPS: u64 = 400;

fn config(seed: u64, trials: usize) -> FleetConfig {
    let all = FleetConfig::of(seed, trials, STEPS);
    FleetConfig { workers: 40, workers_each: 40, trials: true, ..all }
}

/// Of the parts of one trial, the share that more than one worker made. The first window is among
/// them: workers join one after the other, and no trial waits until all are there.
fn made_again(outcome: &Outcome) -> f64 {
    let made = outcome.made;
    assert_eq!(made.parts, STEPS * PARTS);
    println!("{made:?}");
    made.again as f64 / made.parts as f64
}

#[test]
fn most_parts_of_twenty_trials_of_several_speeds_are_made_once() {
    // Two workers in forty leave or come back every four seconds, and a trial is behind by up to a minute.
    for (weather, most) in [(Weather::Calm, 0.03), (Weather::Changes, 0.25)] {
        for seed in seeds(2) {
            let outcome = replayable(&config(seed, 20), weather);
            outcome.assert_each_trial_whole();
            let again = made_again(&outcome);
            assert!(again <= most, "seed {seed}, {weather:?}: {again:.3} of the parts made again");
        }
    }
}

#[test]
fn a_lone_trial_waits_no_longer_where_workers_share_parts() {
    for workers in [2, 3, 40] {
        let alone = |trials| {
            let config = FleetConfig { workers, trials, ..config(seeds(1)[0], 1) };
            let outcome = replayable(&config, Weather::Calm);
            outcome.assert_each_trial_whole();
            outcome.stall
        };
        let [shared, own] = [true, false].map(alone);
        println!("{workers} workers: a lone trial waits {shared:.3} of its time, {own:.3} without");
        assert!(shared < own + 0.02, "{workers} workers: {shared:.3} of its time, not {own:.3}");
    }
}
