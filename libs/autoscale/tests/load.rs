//! The controller beside a job whose load changes.

use headwater_autoscale::Policy;
use proptest::prelude::*;

use crate::plant::Plant;

fn policy() -> Policy {
    Policy { workers_max: 32, ..Policy::default() }
}

/// Fewest workers that keep a load from waiting, and those that are 80 % busy with it.
fn needed(load: f64) -> (u32, u32) {
    ((load / 400.0).ceil() as u32, (load / 400.0 / 0.8).ceil() as u32)
}

#[test]
fn a_step_up_is_followed_within_three_pauses_and_not_overshot() {
    let mut plant = Plant::new(policy(), 4);
    plant.run(600.0, |_| 1200.0);
    assert_eq!(plant.changes, []);
    // From 3 workers' work to 14: twice and twice again.
    let from = plant.now_s;
    plant.run(600.0, |_| 5600.0);
    let (fewest, aim) = needed(5600.0);
    let (last, _, workers) = *plant.changes.last().expect("steps");
    assert!((fewest..=aim + 1).contains(&workers), "{workers} workers for {fewest}");
    assert!(last - from <= 3.0 * 60.0 + 30.0, "the last step came after {} s", last - from);
    assert_eq!(plant.turns(), 0, "{:?}", plant.changes);
}

#[test]
fn a_step_down_waits_for_its_window_and_leaves_nobody_waiting() {
    let mut plant = Plant::new(policy(), 18);
    plant.run(600.0, |_| 5600.0);
    assert_eq!(plant.changes, []);
    let from = plant.now_s;
    plant.run(3600.0, |_| 1200.0);
    assert_eq!((plant.asked, plant.turns()), (needed(1200.0).1, 0), "{:?}", plant.changes);
    let (first, ..) = plant.changes[0];
    assert!(first - from >= 300.0, "the first went after {} s", first - from);
    assert!(plant.changes.len() <= 2, "{:?}", plant.changes);
}

#[test]
fn a_load_that_swings_within_the_window_is_served_at_its_height() {
    let mut plant = Plant::new(policy(), 4);
    let swings = |s: f64| if ((s / 120.0) as u64).is_multiple_of(2) { 1200.0 } else { 4000.0 };
    plant.run(1200.0, swings);
    let settled = plant.changes.len();
    assert!(plant.asked >= needed(4000.0).0);
    plant.run(4.0 * 3600.0, swings);
    assert_eq!(plant.changes.len(), settled, "{:?}", plant.changes);
}

#[test]
fn a_load_that_swings_more_slowly_turns_it_no_more_often_than_the_regret_allows() {
    let mut plant = Plant::new(policy(), 4);
    // Ten minutes high, ten minutes low: each step down turns out a mistake.
    let swings = |s: f64| if ((s / 600.0) as u64).is_multiple_of(2) { 1200.0 } else { 4000.0 };
    plant.run(4.0 * 3600.0, swings);
    // Up and down once in each half hour for which a mistake is remembered, and to begin with.
    assert!(plant.turns() <= 2 * 8 + 2, "{} turns: {:?}", plant.turns(), plant.changes);
}

#[test]
fn noise_of_ten_percent_changes_nothing_once_the_number_is_right() {
    let mut plant = Plant::new(policy(), 8);
    plant.noise = 0.1;
    plant.run(3600.0, |_| 2300.0);
    let settled = plant.changes.len();
    plant.run(8.0 * 3600.0, |_| 2300.0);
    assert!(plant.changes.len() - settled <= 1, "{:?}", plant.changes);
    assert!(plant.turns() <= 1, "{:?}", plant.changes);
    assert!(plant.asked >= needed(2300.0).0);
}

#[test]
fn lost_workers_are_waited_for_and_not_asked_for_twice() {
    let mut plant = Plant::new(policy(), 8);
    plant.run(600.0, |_| 2500.0);
    assert_eq!(plant.changes, []);
    plant.lose(4);
    plant.run(1800.0, |_| 2500.0);
    assert_eq!((plant.changes.as_slice(), plant.serving), (&[][..], 8));
}

#[test]
fn slow_storage_brings_no_workers() {
    let mut plant = Plant::new(policy(), 8);
    plant.storage_rate = 1200.0;
    plant.run(3600.0, |_| 3000.0);
    assert_eq!(plant.changes, []);
}

#[test]
fn an_idle_service_shrinks_to_its_least() {
    let mut plant = Plant::new(policy(), 16);
    plant.run(3.0 * 3600.0, |_| 0.0);
    assert_eq!((plant.asked, plant.turns()), (1, 0));
}

#[test]
fn a_number_outside_the_bounds_is_put_inside_at_once() {
    let mut plant = Plant::new(Policy { workers_min: 4, ..policy() }, 2);
    assert_eq!(plant.look(100.0).workers, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the load, its noise and the time that workers take to start.
    #[test]
    fn no_load_makes_it_flap(
        loads in prop::collection::vec(0.0..12_000.0f64, 1..12),
        noise in 0.0..0.1f64,
        start_s in 0.0..60.0f64,
        workers in 1u32..32,
    ) {
        let mut plant = Plant::new(policy(), workers);
        (plant.noise, plant.start_s) = (noise, start_s);
        for load in &loads {
            plant.run(1800.0, |_| *load);
            prop_assert!((1..=32).contains(&plant.asked));
        }
        // Each new load may turn it once, and a step down that went too far once more.
        prop_assert!(plant.turns() <= 2 * loads.len(), "{:?}", plant.changes);
        // What the last load needs is there, as far as the bounds and the band of no change allow.
        let last = loads[loads.len() - 1];
        let fewest = (last / 400.0 * (1.0 - 0.05) * (1.0 - noise)).floor().min(32.0);
        prop_assert!(f64::from(plant.asked) >= fewest, "{} for {last}", plant.asked);
    }
}
