//! Workers that go on talking and do no work: their sessions stand, their leases do not end.

use std::time::Duration;

use tokio::time::sleep;

use super::faults::Weather;
use super::fleet::{Fleet, FleetConfig, World};
use super::replayable;
use super::worker::Health;
use crate::config::ReceiverConfig;

/// Who wedges, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wedge {
    /// The only worker that is known at first, from the start on.
    First,
    /// One of them in mid-epoch, for good.
    One,
    /// One of them in mid-epoch, and it goes on later.
    OneForAWhile,
    /// All of them in mid-epoch, and they go on later.
    AllForAWhile,
}

const WEDGED_AFTER: Duration = Duration::from_secs(5);
const WEDGED_FOR: Duration = Duration::from_secs(20);
/// Each of them makes more than one trainer takes.
const WORKERS: usize = 3;
/// More than a window has parts.
const CREDITS: u32 = 32;

// === impl Wedge ===

impl Wedge {
    /// What is so before anything begins; returns the number of workers that receivers hear of.
    pub(super) fn begin(self, world: &World) -> usize {
        if self != Self::First {
            return usize::MAX;
        }
        world.set_health(0, Health::Wedged);
        1
    }

    pub(super) async fn go_on(self, fleet: &Fleet) {
        if self == Self::First {
            sleep(Duration::from_secs(1)).await;
            fleet.tell_workers(|_| false).await;
            return;
        }
        let wedged = match self {
            Self::AllForAWhile => 0..fleet.config.workers,
            _ => 0..1,
        };
        sleep(WEDGED_AFTER).await;
        wedged.clone().for_each(|worker| fleet.world.set_health(worker, Health::Wedged));
        if self != Self::One {
            sleep(WEDGED_FOR).await;
            wedged.for_each(|worker| fleet.world.set_health(worker, Health::Serves));
        }
    }
}

fn config(seed: u64, workers: usize) -> FleetConfig {
    FleetConfig { workers, credits: CREDITS, ..FleetConfig::of(seed, 1, 120) }
}

#[test]
fn a_first_worker_that_takes_all_and_finishes_nothing_is_overtaken_by_an_idle_one() {
    for seed in super::seeds(4) {
        let outcome = replayable(&config(seed, 2), Weather::Wedged(Wedge::First));
        outcome.assert_exactly_once();
        let first = Duration::from_millis(ReceiverConfig::default().leases.hedge_first_ms.into());
        let most = first + Duration::from_secs(2);
        assert!(outcome.longest_wait < most, "seed {seed}: {:?}", outcome.longest_wait);
        // The window at the start, and a part now and then to see whether it goes on.
        assert!(outcome.leases_of[0] < 32, "seed {seed}: {:?}", outcome.leases_of);
    }
}

#[test]
fn a_worker_that_wedges_loses_its_credits_and_no_trainer_waits_for_it_again() {
    for seed in super::seeds(4) {
        let outcome = replayable(&config(seed, WORKERS), Weather::Wedged(Wedge::One));
        outcome.assert_exactly_once();
        assert_eq!(outcome.damage, 0, "seed {seed}");
        assert!(outcome.longest_wait.as_secs() < 2, "seed {seed}: {:?}", outcome.longest_wait);
        let before = 2 * (WEDGED_AFTER.as_millis() / 400) as u64 * super::PARTS;
        let share = before / WORKERS as u64;
        let of_wedged = outcome.leases_of[0];
        assert!(of_wedged < share + 40, "seed {seed}: {:?}", outcome.leases_of);
    }
}

#[test]
fn a_worker_that_goes_on_again_has_its_credits_again() {
    for seed in super::seeds(4) {
        let [wedged, back] = [Wedge::One, Wedge::OneForAWhile]
            .map(|wedge| replayable(&config(seed, WORKERS), Weather::Wedged(wedge)));
        back.assert_exactly_once();
        // Some 20 s of the epoch are left to it.
        let more = back.leases_of[0] - wedged.leases_of[0];
        assert!(more > 40, "seed {seed}: {:?}, {:?}", back.leases_of, wedged.leases_of);
    }
}

#[test]
fn workers_that_all_wedge_and_go_on_again_deliver_every_batch_once() {
    for seed in super::seeds(4) {
        let outcome = replayable(&config(seed, WORKERS), Weather::Wedged(Wedge::AllForAWhile));
        outcome.assert_exactly_once();
        assert_eq!(outcome.damage, 0, "seed {seed}");
        let most = WEDGED_FOR + Duration::from_secs(2);
        assert!(outcome.longest_wait < most, "seed {seed}: {:?}", outcome.longest_wait);
        // None of them is taken for wedged when all are.
        let of: &[u64] = &outcome.leases_of;
        assert!(of.iter().all(|leases| *leases > 60), "seed {seed}: {of:?}");
    }
}
