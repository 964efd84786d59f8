//! Trials of one host that share one copy of their batches, and what becomes of the others when one of
//! them, or the process that has the copy, dies or is late.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use headwater_core::sampler::EpochEnd;
use headwater_core::{Dtype, Recipe};
use headwater_receiver::{Receiver, ReceiverConfig, WindowConfig};
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support;
use crate::support::everything;
use crate::support::fleet::Fleet;
use crate::support::shared_host::SharedHost;
use crate::support::trainer::{Ranks, Stream};

const LIMIT: Duration = Duration::from_secs(240);
const BATCH: u32 = 16;
const EPOCHS: u32 = 2;
const STEPS: usize = 16;
const PARTS: u64 = 2;

/// A worker and a storage node, and trials of one configuration.
struct Sweep {
    fleet: Fleet,
    config: ReceiverConfig,
    /// Arguments of all trials.
    extra: Vec<String>,
}

impl Sweep {
    fn new() -> Self {
        Self::of(Fleet::start(support::data("photos/photos-*.tar"), 1), Vec::new())
    }

    /// Trials with further arguments.
    fn of(mut fleet: Fleet, extra: Vec<String>) -> Self {
        let config = ReceiverConfig {
            batch_samples: BATCH,
            epochs: EPOCHS,
            links: vec!["tcp".into()],
            ..fleet.config()
        };
        Self { fleet, config, extra }
    }

    /// A trial that shares, with a step of `step_ms` ms; `keep`: batches that are kept.
    fn trial(&self, name: &str, keep: usize, step_ms: u32) -> Ranks {
        let keep = format!("receiver.host_batches={keep}");
        let extra = ["--set", "receiver.host_share=true", "--set", &keep, "--step-ms"];
        let extra = extra.map(str::to_owned).into_iter().chain([step_ms.to_string()]);
        let extra: Vec<String> = extra.chain(self.extra.iter().cloned()).collect();
        Ranks::start(&self.config, self.fleet.dir(), name, &extra)
    }

    /// What a trial takes that shares with nobody, and the parts that a worker makes for it.
    fn alone(&mut self) -> (Stream, u64) {
        let before = self.parts();
        let mut alone = Ranks::start(&self.config, self.fleet.dir(), "alone", &self.extra);
        alone.finish();
        let steps = alone.stream().len();
        assert_eq!(steps, if self.extra.is_empty() { STEPS * EPOCHS as usize } else { 2 });
        (alone.stream(), self.parts() - before)
    }

    fn parts(&mut self) -> u64 {
        self.fleet.worker(0).counter("headwater_augment_parts_total", "outcome=\"done\"")
    }

    /// Several trials have had as many parts made as one by itself, whatever a slow machine made twice to be sure:
    /// each trial for itself would have had twice or three times as many. Beside them, what the process has made
    /// ahead of the last batch, and the one that it offers next.
    #[track_caller]
    fn made_once(&mut self, before: u64, made_alone: u64) {
        let ahead = u64::from(self.config.window.window_batches + 2) * PARTS;
        let made = self.parts() - before;
        let most = made_alone + made_alone / 4 + ahead;
        assert!(made <= most, "{made} parts for several trials, {made_alone} for one");
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.fleet.dir().join(format!("{name}-rank-0.log"))).expect("a log")
    }

    /// The process that has the copy.
    fn host(&self) -> Pid {
        let sockets = self.fleet.dir().join("headwater");
        let hosts = processes().filter(|(_, line)| {
            line.contains("\0host\0") && line.contains(&*sockets.to_string_lossy())
        });
        let hosts: Vec<i32> = hosts.map(|(pid, _)| pid).collect();
        let [host] = hosts[..] else { panic!("not one process but {hosts:?}") };
        Pid::from_raw(host).expect("a pid")
    }

    /// Waits until it is gone, and its socket.
    fn no_host(&self, host: Pid) {
        let sockets = || {
            let folder = fs::read_dir(self.fleet.dir().join("headwater")).expect("a folder");
            let names = folder.flatten().map(|entry| entry.path());
            names.filter(|path| path.extension().is_some_and(|end| end == "sock")).count()
        };
        until("the process ends", || !is_there(host) && sockets() == 0);
    }
}

/// Numbers and command lines.
fn processes() -> impl Iterator<Item = (i32, String)> {
    fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, fs::read_to_string(entry.path().join("cmdline")).ok()?))
    })
}

/// Whether a process runs: one that nobody has waited for does not.
fn is_there(pid: Pid) -> bool {
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_ok() && state.is_ok_and(|state| !state.contains(") Z "))
}

fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is() {
        assert!(Instant::now() < end, "not so within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Inodes of the slots that a process maps, with the right to write (`rw-s`) or without (`r--s`).
fn slots(pid: u32, rights: &str) -> Vec<String> {
    let maps = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("maps"));
    let maps = maps.expect("the process is there");
    let slots = maps.lines().filter(|line| line.contains("headwater-slot"));
    let words = slots.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words[1] == rights).map(|words| words[4].to_owned()).collect()
}

/// The service in this process, of a recipe that is made quickly.
fn open(config: ReceiverConfig) -> SharedHost {
    let config = ReceiverConfig { links: vec!["tcp".into()], ..config };
    SharedHost::open(config, Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset"))
}

/// The next batch, over the ends of epochs.
fn next(receiver: &Receiver) -> headwater_receiver::Batch {
    loop {
        if let Some(batch) = receiver.next_batch().expect("the stream goes on") {
            return batch;
        }
    }
}

/// Where a batch's first tensor lies.
fn address(batch: &headwater_receiver::Batch) -> Option<*mut u8> {
    batch.tensor_ptr(&batch.layout().tensors()[0])
}

#[test]
fn a_batch_that_a_trial_asks_for_again_stays_until_each_copy_is_dropped() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
    let service = open(config);
    let (one, other) = (service.trial(), service.trial());
    let peeked = next(&one);
    let wanted = peeked.digest().expect("a digest");
    one.set_epoch(0).expect("a place");
    let (first, second) = (next(&one), {
        one.set_epoch(0).expect("a place");
        next(&one)
    });
    let places = [&peeked, &first, &second].map(address);
    assert!(places[0] != places[1] && places[1] != places[2], "{places:?}: one may be written to");
    for dropped in [peeked, first] {
        drop(dropped);
        // Every slot that is free is used again.
        (0..3 * STEPS).for_each(|_| drop(next(&other)));
        assert_eq!(second.digest().expect("a digest"), wanted);
    }
    let figures = [&one, &other].map(|trial| trial.stats().host_batches);
    assert!(figures[0] >= 3 && figures[1] >= 6 * STEPS as u64, "{figures:?} are shared");
}

/// What breaks the connection is a word that is none: a trial of another kind, or a message that was cut short.
#[test]
fn what_a_trial_holds_stays_when_the_service_cannot_go_on_with_it() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
    let service = open(config);
    let ((one, line), other) = (service.trial_and_line(), service.trial());
    let held = next(&one);
    let wanted = held.digest().expect("a digest");
    rustix::net::send(&line, b"no word", SendFlags::empty()).expect("sent");
    // It hears that the service has left it, and makes its batches by itself.
    until("it goes on alone", || {
        let shared = one.stats().host_batches;
        drop(next(&one));
        one.stats().host_batches == shared
    });
    for _ in 0..6 * STEPS {
        drop(next(&other));
        assert_eq!(held.digest().expect("a digest"), wanted);
    }
}

/// More answers than a trial may hold, most of them on their way when it goes elsewhere.
#[test]
fn whatever_a_trial_no_longer_wants_is_released_once() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
    let service = open(config);
    let trial = service.trial();
    for round in 0..1500 {
        trial.seek(headwater_receiver::Position { epoch: 0, step: round % 2 }).expect("a place");
        drop(next(&trial));
    }
    let before = trial.stats().host_batches;
    assert!(before >= 1500, "{before} are shared");
    (0..STEPS).for_each(|_| drop(next(&trial)));
    assert!(trial.stats().host_batches >= before + STEPS as u64 - 3);
}

/// A service in a batch where nobody is more than four ahead of another.
fn in_step(fleet: &mut Fleet) -> SharedHost {
    let mut config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
    (config.window.host_batches, config.window.max_lead) = (4, 4);
    open(config)
}

/// Takes two epochs of batches that are shared.
fn goes_on(one: &Receiver) {
    let before = one.stats().host_batches;
    let began = Instant::now();
    while one.stats().host_batches < before + 2 * STEPS as u64 {
        assert!(began.elapsed() < LIMIT, "it waits for one that asks for nothing");
        let _ = one.next_within(Duration::from_secs(1)).expect("the stream goes on");
    }
}

/// One that joins late has its first epoch for itself, by sessions of its own, and keeps these.
#[test]
fn nobody_waits_for_a_trial_that_shares_again_after_an_epoch_of_its_own() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let service = in_step(&mut fleet);
    let one = service.trial();
    (0..STEPS / 2).for_each(|_| drop(next(&one)));
    let other = service.trial();
    drop(next(&other));
    assert_eq!(other.stats().host_batches, 0, "it came too late for this epoch");
    let began = Instant::now();
    while other.stats().host_batches < 2 * STEPS as u64 {
        assert!(began.elapsed() < LIMIT, "one waits for the place that the other has left");
        for trial in [&one, &other] {
            let _ = trial.next_within(Duration::from_millis(100)).expect("the stream goes on");
        }
    }
}

