//! Workers that are found by a list which changes while an epoch runs.

use std::time::{Duration, Instant};

use headwater_core::Digest;
use headwater_receiver::{Receiver, ReceiverConfig};

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::proxy::Proxy;

/// Longest time until a change of the list shows.
const LIMIT: Duration = Duration::from_secs(60);

/// The name by which a worker at `127.0.0.1:port` is known: this host's, and the port.
fn name_of(address: &str) -> String {
    let port = address.rsplit_once(':').expect("host:port").1;
    format!("{}:{port}", headwater_storage_client::host_name())
}

/// Takes an epoch; `at_step` is called before each step.
fn epoch(config: ReceiverConfig, mut at_step: impl FnMut(u64, &Receiver)) -> Vec<Digest> {
    let receiver = Fleet::open(config);
    let mut digests = Vec::new();
    loop {
        at_step(receiver.position().step, &receiver);
        match receiver.next_batch().expect("a batch") {
            Some(batch) => digests.push(batch.digest().expect("on the host")),
            None => return digests,
        }
    }
}

fn wait_for_workers(receiver: &Receiver, addresses: &[&str]) {
    let end = Instant::now() + LIMIT;
    let mut wanted: Vec<String> = addresses.iter().map(|address| name_of(address)).collect();
    wanted.sort_unstable();
    let joined = || receiver.stats().workers.into_keys().collect::<Vec<String>>();
    while joined() != wanted {
        assert!(Instant::now() < end, "{wanted:?} should be there, not {:?}", joined());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn workers_join_and_leave_by_a_file_in_mid_epoch_and_change_no_byte() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 2);
    let mut fixed = fleet.config();
    fixed.window.window_batches = 2;
    let (first, second) = (fixed.workers[0].clone(), fixed.workers[1].clone());
    let alone = ReceiverConfig { workers: vec![first.clone()], ..fixed.clone() };
    let reference = epoch(alone, |_, _| {});

    let list = fleet.dir().join("workers");
    let write = |text: &str| {
        let new = list.with_extension("new");
        std::fs::write(&new, text).expect("a list");
        std::fs::rename(&new, &list).expect("the list in its place");
    };
    write(&format!("{first} # the only one yet\n"));
    let workers = vec![format!("file:{}", list.display())];
    let mut found = ReceiverConfig { workers, ..fixed };
    found.leases.workers_refresh_ms = 20;
    let both = [first.as_str(), second.as_str()];
    let mut changes = 0;
    let changed = epoch(found, |step, receiver| match step {
        2 => {
            write(&format!("{first}\n{second}\n"));
            wait_for_workers(receiver, &both);
            changes += 1;
        }
        4 => {
            write(&format!("{second}\n"));
            wait_for_workers(receiver, &[&second]);
            changes += 1;
        }
        _ => {}
    });
    assert_eq!(changes, 2, "the epoch has steps enough");
    assert!(changed == reference, "an epoch whose workers came and went brought other batches");
}

#[test]
fn a_listed_worker_that_starts_later_or_returns_is_met_and_changes_no_byte() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let mut alone = fleet.config();
    alone.window.window_batches = 2;
    let reference = epoch(alone.clone(), |_, _| {});
    let first = alone.workers[0].clone();
    let late = format!("127.0.0.1:{}", Proxy::free_port());
    let listed = ReceiverConfig { workers: vec![first.clone(), late.clone()], ..alone };
    let both = [first.as_str(), late.as_str()];
    let mut changes = 0;
    let changed = epoch(listed, |step, receiver| {
        match step {
            2 => {
                wait_for_workers(receiver, &both[..1]);
                fleet.add_worker_at(&late, "");
                wait_for_workers(receiver, &both);
            }
            4 => {
                fleet.worker(1).kill();
                wait_for_workers(receiver, &both[..1]);
            }
            5 => {
                fleet.restart_worker(1, "");
                wait_for_workers(receiver, &both);
            }
            _ => return,
        }
        changes += 1;
    });
    assert_eq!(changes, 3, "the epoch has steps enough");
    assert!(changed == reference, "an epoch whose workers came and went brought other batches");
}

#[test]
fn a_list_that_leads_nowhere_is_named_when_no_worker_comes() {
    let mut fleet = Fleet::without_workers(support::data("photos/photos-*.tar"));
    let workers = vec!["file:/nowhere/workers".to_owned()];
    let mut config = ReceiverConfig { workers, ..fleet.config() };
    config.leases.worker_wait_ms = 300;
    let receiver = Fleet::open(config);
    let error = receiver.next_batch().map(drop).expect_err("no worker can be found").to_string();
    assert!(error.contains("`file:/nowhere/workers`"), "{error}");
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn workers_that_are_set_take_the_place_of_those_that_are_found() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 2);
    let config = fleet.config();
    let [first, second] = [&config.workers[0], &config.workers[1]];
    let list = fleet.dir().join("workers");
    std::fs::write(&list, format!("{first}\n")).expect("a list");
    let workers = vec![format!("file:{}", list.display())];
    let mut found = ReceiverConfig { workers, ..config.clone() };
    found.leases.workers_refresh_ms = 20;
    let receiver = Fleet::open(found);
    wait_for_workers(&receiver, &[first]);
    receiver.set_workers(std::slice::from_ref(second)).expect("a list that can be read");
    wait_for_workers(&receiver, &[second]);
    // Were the file still looked at, its change would bring the first one back.
    std::fs::write(&list, format!("{first}\n{second}\n")).expect("a list");
    std::thread::sleep(Duration::from_millis(200));
    wait_for_workers(&receiver, &[second]);

    let error = receiver.set_workers(&["n[2-1]:1".to_owned()]).expect_err("no such range");
    assert!(error.to_string().starts_with("receiver.workers has `n[2-1]:1`"), "{error}");
}

#[test]
fn a_receiver_without_workers_names_them_in_its_log_with_what_keeps_each() {
    let mut fleet = Fleet::empty(support::data("photos/photos-*.tar"), "");
    fleet.add_storage();
    let storage = fleet.config().storage.join(",");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["receive", "--dataset", "photos=photos", "--storage", &storage, "--batches", "1"])
        .args(["--workers", "127.0.0.1:1,nowhere.invalid:7402"])
        .args(["--set", "receiver.worker_wait_ms=6000"])
        .output()
        .expect("the program starts");
    let said = String::from_utf8(output.stderr).expect("text");
    let warned = said.lines().find(|line| line.contains("no augment worker for 5 s: "));
    let warned = warned.unwrap_or_else(|| panic!("not a word of it:\n{said}"));
    for wanted in ["127.0.0.1:1: cannot reach", "refused", "nowhere.invalid:7402: cannot reach"] {
        assert!(warned.contains(wanted), "no `{wanted}` in: {warned}");
    }
    assert!(!output.status.success());
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains("no augment worker for 6 s: 127.0.0.1:1: "), "{last}");
}
