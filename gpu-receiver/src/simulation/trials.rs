//! Trials that want the same parts: whether they meet at the same workers, and what that costs a lone one.

use super::faults::{Outcome, Weather};
use super::fleet::{FleetConfig, PARTS, Trials};
use super::{is_full, replayable, seeds};

const STEPS: u64 = 400;
fn config(seed: u64, trials: usize) -> FleetConfig {
    let all = FleetConfig::of(seed, trials, STEPS);
    FleetConfig { workers: 40, trials: Some(Trials::default()), ..all }
}

/// Of the parts of one trial: those made more than once, and those of them that a worker still had.
fn made_again(outcome: &Outcome, steps: u64) -> (f64, f64) {
    outcome.assert_each_trial_whole();
    let made = outcome.made;
    assert_eq!(made.parts, steps * PARTS);
    let share = |parts: u64| parts as f64 / made.parts as f64;
    println!(
        "made again: {:.4}, though a worker had it: {:.4}",
        share(made.again),
        share(made.moved)
    );
    (share(made.again), share(made.moved))
}

/// The first window is among what is made again: workers join one after the other, and no trial waits until
/// all are there.
#[test]
fn parts_of_twenty_trials_of_several_speeds_are_made_once() {
    for seed in seeds(if is_full() { 2 } else { 1 }) {
        let outcome = replayable(&config(seed, 20), Weather::Calm);
        let (again, _) = made_again(&outcome, STEPS);
        assert!(again <= 0.015, "seed {seed}: {again:.4} of the parts made again");
    }
}

/// Trials are up to 40 s apart, and one worker comes or goes every 30 s. What a lost worker had is made again
/// for those who come later, under any rule.
#[test]
fn workers_and_trials_that_come_and_go_leave_nearly_all_parts_made_once() {
    let trials = Some(Trials { come_and_go: true, ..Trials::default() });
    // Ten minutes of training, or four.
    let steps = if is_full() { 1500 } else { 600 };
    // First with sessions with all workers, then with 16. With 16, a change moves a larger share of the parts, and trials
    // that are behind come to another worker than the one that has them.
    for (workers_max, again_most, moved_most) in [(0, 0.03, 0.01), (16, 0.1, 0.1)] {
        for seed in seeds(if is_full() { 3 } else { 1 }) {
            let elastic =
                FleetConfig { workers: 48, workers_max, steps, trials, ..config(seed, 20) };
            let outcome = replayable(&elastic, Weather::Elastic);
            let (again, moved) = made_again(&outcome, steps);
            let which = format!("seed {seed}, {workers_max} workers");
            assert!(again <= again_most, "{which}: {again:.4} of the parts made again");
            assert!(moved <= moved_most, "{which}: {moved:.4} made though a worker had them");
        }
    }
}

/// Two workers in forty are lost every eight seconds, and trials are up to a minute apart.
#[test]
fn where_workers_are_lost_all_the_time_most_of_what_is_made_again_was_lost_with_them() {
    for seed in seeds(if is_full() { 2 } else { 1 }) {
        let outcome = replayable(&config(seed, 20), Weather::Harsh);
        let (again, moved) = made_again(&outcome, STEPS);
        assert!(again > 0.05, "seed {seed}: little was lost: nothing was tested");
        assert!(moved < again / 2.0, "seed {seed}: {moved:.4} of the parts moved, of {again:.4}");
    }
}

#[test]
fn trials_that_are_paced_stay_together_and_end_with_the_slowest() {
    const MAX_LEAD: u32 = 16;
    let seed = seeds(1)[0];
    let with = |max_lead| {
        let trials = Some(Trials { max_lead, ..Trials::default() });
        let outcome = replayable(&FleetConfig { trials, ..config(seed, 5) }, Weather::Calm);
        outcome.assert_each_trial_whole();
        outcome
    };
    let [paced, free] = [with(MAX_LEAD), with(0)];
    println!("steps apart: {} with a lead of {MAX_LEAD}, {} without", paced.apart, free.apart);
    // The slowest one has a window of batches before its trainer.
    assert!(paced.apart <= u64::from(MAX_LEAD) + 6, "{} steps apart", paced.apart);
    assert!(free.apart > 100, "{} steps apart: nothing was tested", free.apart);
    // Nobody waits for long: all are as fast as the slowest one is by itself.
    let (paced_s, free_s) = (paced.lasted.as_secs_f64(), free.lasted.as_secs_f64());
    assert!(paced_s < free_s * 1.01, "{paced_s:.1} s, {free_s:.1} s without pace");
}

/// Those that end half-way would hold up all others for ever.
#[test]
fn a_paced_trial_waits_for_none_that_has_ended() {
    let trials = Some(Trials { come_and_go: true, max_lead: 16, jump: None });
    let outcome = replayable(&FleetConfig { trials, ..config(seeds(1)[0], 5) }, Weather::Calm);
    outcome.assert_each_trial_whole();
}

/// Each would wait for ever for the place that another one has left.
#[test]
fn paced_trials_that_all_go_far_ahead_wait_for_each_other_only_until_each_is_there() {
    let trials = Some(Trials { max_lead: 16, jump: Some((4, 300)), ..Trials::default() });
    let outcome = replayable(&FleetConfig { trials, ..config(seeds(1)[0], 5) }, Weather::Calm);
    outcome.assert_each_trial_whole();
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
        let [shared, own] = [Some(Trials::default()), None].map(alone);
        println!("{workers} workers: a lone trial waits {shared:.3} of its time, {own:.3} without");
        assert!(shared < own + 0.02, "{workers} workers: {shared:.3} of its time, not {own:.3}");
    }
}
