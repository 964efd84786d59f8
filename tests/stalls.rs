//! A stall is staged in one stage after the other, and the rank's metrics and `headwater monitor` name that
//! stage. The monitor's page shows the same report.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;

use crate::server::{Dialect, Server};
use crate::support;
use crate::support::fleet::Fleet;
use crate::support::proxy::Proxy;
use crate::support::trainer::{CALM_HEARTBEAT_MS, Ranks};

/// Batches that are taken before anything is measured: workers have to be met first.
const BEFORE: usize = 3;
const MEASURED: usize = 4;
/// Longest wait for the monitor to see a stall.
const NAMED_WITHIN: Duration = Duration::from_secs(300);

const WAITED: &str = "headwater_receiver_waited_seconds";
const PENDING: &str = "headwater_receiver_pending_wait_seconds";
const WAITED_BY: &str = "headwater_receiver_waited_by_cause_seconds{cause=\"";

/// One rank that shows its metrics.
struct Rank {
    ranks: Ranks,
    metrics: String,
}

/// What a rank waited for, in seconds.
struct Waited {
    all: f64,
    by: BTreeMap<String, f64>,
    at: Instant,
}

// === impl Rank ===

impl Rank {
    fn start(config: &ReceiverConfig, fleet: &Fleet, recipe: &str, extra: &[&str]) -> Self {
        let metrics = format!("127.0.0.1:{}", Proxy::free_port());
        let listen = format!("telemetry.metrics_listen={metrics}");
        let preset = format!("recipe.preset={recipe}");
        let mut all = vec!["--set", &preset, "--set", &listen];
        all.extend(["--set", "receiver.worker_wait_ms=600000"]);
        all.extend(extra);
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let ranks = Ranks::start(config, fleet.dir(), "rank", &all);
        Self { ranks, metrics }
    }

    /// Between two looks of the rank at its waits, which one is under way.
    fn waited(&self) -> Waited {
        loop {
            let waited = self.look();
            let sum: f64 = waited.by.values().sum();
            if (sum - waited.all).abs() < 1e-6 {
                return waited;
            }
        }
    }

    fn look(&self) -> Waited {
        let text = support::scrape(&self.metrics);
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        let all = text.lines().find(|line| line.starts_with(&format!("{WAITED} ")));
        let by = text.lines().filter_map(|line| {
            let cause = line.strip_prefix(WAITED_BY)?.split('"').next()?;
            Some((cause.to_owned(), value(line)?))
        });
        let pending = text.lines().find(|line| line.starts_with(&format!("{PENDING} ")));
        let pending = pending.and_then(value).map(|seconds| ("pending".to_owned(), seconds));
        let by = by.chain(pending);
        let (all, by) = (all.and_then(value).expect("a total"), by.collect());
        Waited { all, by, at: Instant::now() }
    }

    /// Waits until the monitor names this stage. It may take its window, and its neighbours' work, to see it.
    fn is_named(&self, stage: &str) {
        let end = Instant::now() + NAMED_WITHIN;
        loop {
            let verdict = self.verdict();
            if verdict["stage"] == stage {
                return;
            }
            assert!(Instant::now() < end, "{verdict} instead of {stage}");
        }
    }

    fn verdict(&self) -> serde_json::Value {
        let monitor = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["monitor", "--once", "--json", "--window", "4", &self.metrics])
            .output()
            .expect("the monitor");
        let said = String::from_utf8_lossy(&monitor.stderr).into_owned();
        assert!(monitor.status.success(), "{said}");
        let report: serde_json::Value = serde_json::from_slice(&monitor.stdout).expect("a report");
        report["summary"]["verdict"].clone()
    }

    /// What the rank waits for while it takes some batches.
    fn measure(&mut self) -> Waited {
        self.ranks.wait_for(0, BEFORE);
        let before = self.waited();
        self.ranks.wait_for(0, self.ranks.taken(0) + MEASURED);
        self.waited().since(&before)
    }
}

// === impl Waited ===

impl Waited {
    fn since(self, before: &Self) -> Self {
        let less = |(cause, seconds): (String, f64)| {
            let seconds = seconds - before.by[&cause];
            (cause, seconds)
        };
        let by = self.by.into_iter().map(less).collect();
        Self { all: self.all - before.all, by, ..self }
    }

    fn of(&self, causes: &[&str]) -> f64 {
        causes.iter().map(|cause| self.by[*cause]).sum()
    }

    /// Checks that more was waited for these causes than for all others.
    fn check(&self, causes: &[&str]) {
        let sum: f64 = self.by.values().sum();
        let share = self.of(causes) / sum;
        assert!(share > 0.5, "{causes:?} are {share} of {:?}", self.by);
    }
}

fn config(fleet: &mut Fleet) -> ReceiverConfig {
    let mut config = ReceiverConfig {
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["tcp".into()],
        ..fleet.config()
    };
    config.leases.heartbeat_ms = CALM_HEARTBEAT_MS;
    config
}

fn photos() -> PathBuf {
    support::data("photos/photos-*.tar")
}

