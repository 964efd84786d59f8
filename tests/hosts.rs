//! Tiers on hosts of their own. Nothing is configured but where storage nodes and workers are.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::network::{Host, available};

/// Longest wait for a line in a log, or for an epoch.
const LIMIT: Duration = Duration::from_secs(600);
/// Workers listen on all addresses at this port, each on a host of its own.
const EVERYWHERE: &str = "0.0.0.0:7402";

/// `headwater receive` with a file of host names of its own; killed when dropped.
struct Rank {
    process: Child,
    log: PathBuf,
    digests: PathBuf,
    hosts: PathBuf,
}

// === impl Rank ===

impl Rank {
    fn start(folder: &Path, config: &ReceiverConfig) -> Self {
        let [log, digests, hosts] = ["log", "digests", "hosts"].map(|name| folder.join(name));
        std::fs::write(&hosts, "127.0.0.1 localhost\n").expect("a file");
        let shell = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let process = Command::new("unshare")
            .args(["--mount", "sh", "-c", shell])
            .arg(&hosts)
            .args([env!("CARGO_BIN_EXE_headwater"), "receive", "--dataset", "photos=photos"])
            .args(["--storage", &config.storage.join(","), "--workers", &config.workers.join(",")])
            .args(["--batch", "8", "--epochs", &config.epochs.to_string()])
            .arg("--digests")
            .arg(&digests)
            .args(["--set", &format!("receiver.worker_wait_ms={}", LIMIT.as_millis())])
            .env("HEADWATER_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("a rank starts");
        Self { process, log, digests, hosts }
    }

    /// Waits for a line with all of these words.
    fn wait_for_line(&mut self, words: &[&str]) {
        let end = Instant::now() + LIMIT;
        loop {
            let ended = self.process.try_wait().expect("a child");
            let log = std::fs::read_to_string(&self.log).expect("a log");
            if log.lines().any(|line| words.iter().all(|word| line.contains(word))) {
                return;
            }
            assert!(ended.is_none() && Instant::now() < end, "no line with {words:?} in\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// From now on its host knows this name by this address.
    fn name(&self, name: &str, address: &str) {
        // In place: a file that took its place would not be the one that is mounted.
        std::fs::write(&self.hosts, format!("127.0.0.1 localhost\n{address} {name}\n"))
            .expect("a file");
    }

    fn taken(&self) -> usize {
        std::fs::read_to_string(&self.digests).unwrap_or_default().lines().count()
    }

    fn wait_for_batches(&mut self, batches: usize) {
        let end = Instant::now() + LIMIT;
        while self.taken() < batches {
            let ended = self.process.try_wait().expect("a child");
            assert!(ended.is_none() && Instant::now() < end, "{} of {batches}", self.taken());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end of its last epoch.
    fn finish(&mut self) {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            if let Some(status) = self.process.try_wait().expect("a child") {
                let log = std::fs::read_to_string(&self.log).expect("a log");
                assert!(status.success(), "{log}");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the epoch does not end");
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A storage node on this host, and hosts for two workers.
fn fleet() -> Option<(Fleet, [Host; 2])> {
    if let Err(reason) = available() {
        println!("SKIPPED: {reason}");
        return None;
    }
    let hosts = [Host::new(), Host::new()];
    let mut fleet = Fleet::empty(support::data("photos/photos-*.tar"), "");
    fleet.settle("0.0.0.0", "");
    fleet.add_storage();
    Some((fleet, hosts))
}

/// Starts a worker on a host; the rank and the other tiers are on this one.
fn add_worker(fleet: &mut Fleet, host: &Host, extra: &str) {
    let port = fleet.storage().address.rsplit_once(':').expect("host:port").1.to_owned();
    fleet.reach_storage_at(&format!("{}:{port}", host.here));
    fleet.settle("0.0.0.0", &host.namespace);
    fleet.add_worker_at(EVERYWHERE, extra);
}

fn config(fleet: &mut Fleet, workers: &[String]) -> ReceiverConfig {
    let port = fleet.storage().address.rsplit_once(':').expect("host:port").1.to_owned();
    let storage = vec![format!("127.0.0.1:{port}")];
    ReceiverConfig { storage, workers: workers.to_vec(), epochs: 1, ..ReceiverConfig::default() }
}

/// Both listen on `0.0.0.0:7402`, and the rank's configuration names no address to listen on: each
/// worker has its host's name, and learns the rank's address on the way to it.
#[test]
fn workers_on_other_hosts_have_names_of_their_own_and_reach_the_rank() {
    let Some((mut fleet, hosts)) = fleet() else { return };
    hosts.iter().for_each(|host| add_worker(&mut fleet, host, ""));
    let workers = [0, 1].map(|host| format!("{}:7402", hosts[host].there));
    let config = config(&mut fleet, &workers);
    let mut rank = Rank::start(fleet.dir(), &config);
    for host in &hosts {
        let name = format!("worker=\"{}:7402\"", host.namespace);
        rank.wait_for_line(&["worker joined", &name, "link=tcp"]);
    }
    rank.finish();
}

#[test]
fn a_second_worker_of_the_same_name_is_refused_by_name() {
    let Some((mut fleet, hosts)) = fleet() else { return };
    hosts.iter().for_each(|host| add_worker(&mut fleet, host, "advertise = \"twin\""));
    let workers = [0, 1].map(|host| format!("{}:7402", hosts[host].there));
    let config = config(&mut fleet, &workers);
    let mut rank = Rank::start(fleet.dir(), &config);
    rank.wait_for_line(&["worker joined", "worker=\"twin\""]);
    rank.wait_for_line(&[
        "no session with worker",
        "its name `twin` is already taken by the worker at",
        "give each worker its own augment.advertise, and list each worker under one address only",
    ]);
    rank.finish();
}

#[test]
fn a_listed_name_is_resolved_again_when_its_worker_has_moved() {
    let Some((mut fleet, hosts)) = fleet() else { return };
    add_worker(&mut fleet, &hosts[0], "");
    let endless =
        ReceiverConfig { epochs: 0, ..config(&mut fleet, &["worker-host:7402".to_owned()]) };
    let mut rank = Rank::start(fleet.dir(), &endless);
    rank.wait_for_line(&["no session with worker", "worker-host:7402"]);
    rank.name("worker-host", &hosts[0].there);
    rank.wait_for_line(&["worker joined", &hosts[0].namespace]);
    fleet.worker(0).kill();
    add_worker(&mut fleet, &hosts[1], "");
    rank.name("worker-host", &hosts[1].there);
    rank.wait_for_line(&["worker joined", &hosts[1].namespace]);
    // More than were ready when the first one ended.
    rank.wait_for_batches(rank.taken() + 20);
}
