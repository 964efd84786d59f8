//! Tiers that are started before the one they need wait for it, say so, and give up at a limit.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::proxy::Proxy;
use crate::support::trainer::Ranks;

const LIMIT: Duration = Duration::from_secs(120);

/// Ends with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until_log_says(log: &Path, what: &str) {
    let end = Instant::now() + LIMIT;
    let text = || fs::read_to_string(log).unwrap_or_default();
    while !text().contains(what) {
        assert!(Instant::now() < end, "no `{what}` in:\n{}", text());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn headwater(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[test]
fn a_trainer_before_workers_before_storage_waits_and_gets_its_batches() {
    let mut fleet = Fleet::empty(support::data("photos/photos-000003.tar"), "");
    let [storage, worker] = [(); 2].map(|()| format!("127.0.0.1:{}", Proxy::free_port()));
    let config = ReceiverConfig {
        storage: vec![storage.clone()],
        workers: vec![worker.clone()],
        batch_samples: 8,
        ..ReceiverConfig::default()
    };
    let folder = fleet.dir().to_owned();
    let few = ["--batches", "3", "--log", "info"].map(str::to_owned);
    let mut ranks = Ranks::start(&config, &folder, "early", &few);
    let rank_log = folder.join("early-rank-0.log");
    until_log_says(&rank_log, "no storage node can answer, trying again");
    let worker_log = folder.join("worker.log");
    let started =
        headwater(&["augment", "--listen", &worker, "--storage", &storage, "--log", "info"])
            .stderr(File::create(&worker_log).expect("a log"))
            .spawn();
    let _worker = Worker(started.expect("a worker"));
    until_log_says(&worker_log, "no storage node can answer, trying again");
    // Nobody has given up meanwhile.
    ranks.check();
    fleet.add_storage_at(&storage);
    ranks.finish();
    assert_eq!(ranks.stream().len(), 3);
    // Each said once what it waits for, not at every try.
    for log in [rank_log, worker_log] {
        let text = fs::read_to_string(&log).expect("a log");
        assert_eq!(text.matches("no storage node can answer").count(), 1, "{text}");
    }
}

#[test]
fn whoever_waits_longer_than_the_limit_ends_with_a_sentence() {
    let nobody = "127.0.0.1:1";
    let mut fleet = Fleet::without_workers(support::data("photos/photos-000003.tar"));
    let storage = fleet.storage().address.clone();
    let receive = ["receive", "--dataset", "photos=photos", "--batches", "1"];
    let wait = ["--set", "receiver.worker_wait_ms=300"];
    let augment = ["augment", "--listen", "127.0.0.1:0"];
    for (mut command, why) in [
        (headwater(&[&receive[..], &["--storage", nobody], &wait].concat()), "no storage node"),
        (
            headwater(
                &[&receive[..], &["--storage", &storage, "--workers", nobody], &wait].concat(),
            ),
            "no augment worker for",
        ),
        (
            headwater(
                &[&augment[..], &["--storage", nobody], &["--set", "augment.storage_wait_ms=300"]]
                    .concat(),
            ),
            "no storage node",
        ),
    ] {
        let output = command.stderr(Stdio::piped()).output().expect("the program starts");
        let said = String::from_utf8(output.stderr).expect("text");
        let last = said.lines().last().unwrap_or_default();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(last.starts_with("headwater: ") && last.contains(why), "no `{why}` in: {said}");
        assert!(last.contains(nobody), "whom it waited for is not named: {said}");
    }
}