#[test]
fn a_trial_that_goes_on_alone_does_not_wait_for_a_service_that_nobody_asks() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let window =
        WindowConfig { window_batches: 1, host_batches: 1, max_lead: 1, ..fleet.config().window };
    let config = ReceiverConfig { batch_samples: BATCH, epochs: 0, window, ..fleet.config() };
    let service = open(config);
    let trial = service.trial();
    let mut kept = Vec::new();
    until_shared_ends(&trial, &mut kept);
    let began = Instant::now();
    while trial.position().epoch == 0 {
        assert!(began.elapsed() < LIMIT, "it waits at step {}", trial.position().step);
        let _ = trial.next_within(Duration::from_secs(1)).expect("the stream goes on");
    }
}

#[test]
fn nobody_waits_for_a_trial_whose_batch_outlives_it() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let service = in_step(&mut fleet);
    let (one, other) = (service.trial(), service.trial());
    let held = next(&other);
    let wanted = held.digest().expect("a digest");
    drop(other);
    goes_on(&one);
    assert_eq!(held.digest().expect("a digest"), wanted);
}

#[test]
fn nobody_waits_for_a_trial_that_has_had_its_last_epoch() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let service = in_step(&mut fleet);
    let (one, other) = (service.trial(), service.trial_of(1));
    for _ in 0..STEPS {
        drop(next(&other));
        drop(next(&one));
    }
    assert!(other.stats().host_batches > 0, "it was given what the first one has had");
    assert!(other.next_batch().expect("the end of its epoch").is_none());
    goes_on(&one);
}

#[test]
fn trials_that_keep_their_batches_take_no_slots_from_the_others() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let mut config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
    config.window.host_batches = 4;
    let service = open(config);
    let (one, others) = (service.trial(), [0; 6].map(|_| service.trial()));
    let mut kept = Vec::new();
    for other in &others {
        until_shared_ends(other, &mut kept);
        let shared = other.stats().host_batches;
        assert!((6..=14).contains(&shared), "{shared} of the service's batches are kept");
    }
    let digests = |kept: &[headwater_receiver::Batch]| -> Vec<_> {
        kept.iter().map(|batch| batch.digest().expect("a digest")).collect()
    };
    let wanted = digests(&kept);
    goes_on(&one);
    assert_eq!(digests(&kept), wanted);
}

/// As in `for batch in loader`: a batch is dropped when the next one is there. The other has all that trials share.
#[test]
fn a_trainer_that_holds_a_batch_while_it_takes_the_next_is_given_all_batches() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let mut config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
    config.window.host_batches = 1;
    let service = open(config);
    let (keeps, trial, mut kept) = (service.trial(), service.trial(), Vec::new());
    until_shared_ends(&keeps, &mut kept);
    let mut in_hand = None;
    for taken in 1..STEPS as u64 - 2 {
        let next = next(&trial);
        let figures = || (trial.stats().host_batches, trial.stats().batches);
        until("it has asked ahead", || figures().0 >= taken + 2 || figures().0 < figures().1);
        assert_eq!(figures().0, figures().1, "step {taken}");
        in_hand = Some(next);
    }
    drop(in_hand);
}

/// Takes and keeps batches until one is the trial's own.
fn until_shared_ends(trial: &Receiver, kept: &mut Vec<headwater_receiver::Batch>) {
    let began = Instant::now();
    loop {
        let before = trial.stats().batches;
        let shared = trial.stats().host_batches;
        kept.push(next(trial));
        assert!(began.elapsed() < LIMIT && kept.len() < 64, "it is given {shared} of {before}");
        if trial.stats().batches > trial.stats().host_batches {
            return;
        }
    }
}

/// One that says so, and one whose connection is broken. Neither has closed it.
#[test]
fn nobody_waits_for_a_trial_that_goes_on_alone() {
    for word in [&b"\0\"leave\""[..], b"no word"] {
        let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
        let mut config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
        config.window.max_lead = 4;
        let service = open(config);
        let ((other, line), one) = (service.trial_and_line(), service.trial());
        drop(next(&other));
        until("it asks for no more", || other.stats().host_batches == 3);
        rustix::net::send(&line, word, SendFlags::empty()).expect("sent");
        let began = Instant::now();
        while one.stats().host_batches < 2 * STEPS as u64 {
            assert!(began.elapsed() < LIMIT, "it waits for a trial that asks for nothing");
            let _ = one.next_within(Duration::from_millis(100)).expect("the stream goes on");
            // By itself it is as far as the other.
            if word == b"no word" {
                let _ = other.next_within(Duration::from_millis(100)).expect("the stream goes on");
            }
        }
    }
}

