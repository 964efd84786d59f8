//! More ranks than a worker takes receivers, and more workers than a rank has sessions with, as real processes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::Ranks;

const RANKS: u32 = 6;
/// Far beyond what a loaded machine needs.
const LIMIT: Duration = Duration::from_secs(60);
/// Of an endless stream: nobody ends and leaves its place to another one.
const BATCHES: usize = 8;

fn fleet(workers: usize, lines: &str) -> Fleet {
    let mut fleet = Fleet::without_workers(support::data("photos/photos-000003.tar"));
    for _ in 0..workers {
        fleet.add_worker(lines);
    }
    fleet
}

#[test]
fn every_rank_has_a_worker_where_there_are_as_many_places_as_ranks() {
    for (workers, places) in [(3, 2), (2, 4)] {
        let mut fleet = fleet(workers, &format!("sessions_max = {places}"));
        let config = ReceiverConfig {
            world_size: RANKS,
            batch_samples: 2,
            epochs: 0,
            links: vec!["tcp".to_owned()],
            ..fleet.config()
        };
        let mut ranks = Ranks::start(&config, fleet.dir(), "rank", &[]);
        (0..RANKS as usize).for_each(|rank| ranks.wait_for(rank, BATCHES));
        ranks.check();
    }
}

/// The gauge of a worker, over all links.
fn sessions(fleet: &mut Fleet, worker: usize) -> u64 {
    fleet.worker(worker).counter("headwater_augment_sessions", "link=\"tcp\"")
}

#[test]
fn ranks_hold_sessions_with_a_part_of_the_workers_and_the_next_one_where_one_is_lost() {
    let mut fleet = fleet(5, "");
    let config = ReceiverConfig {
        world_size: 2,
        batch_samples: 2,
        epochs: 0,
        links: vec!["tcp".to_owned()],
        ..fleet.config()
    };
    let extra = support::set_flags(["receiver.workers_max=2"]);
    let mut ranks = Ranks::start(&config, fleet.dir(), "rank", &extra);
    (0..2).for_each(|rank| ranks.wait_for(rank, BATCHES));
    let of_workers: Vec<u64> = (0..5).map(|worker| sessions(&mut fleet, worker)).collect();
    assert_eq!(of_workers.iter().sum::<u64>(), 4, "{of_workers:?}");
    let lost = of_workers.iter().position(|held| *held > 0).expect("somebody serves");
    fleet.worker(lost).kill();
    let taken: Vec<usize> = (0..2).map(|rank| ranks.taken(rank)).collect();
    (0..2).for_each(|rank| ranks.wait_for(rank, taken[rank] + BATCHES));
    ranks.check();
    let others: Vec<usize> = (0..5).filter(|worker| *worker != lost).collect();
    let end = Instant::now() + LIMIT;
    while others.iter().map(|worker| sessions(&mut fleet, *worker)).sum::<u64>() != 4 {
        assert!(Instant::now() < end, "nobody takes the place of the one that is lost");
        sleep(Duration::from_millis(50));
    }
}
