//! Trials that want the same batches of the same workers: each has those of a lone run, whatever befalls it
//! or the others, and workers make each part once as long as they keep it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use headwater_core::{BadSamplePolicy, Digest};
use headwater_receiver::{Receiver, ReceiverConfig};
use rustix::process::Signal;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::{CALM_HEARTBEAT_MS, Ranks, Stream};

const MADE: &str = "headwater_augment_share_parts_made_total";
/// Room for all parts of an epoch.
const ROOMY: &str = "share_bytes = 536870912\nleases_in_flight = 64";
/// Longest wait for something that must happen.
const LIMIT: Duration = Duration::from_secs(120);

/// A batch's digest by its step.
type Digests = BTreeMap<u64, Digest>;

/// A number that only grows, to wait for.
#[derive(Default)]
struct Gate(Mutex<u64>, Condvar);

// === impl Gate ===

impl Gate {
    fn reach(&self, step: u64) {
        let mut at = self.0.lock().expect("no panic");
        *at = step.max(*at);
        self.1.notify_all();
    }

    fn wait_for(&self, step: u64) {
        let (at, late) = (self.0.lock().expect("no panic"), |at: &mut u64| *at < step);
        let (at, waited) = self.1.wait_timeout_while(at, LIMIT, late).expect("no panic");
        assert!(!waited.timed_out(), "others are at {at}, not at {step}");
    }
}

fn fleet(workers: usize, extra: &str) -> Fleet {
    let mut fleet = Fleet::without_workers(support::data("photos/photos-*.tar"));
    (0..workers).for_each(|_| {
        fleet.add_worker(extra);
    });
    fleet
}

/// The trials' configurations: half of them over each link.
fn trials(config: &ReceiverConfig, count: usize) -> Vec<ReceiverConfig> {
    let link = |trial: usize| if trial.is_multiple_of(2) { "tcp" } else { "shm" };
    let trial = |trial| ReceiverConfig {
        job: format!("trial-{trial}"),
        links: vec![link(trial).into()],
        ..config.clone()
    };
    (0..count).map(trial).collect()
}

/// The epoch's batches, as they come; `before` is called before each with its number.
fn take(receiver: &Receiver, before: impl Fn(u64)) -> Digests {
    let mut digests = Digests::new();
    loop {
        before(digests.len() as u64);
        let Some(batch) = receiver.next_batch().expect("a batch") else { return digests };
        digests.insert(batch.step(), batch.digest().expect("on the host"));
    }
}

/// What one receiver takes by itself, from a worker that shares nothing.
fn alone(config: &ReceiverConfig) -> Digests {
    let mut fleet = fleet(1, "");
    let config = ReceiverConfig { workers: fleet.config().workers, ..config.clone() };
    let config = ReceiverConfig { storage: fleet.config().storage, ..config };
    take(&Fleet::open(ReceiverConfig { links: vec!["tcp".into()], ..config }), |_| {})
}

#[test]
fn trials_of_several_speeds_and_links_take_a_lone_runs_batches_and_each_part_is_made_once() {
    let mut fleet = fleet(1, ROOMY);
    let config = fleet.config();
    let expected = alone(&config);
    let parts =
        expected.len() as u64 * u64::from(config.batch_samples / config.window.part_samples);
    let gate = Gate::default();
    // The first trial has twice as many steps behind it as the second, and the last begins when it is through.
    let before = |trial: usize, number: u64| match trial {
        0 => gate.reach(number),
        1 => gate.wait_for((number * 2).min(expected.len() as u64)),
        3 => gate.wait_for(expected.len() as u64),
        _ => {}
    };
    let all: Vec<(Digests, u64, u64)> = thread::scope(|scope| {
        let trials = trials(&config, 4).into_iter().enumerate().map(|(number, config)| {
            let before = &before;
            scope.spawn(move || {
                // A receiver orders its first batches as soon as it is open.
                before(number, 0);
                let receiver = Fleet::open(config);
                let digests = take(&receiver, |step| before(number, step));
                let stats = receiver.stats();
                (digests, stats.parts_shared, stats.parts_recomputed)
            })
        });
        let trials: Vec<_> = trials.collect();
        trials.into_iter().map(|trial| trial.join().expect("a trial")).collect()
    });
    for (trial, (digests, ..)) in all.iter().enumerate() {
        assert!(*digests == expected, "trial {trial} took other batches than a lone run");
    }
    assert_eq!(fleet.worker(0).counter(MADE, ""), parts, "parts made");
    let shared: u64 = all.iter().map(|(_, shared, _)| shared).sum();
    assert_eq!(shared, 3 * parts, "parts shared");
    assert!(all.iter().all(|(.., recomputed)| *recomputed == 0));
    assert_eq!(all[3].1, parts, "the last trial had all of its parts from others");
}

