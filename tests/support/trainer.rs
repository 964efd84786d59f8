//! Training ranks as processes that note what they take: `headwater receive --digests`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The recipe where a test does not choose one: whatever is drawn for a sample is in it, and it costs a quarter of
/// what `dinov2` costs.
pub const RECIPE: &str = "imagenet-train";
/// Longest wait for a batch or an end.
const LIMIT: Duration = Duration::from_secs(600);
/// Between heartbeats where workers are to be given up soon. Three may stay out: a machine that has
/// ten times the work it has cores for leaves a thread waiting for longer than shorter ones allow.
pub const HEARTBEAT_MS: u32 = 500;
/// Where nobody should be given up.
pub const CALM_HEARTBEAT_MS: u32 = 60_000;

/// A process for each rank; all killed when dropped.
pub struct Ranks {
    processes: Vec<Child>,
    digests: Vec<PathBuf>,
}

/// The samples' keys and digests, in order.
pub type GlobalBatch = Vec<(String, String)>;

/// Global batches by (epoch, step): the ranks' batches joined in the ranks' order.
pub type Stream = BTreeMap<(u64, u64), GlobalBatch>;

impl Ranks {
    /// Starts `config.world_size` ranks, each with `extra` arguments and one of `config.links` in
    /// turn. `name` tells lives apart.
    pub fn start(config: &ReceiverConfig, folder: &Path, name: &str, extra: &[String]) -> Self {
        let mut ranks = Self { processes: Vec::new(), digests: Vec::new() };
        for rank in 0..config.world_size {
            let digests = folder.join(format!("{name}-rank-{rank}.json"));
            let log = folder.join(format!("{name}-rank-{rank}.log"));
            let link = &config.links[rank as usize % config.links.len()];
            let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
            command
                .args(["receive", "--dataset", "photos=photos", "--links", link])
                .args(["--storage", &config.storage.join(",")])
                .args(["--workers", &config.workers.join(",")])
                .args(["--rank", &rank.to_string()])
                .args(["--world-size", &config.world_size.to_string()])
                .args(["--batch", &config.batch_samples.to_string()])
                .args(["--epochs", &config.epochs.to_string()])
                .args(["--set", &format!("receiver.seed={}", config.seed)])
                .args(
                    config
                        .order
                        .shuffle_block
                        .map(|shards| format!("--set=receiver.shuffle_block={shards}")),
                )
                .args(["--set", &format!("receiver.part_samples={}", config.window.part_samples)])
                .args(["--set", &format!("receiver.heartbeat_ms={}", config.leases.heartbeat_ms)])
                // What it releases is what it was given.
                .args(["--set", "receiver.verify_held=true"])
                .arg("--digests")
                .arg(&digests)
                .args(extra)
                .env("XDG_RUNTIME_DIR", folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(std::fs::File::create(log).expect("a log"));
            if !extra.iter().any(|argument| argument.starts_with("recipe.")) {
                command.args(["--set", &format!("recipe.preset={RECIPE}")]);
            }
            ranks.processes.push(command.spawn().expect("a rank starts"));
            ranks.digests.push(digests);
        }
        ranks
    }

    pub fn len(&self) -> usize {
        self.processes.len()
    }

    pub fn pid(&self, rank: usize) -> u32 {
        self.processes[rank].id()
    }

    pub fn signal(&self, rank: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.processes[rank]), signal).expect("a rank is there");
    }

    /// Batches that a rank has taken.
    pub fn taken(&self, rank: usize) -> usize {
        lines(&self.digests[rank]).len()
    }

    /// When each batch of a rank came, in ms.
    pub fn times(&self, rank: usize) -> Vec<u64> {
        lines(&self.digests[rank]).iter().map(|line| number(line, "unix_ms")).collect()
    }

    /// Fails the test when a rank has ended.
    pub fn check(&mut self) {
        for (rank, process) in self.processes.iter_mut().enumerate() {
            let ended = process.try_wait().expect("a child");
            let log = self.digests[rank].with_extension("log");
            let log = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "rank {rank} ended by itself: {ended:?}\n{}", log());
        }
    }

    /// Waits until a rank has taken `batches` batches. Others may be ahead of it, at the stream's
    /// end even.
    pub fn wait_for(&mut self, rank: usize, batches: usize) {
        let end = Instant::now() + LIMIT;
        loop {
            // Asked before the batches are counted: what has ended takes no more.
            let ended: Vec<_> = self
                .processes
                .iter_mut()
                .map(|process| process.try_wait().expect("a child"))
                .collect();
            if self.taken(rank) >= batches {
                return;
            }
            let well = ended.iter().flatten().all(|status| status.success());
            if !well || ended[rank].is_some() {
                self.check();
            }
            assert!(Instant::now() < end, "rank {rank} does not take {batches} batches");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// kill -9 for all.
    pub fn kill(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits until every rank has taken its whole stream: as long as batches are taken.
    pub fn finish(&mut self) {
        self.finish_with(0);
    }

    /// Asks every rank to end in the middle of its stream. It says by its status that it was interrupted.
    pub fn end(&mut self) {
        (0..self.len()).for_each(|rank| self.signal(rank, Signal::TERM));
        self.finish_with(128 + Signal::TERM.as_raw());
    }

    fn finish_with(&mut self, code: i32) {
        let written = |digests: &[PathBuf]| -> u64 {
            digests.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|m| m.len()).sum()
        };
        let (mut before, mut end) = (0, Instant::now() + LIMIT);
        for (rank, process) in self.processes.iter_mut().enumerate() {
            let status = loop {
                if let Some(status) = process.try_wait().expect("a child") {
                    break status;
                }
                let now = written(&self.digests);
                if now > before {
                    (before, end) = (now, Instant::now() + LIMIT);
                }
                assert!(Instant::now() < end, "rank {rank} does not end");
                std::thread::sleep(Duration::from_millis(20));
            };
            assert_eq!(status.code(), Some(code), "rank {rank} ended with {status}");
        }
    }

    /// Batches that every rank has taken.
    pub fn stream(&self) -> Stream {
        let mut ranks: Vec<Stream> = self.digests.iter().map(|path| read(path)).collect();
        let mut joined = ranks.remove(0);
        for rank in &ranks {
            joined.retain(|place, _| rank.contains_key(place));
            for (place, batch) in &mut joined {
                batch.extend(rank[place].iter().cloned());
            }
        }
        joined
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whole lines; a killed process may have left half of one.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().expect("a number")
}

fn read(path: &Path) -> Stream {
    let texts = |line: &Value, name: &str| -> Vec<String> {
        let list = line[name].as_array().expect("a list").iter();
        list.map(|text| text.as_str().expect("a string").to_owned()).collect()
    };
    let mut stream = Stream::new();
    for line in lines(path) {
        let place = (number(&line, "epoch"), number(&line, "step"));
        let batch = texts(&line, "keys").into_iter().zip(texts(&line, "digests")).collect();
        assert!(stream.insert(place, batch).is_none(), "{place:?} came twice in one life");
    }
    stream
}
