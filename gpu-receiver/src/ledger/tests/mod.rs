//! The ledger among modelled workers, on modelled time, from printed seeds.

mod hedges;
mod landing;
mod meetings;
mod retries;
mod rules;
mod world;

use std::time::Duration;

use headwater_core::Digest;
use headwater_core::part::{BadSamplePolicy, PartScope, PartSettings};
use world::{Fault, World, WorldConfig};

/// The scope of some job's parts.
fn scope() -> PartScope {
    PartScope::new(&PartSettings {
        recipe: Digest(1),
        manifests: &[Digest(2)],
        seed: 0,
        image_field: "jpg",
        label_field: "cls",
        on_bad_sample: BadSamplePolicy::Substitute,
    })
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn every_batch_is_delivered_once_and_in_order_whatever_workers_do() {
    for seed in 0..300 {
        let faults = vec![
            Fault { every: 23, kind: world::FaultKind::Kill },
            Fault { every: 17, kind: world::FaultKind::Stall },
            Fault { every: 11, kind: world::FaultKind::FailRetry },
            Fault { every: 29, kind: world::FaultKind::BreakPath },
        ];
        let mut world =
            World::new(WorldConfig { seed, workers: 4, faults, ..WorldConfig::default() });
        world.run_batches(60);
        world.assert_all_delivered_once(60);
    }
}

#[test]
fn a_slot_is_never_ordered_into_while_somebody_may_write_to_it() {
    for seed in 0..100 {
        let faults = vec![Fault { every: 5, kind: world::FaultKind::Stall }];
        let mut world =
            World::new(WorldConfig { seed, workers: 3, faults, ..WorldConfig::default() });
        world.run_batches(40);
        assert_eq!(world.written_under_foot, 0, "seed {seed}");
        assert!(world.stalled_writers > 0, "seed {seed}: nothing was stalled, nothing was tested");
    }
}

#[test]
fn without_faults_each_part_is_leased_once() {
    let mut world = World::new(WorldConfig { workers: 3, ..WorldConfig::default() });
    world.run_batches(50);
    world.assert_all_delivered_once(50);
    assert_eq!(world.leases_given, 50 * world.parts_per_batch());
}

#[test]
fn a_late_lease_is_given_to_a_second_worker() {
    let mut world = World::new(WorldConfig { workers: 2, ..WorldConfig::default() });
    world.run_batches(20);
    let before = world.leases_given;
    world.freeze_worker(0);
    world.run_batches(10);
    world.assert_all_delivered_once(30);
    assert!(world.leases_given > before + 10 * world.parts_per_batch());
}

#[test]
fn with_no_worker_nothing_is_leased_and_one_that_joins_gets_all() {
    let mut world = World::new(WorldConfig { workers: 0, ..WorldConfig::default() });
    world.order_up_to_window();
    world.advance(ms(500));
    assert_eq!(world.leases_given, 0);
    world.join_worker();
    world.run_batches(5);
    world.assert_all_delivered_once(5);
}