/// 64 samples are 7 batches of three ranks with three each, and one sample that is too few for them.
#[test]
fn every_epoch_is_shared_where_a_short_batch_is_left_out() {
    let mut fleet = Fleet::start(support::data("photos/photos-000001.tar"), 1);
    let mut config =
        ReceiverConfig { batch_samples: 3, world_size: 3, epochs: 0, ..fleet.config() };
    config.order.epoch_end = EpochEnd::ShortLast;
    let service = open(config);
    let trial = service.trial();
    let steps = trial.steps_per_epoch(0);
    assert_eq!(trial.job_step(1, 0), steps + 1, "a short batch counts and is not made");
    for batch in 0..4 * steps {
        assert_eq!(trial.stats().host_batches.min(batch), batch);
        drop(next(&trial));
    }
    assert!(trial.stats().host_batches >= 4 * steps);
}

#[test]
fn trials_map_one_copy_that_is_made_once_and_its_process_ends_with_them() {
    let mut sweep = Sweep::new();
    let (alone, made_alone) = sweep.alone();
    let before = sweep.parts();
    let keep = STEPS * EPOCHS as usize;
    let mut trials = ["a", "b", "c"].map(|name| sweep.trial(name, keep, 20));
    trials.iter_mut().for_each(|trial| trial.wait_for(0, 3));
    let host = sweep.host();
    let pids = trials.each_ref().map(|trial| trial.pid(0));
    for pid in pids {
        assert_eq!(slots(pid, "rw-s"), [""; 0], "no slot of its own");
        let theirs = slots(host.as_raw_nonzero().get() as u32, "rw-s");
        let mapped = slots(pid, "rw-p");
        assert!(mapped.len() >= 3 && mapped.iter().all(|slot| theirs.contains(slot)));
    }
    for (trial, name) in trials.iter_mut().zip(["a", "b", "c"]) {
        trial.finish();
        assert_eq!(trial.stream(), alone);
        assert!(!sweep.log(name).contains("not shared"), "{}", sweep.log(name));
    }
    sweep.no_host(host);
    sweep.made_once(before, made_alone);
}

#[test]
fn trials_with_every_kind_of_field_map_one_copy() {
    let mut sweep = Sweep::of(everything::fleet(1, ""), everything::arguments());
    let (alone, made_alone) = sweep.alone();
    let before = sweep.parts();
    let mut trials = ["a", "b"].map(|name| sweep.trial(name, 4, 20));
    for (trial, name) in trials.iter_mut().zip(["a", "b"]) {
        trial.finish();
        assert!(trial.stream() == alone, "other batches than a trial of its own");
        assert!(!sweep.log(name).contains("not shared"), "{}", sweep.log(name));
    }
    sweep.made_once(before, made_alone);
}

#[test]
fn whoever_dies_the_others_go_on_with_the_same_batches() {
    let mut sweep = Sweep::new();
    let (alone, _) = sweep.alone();
    let keep = STEPS * EPOCHS as usize;
    let mut first = sweep.trial("first", keep, 100);
    first.wait_for(0, 2);
    let mut others = ["b", "c"].map(|name| sweep.trial(name, keep, 100));
    others.iter_mut().for_each(|trial| trial.wait_for(0, 4));
    let host = sweep.host();
    // Whose child the process is.
    first.kill();
    let taken = others[0].taken(0);
    others.iter_mut().for_each(|trial| trial.wait_for(0, taken + 4));
    assert!(is_there(host));
    assert!(others.iter().all(|trial| trial.taken(0) < keep), "too late to see anything");
    kill_process(host, Signal::KILL).expect("it is there");
    for (trial, name) in others.iter_mut().zip(["b", "c"]) {
        trial.finish();
        assert_eq!(trial.stream(), alone);
        assert!(sweep.log(name).contains("not shared on this host from here"));
    }
}

#[test]
fn who_lags_beyond_what_is_kept_goes_on_alone_with_the_same_batches() {
    let mut sweep = Sweep::new();
    let (alone, _) = sweep.alone();
    let mut late = sweep.trial("late", 4, 50);
    late.wait_for(0, 1);
    // Before the other begins, so that its first batch is still kept.
    late.signal(0, Signal::STOP);
    let mut fast = sweep.trial("fast", 4, 50);
    // It waits for nobody, and goes beyond all that is kept and that the other has been given ahead.
    fast.wait_for(0, late.taken(0) + 22);
    // Who has ended would leave the copy to the other.
    fast.signal(0, Signal::STOP);
    late.signal(0, Signal::CONT);
    late.finish();
    fast.signal(0, Signal::CONT);
    fast.finish();
    for (trial, name, is_alone) in [(late, "late", true), (fast, "fast", false)] {
        assert_eq!(trial.stream(), alone);
        let log = sweep.log(name);
        assert_eq!(log.contains("not shared on this host from here"), is_alone, "{name}: {log}");
    }
}
