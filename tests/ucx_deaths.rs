//! Processes that stop and die in the middle of writes over the ucx link: the trainer gets the
//! batches that it would have got anyway.
//!
//! Over whatever UCX finds; `make test-rdma` does the same over verbs, for both links (tests/rdma).

mod support;

use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;
use headwater_transport::rdma::ucx;
use rustix::process::Signal;
use support::fleet::Fleet;
use support::trainer::{Ranks, Stream};

/// Longest wait for one side to miss the other.
const LIMIT: Duration = Duration::from_secs(120);
/// Batches after which something happens.
const SOME: usize = 4;

/// Two workers, what they make of four epochs over tcp, and the configuration for ucx.
struct Course {
    fleet: Fleet,
    config: ReceiverConfig,
    reference: Stream,
}

// === impl Course ===

impl Course {
    /// `None`, loudly, where there is no UCX.
    fn new() -> Option<Self> {
        if let Err(error) = ucx::detect(false) {
            eprintln!("SKIP: {error}");
            return None;
        }
        let mut fleet = Fleet::without_workers(support::data("photos/photos-*.tar"));
        for _ in 0..2 {
            fleet.add_worker(r#"links = ["ucx", "tcp"]"#);
        }
        let config = ReceiverConfig {
            batch_samples: 8,
            part_samples: 2,
            heartbeat_ms: 200,
            epochs: 4,
            links: vec!["ucx".into()],
            ..fleet.config()
        };
        let over_tcp = ReceiverConfig { links: vec!["tcp".into()], ..config.clone() };
        let mut ranks = start(&fleet, &over_tcp, "tcp");
        ranks.finish();
        let reference = ranks.stream();
        assert!(reference.len() > 5 * SOME, "{}", reference.len());
        Some(Self { fleet, config, reference })
    }

    fn start(&self, name: &str) -> Ranks {
        start(&self.fleet, &self.config, name)
    }

    fn rank_log(&self, name: &str) -> String {
        let path = self.fleet.dir().join(format!("{name}-rank-0.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

/// Nobody is hedged: what a stopped worker holds waits until it is given up.
fn start(fleet: &Fleet, config: &ReceiverConfig, name: &str) -> Ranks {
    let set = ["recipe.preset=imagenet-train", "receiver.hedge_floor_ms=600000"];
    let extra: Vec<String> = set.iter().flat_map(|key| ["--set".into(), (*key).into()]).collect();
    Ranks::start(config, fleet.dir(), name, &extra)
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !there() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_worker_that_stops_in_mid_write_changes_no_batch() {
    let Some(mut course) = Course::new() else { return };
    let mut ranks = course.start("stopped");
    ranks.wait_for(0, SOME);
    course.fleet.worker(0).signal(Signal::STOP);
    wait_for("the stopped worker is missed", || course.rank_log("stopped").contains("silent for"));
    course.fleet.worker(0).signal(Signal::CONT);
    ranks.finish();
    assert!(ranks.stream() == course.reference, "other batches than over tcp");
}

#[test]
fn a_worker_that_is_killed_in_mid_write_changes_no_batch() {
    let Some(mut course) = Course::new() else { return };
    let mut ranks = course.start("killed");
    ranks.wait_for(0, SOME);
    course.fleet.worker(0).kill();
    ranks.finish();
    assert!(ranks.stream() == course.reference, "other batches than over tcp");
}

#[test]
fn a_receiver_that_stops_in_mid_write_goes_on_with_the_same_batches() {
    let Some(mut course) = Course::new() else { return };
    let mut ranks = course.start("asleep");
    ranks.wait_for(0, SOME);
    ranks.signal(0, Signal::STOP);
    wait_for("the stopped receiver is missed", || {
        course.fleet.worker(0).log().contains("the receiver was silent for")
    });
    ranks.signal(0, Signal::CONT);
    ranks.finish();
    assert!(ranks.stream() == course.reference, "other batches than over tcp");
}

#[test]
fn the_receiver_after_one_that_was_killed_in_mid_write_gets_the_same_batches() {
    let Some(course) = Course::new() else { return };
    let mut ranks = course.start("first");
    ranks.wait_for(0, SOME);
    ranks.kill();
    let mut next = course.start("next");
    next.finish();
    assert!(next.stream() == course.reference, "other batches than over tcp");
}