#[test]
fn trials_that_differ_in_labels_or_in_what_becomes_of_bad_samples_share_nothing() {
    let mut fleet = fleet(1, ROOMY);
    let config = ReceiverConfig { links: vec!["tcp".into()], ..fleet.config() };
    let (mut unlabelled, mut strict) = (config.clone(), config.clone());
    unlabelled.samples.label_field.clear();
    strict.samples.on_bad_sample = BadSamplePolicy::Fail;
    let taken = [&config, &unlabelled, &strict].map(|config| {
        let receiver = Fleet::open(config.clone());
        let digests = take(&receiver, |_| {});
        assert_eq!(receiver.stats().parts_shared, 0, "shared with {config:?}");
        digests
    });
    assert_ne!(taken[0], taken[1], "labels");
    assert_eq!(taken[0], taken[2], "no sample is bad");
    assert_eq!(taken[1], alone(&unlabelled));
}

/// All trials hold parts of a worker that answers nothing any more, and is then killed.
#[test]
fn a_worker_killed_while_trials_wait_for_its_parts_changes_no_batch() {
    const TRIALS: usize = 4;
    let mut fleet = fleet(2, ROOMY);
    // Nobody gives up on the worker, or asks another one, before it is killed.
    let mut config = fleet.config();
    config.leases.heartbeat_ms = CALM_HEARTBEAT_MS;
    (config.leases.hedge_first_ms, config.leases.hedge_floor_ms) = (3_600_000, 3_600_000);
    let expected = alone(&config);
    let (begun, stopped) = (Gate::default(), Gate::default());
    let [ready, taken, ended] = [0; 3].map(AtomicUsize::new);
    let all: Vec<Digests> = thread::scope(|scope| {
        let spawned: Vec<_> = trials(&config, TRIALS)
            .into_iter()
            .map(|config| {
                let (begun, stopped) = (&begun, &stopped);
                let (ready, taken, ended) = (&ready, &taken, &ended);
                scope.spawn(move || {
                    let receiver = Fleet::open(config);
                    let digests = take(&receiver, |step| {
                        taken.fetch_add(1, Ordering::SeqCst);
                        if step == 1 {
                            begun.reach(1 + ready.fetch_add(1, Ordering::SeqCst) as u64);
                            stopped.wait_for(1);
                        }
                    });
                    ended.fetch_add(1, Ordering::SeqCst);
                    digests
                })
            })
            .collect();
        begun.wait_for(TRIALS as u64);
        fleet.worker(0).signal(Signal::STOP);
        stopped.reach(1);
        // Until all stand still: what the other worker makes is taken.
        let mut before = usize::MAX;
        while taken.load(Ordering::SeqCst) != before {
            before = taken.load(Ordering::SeqCst);
            thread::sleep(Duration::from_millis(500));
        }
        assert_eq!(ended.load(Ordering::SeqCst), 0, "a trial did not need the stopped worker");
        fleet.worker(0).kill();
        spawned.into_iter().map(|trial| trial.join().expect("a trial")).collect()
    });
    for (trial, digests) in all.iter().enumerate() {
        assert!(*digests == expected, "trial {trial} took other batches than a lone run");
    }
}

/// One trial of three stands still while another ends; one is killed and goes on from its state later. The
/// window holds few parts: what these two lag behind is made again.
#[test]
fn a_trial_stopped_and_one_killed_and_resumed_take_a_lone_runs_batches_and_hold_nobody_up() {
    let mut fleet = fleet(1, "share_bytes = 33554432\nleases_in_flight = 8");
    let mut config = ReceiverConfig { epochs: 2, links: vec!["tcp".into()], ..fleet.config() };
    config.leases.heartbeat_ms = CALM_HEARTBEAT_MS;
    let folder = fleet.dir().to_owned();
    let start = |name: &str, life: &str, step_ms: u32| {
        let set = [
            format!("receiver.checkpoint_dir={}", folder.join(name).display()),
            "receiver.checkpoint_every_steps=2".to_owned(),
            "receiver.resume=true".to_owned(),
        ];
        let mut extra = vec!["--step-ms".to_owned(), step_ms.to_string()];
        extra.extend(support::set_flags(set));
        Ranks::start(&config, &folder, &format!("{name}-{life}"), &extra)
    };
    let mut stopped = start("stopped", "only", 20);
    let mut killed = start("killed", "first", 20);
    stopped.wait_for(0, 2);
    stopped.signal(0, Signal::STOP);
    killed.wait_for(0, 3);
    killed.kill();
    let first = killed.stream();
    let mut whole = start("whole", "only", 0);
    whole.finish();
    let expected = whole.stream();
    assert_eq!(expected.len(), 2 * 16);
    let before = fleet.worker(0).counter(MADE, "again=\"yes\"");
    stopped.signal(0, Signal::CONT);
    stopped.finish();
    let mut resumed = start("killed", "second", 0);
    resumed.finish();
    let again = fleet.worker(0).counter(MADE, "again=\"yes\"") - before;
    assert!(again > 0, "the window held all: nothing was made again");
    assert!(stopped.stream() == expected, "the stopped trial's batches differ");
    let mut joined: Stream = first;
    joined.extend(resumed.stream());
    assert!(joined == expected, "the killed trial's batches differ");
}