#[test]
fn slow_storage_is_named() {
    let mut fleet = Fleet::without_workers(photos());
    let storage = Proxy::new("127.0.0.1:0", &fleet.storage().address.clone());
    fleet.reach_storage_at(&storage.address);
    fleet.add_worker("local_files = \"off\"");
    let config = config(&mut fleet);
    storage.weather.delay_ms.store(300, Ordering::SeqCst);
    let mut rank = Rank::start(&config, &fleet, "imagenet-eval", &[]);
    rank.measure().check(&["read"]);
    rank.is_named("storage");
}

#[test]
fn a_slow_source_is_named() {
    let web = Server::start(Dialect::Plain);
    for number in [1, 3] {
        let name = format!("photos-00000{number}.tar");
        let bytes = std::fs::read(support::data("photos").join(&name)).expect("a shard");
        web.put(&format!("ds/{name}"), &bytes);
    }
    let url = format!("http://{}/ds/photos-00000{{1,3}}.tar", web.address);
    let mut fleet = Fleet::without_workers(url);
    fleet.add_worker("local_files = \"off\"");
    let config = config(&mut fleet);
    web.fail(|_| {
        std::thread::sleep(Duration::from_millis(300));
        None
    });
    let mut rank = Rank::start(&config, &fleet, "imagenet-eval", &[]);
    rank.measure().check(&["fetch"]);
    rank.is_named("storage");
}

#[test]
fn too_few_workers_are_named() {
    // Much to make and little to deliver and to look through: a trainer that hashes large views may take longer than
    // the worker that makes them.
    const MADE: &str = "recipe.tensors=[{name = \"images\", dtype = \"u8\", height = 16, width = 16, views = [{crop = \
                        {kind = \"random_resized\", scale = [0.9, 1.0], ratio = [0.75, 1.3333]}, ops = []}]}]";
    const JITTER: &str = "recipe.image_ops=[{op = \"color_jitter\", p = 1.0, brightness = [0.6, 1.4], contrast = \
                          [0.6, 1.4], saturation = [0.8, 1.2], hue = [-0.1, 0.1]}]";
    let mut fleet = Fleet::start(photos(), 1);
    let links = vec!["shm".into()];
    let config = ReceiverConfig { links, batch_samples: 32, ..config(&mut fleet) };
    let mut rank = Rank::start(&config, &fleet, "custom", &["--set", MADE, "--set", JITTER]);
    let waited = rank.measure();
    waited.check(&["queue", "decode", "augment"]);
    rank.is_named("augment");
    assert!(waited.by["decode"] > 0.0 && waited.by["augment"] > 0.0, "{:?}", waited.by);
}

#[test]
fn a_slow_link_is_named() {
    let mut fleet = Fleet::start(photos(), 1);
    // Workers get another address of this host than the one that the rank listens on.
    let port = Proxy::free_port();
    let data = Proxy::new(&format!("127.0.0.2:{port}"), &format!("127.0.0.1:{port}"));
    data.weather.bytes_per_s.store(2 << 20, Ordering::SeqCst);
    let config = config(&mut fleet);
    let listen = format!("links.tcp_listen=127.0.0.1:{port}");
    let at = ["--set", &listen, "--set", "links.tcp_advertise=127.0.0.2"];
    let mut rank = Rank::start(&config, &fleet, "dinov2", &at);
    rank.measure().check(&["deliver"]);
    rank.is_named("link");
}

#[test]
fn a_slow_trainer_waits_for_nothing() {
    let mut fleet = Fleet::start(photos(), 1);
    let config = config(&mut fleet);
    let mut rank = Rank::start(&config, &fleet, "raw", &["--step-ms", "2000"]);
    rank.ranks.wait_for(0, BEFORE);
    let before = rank.waited();
    rank.ranks.wait_for(0, rank.ranks.taken(0) + MEASURED);
    let begun = before.at;
    let waited = rank.waited().since(&before);
    let share = waited.all / (waited.at - begun).as_secs_f64();
    assert!(share < 0.1, "{share}: {:?}", waited.by);
    rank.is_named("trainer");
}

#[test]
fn missing_workers_are_named_while_they_are_missed() {
    let mut fleet = Fleet::start(photos(), 1);
    let config = config(&mut fleet);
    let mut rank = Rank::start(&config, &fleet, "raw", &["--step-ms", "50"]);
    rank.ranks.wait_for(0, BEFORE);
    fleet.worker(0).kill();
    let end = Instant::now() + Duration::from_secs(300);
    let seconds = |rank: &Rank| rank.waited().by["nobody"];
    let before = seconds(&rank);
    while seconds(&rank) < before + 2.0 {
        assert!(Instant::now() < end, "nobody is named: {:?}", rank.waited().by);
        std::thread::sleep(Duration::from_millis(50));
    }
    rank.is_named("nobody");
    fleet.restart_worker(0, "");
    let taken = rank.ranks.taken(0);
    rank.ranks.wait_for(0, taken + 2);
    let before = rank.waited();
    rank.ranks.wait_for(0, taken + 4);
    assert!(rank.waited().since(&before).by["nobody"] < 1.0, "a worker is there again");
}
