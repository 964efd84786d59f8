//! Trainers that are killed and started again on another number of ranks.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::fleet::Fleet;

const GLOBAL_BATCH: u32 = 24;
const EPOCHS: u32 = 2;
/// Longest life of a set of ranks.
const LIMIT: Duration = Duration::from_secs(120);

/// One life of the trainer: a process for each rank.
struct Ranks {
    processes: Vec<Child>,
    digests: Vec<PathBuf>,
}

/// Of a rank's batch: the samples' keys and digests, in order.
type RankBatch = Vec<(String, String)>;

/// Global batches by (epoch, step): the ranks' batches joined in the ranks' order.
type Stream = BTreeMap<(u64, u64), RankBatch>;

struct Job {
    fleet: Fleet,
    lives: u32,
}

// === impl Job ===

impl Job {
    fn new() -> Self {
        Self { fleet: Fleet::start(support::data("photos/photos-*.tar"), 2), lives: 0 }
    }

    /// Starts a trainer of `world_size` ranks that share one folder of checkpoints.
    fn start(&mut self, world_size: u32, checkpoints: &Path, step_ms: u32) -> Ranks {
        self.lives += 1;
        let receiver = self.fleet.config();
        let mut ranks = Ranks { processes: Vec::new(), digests: Vec::new() };
        for rank in 0..world_size {
            let digests = self.fleet.dir().join(format!("life-{}-rank-{rank}.json", self.lives));
            let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
            command
                .args(["receive", "--dataset", "photos=photos", "--links", "shm"])
                .args(["--storage", &receiver.storage.join(",")])
                .args(["--workers", &receiver.workers.join(",")])
                .args(["--rank", &rank.to_string(), "--world-size", &world_size.to_string()])
                .args(["--batch", &(GLOBAL_BATCH / world_size).to_string()])
                .args(["--epochs", &EPOCHS.to_string(), "--step-ms", &step_ms.to_string()])
                .arg("--digests")
                .arg(&digests)
                .args(["--set", "receiver.seed=11", "--set", "receiver.shuffle_block=2"])
                .args(["--set", "receiver.resume=true"])
                .args(["--set", "receiver.checkpoint_every_steps=2"])
                .args(["--set", &format!("receiver.checkpoint_dir={}", checkpoints.display())])
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            ranks.processes.push(command.spawn().expect("a rank starts"));
            ranks.digests.push(digests);
        }
        ranks
    }
}

// === impl Ranks ===

impl Ranks {
    /// Waits until rank 0 has taken `batches` batches and the others as many, then kills all.
    /// Ranks that train stay together; these do so by holding back rank 0, which writes the
    /// checkpoints.
    fn kill_after(mut self, batches: usize) -> Stream {
        self.wait_for(0, batches);
        let first = rustix::process::Pid::from_child(&self.processes[0]);
        rustix::process::kill_process(first, rustix::process::Signal::STOP).expect("kill -STOP");
        let batches = lines(&self.digests[0]).len();
        for rank in 1..self.processes.len() {
            self.wait_for(rank, batches);
        }
        for process in &mut self.processes {
            process.kill().expect("kill -9");
            process.wait().expect("a child");
        }
        self.stream()
    }

    fn wait_for(&mut self, rank: usize, batches: usize) {
        let end = Instant::now() + LIMIT;
        while lines(&self.digests[rank]).len() < batches {
            assert!(Instant::now() < end, "rank {rank} does not take {batches} batches");
            for process in &mut self.processes {
                assert_eq!(process.try_wait().expect("a child"), None, "a rank ended by itself");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until every rank has ended well.
    fn finish(mut self) -> Stream {
        let end = Instant::now() + LIMIT;
        for process in &mut self.processes {
            let status = loop {
                if let Some(status) = process.try_wait().expect("a child") {
                    break status;
                }
                assert!(Instant::now() < end, "a rank does not end");
                std::thread::sleep(Duration::from_millis(20));
            };
            assert!(status.success(), "a rank ended with {status}");
        }
        self.stream()
    }

    /// Batches that every rank has taken.
    fn stream(&self) -> Stream {
        let mut ranks: Vec<Stream> = self.digests.iter().map(|path| read(path)).collect();
        let mut joined = ranks.remove(0);
        for rank in &ranks {
            joined.retain(|place, _| rank.contains_key(place));
            for (place, batch) in &mut joined {
                batch.extend(rank[place].iter().cloned());
            }
        }
        assert!(joined.values().all(|batch| batch.len() == GLOBAL_BATCH as usize));
        joined
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
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

fn read(path: &Path) -> Stream {
    let number = |line: &Value, name: &str| line[name].as_u64().expect("a number");
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

/// The step of the newest checkpoint; 0 without one.
fn newest(checkpoints: &Path) -> usize {
    let names = std::fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let step = |name: &str| name.strip_prefix("dl_state_")?.strip_suffix(".json")?.parse().ok();
    names.filter_map(|entry| step(entry.file_name().to_str()?)).max().unwrap_or(0)
}

#[test]
fn a_trainer_killed_and_resumed_on_other_ranks_goes_on_with_exactly_the_next_batch() {
    let mut job = Job::new();
    let folder = tempfile::tempdir().expect("a folder");
    let undisturbed = job.start(2, &folder.path().join("undisturbed"), 0).finish();
    let steps = undisturbed.len();
    assert_eq!(steps, 2 * (256 / GLOBAL_BATCH as usize));

    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").subsec_nanos();
    println!("killed after batches drawn from {seed}");
    let checkpoints = folder.path().join("killed");
    let mut taken = Stream::new();
    let mut at = 0;
    for (life, world_size) in [2, 3, 1].into_iter().enumerate() {
        // Each of the first two lives ends within its own third of the stream.
        let batches = 3 + (seed as usize >> (life * 8)) % 5;
        let resumed = newest(&checkpoints);
        let ranks = job.start(world_size, &checkpoints, 30);
        let stream = if life < 2 { ranks.kill_after(batches) } else { ranks.finish() };
        let first = *stream.keys().next().expect("a batch");
        let places: Vec<_> = undisturbed.keys().copied().collect();
        let began = places.iter().position(|place| *place == first).expect("a place of the job");
        assert_eq!(began, resumed, "life {life} does not begin at the newest checkpoint");
        assert!((began..=began + 2).contains(&at), "the newest checkpoint of {at} is {began}");
        let expected = &places[began..began + stream.len()];
        assert!(stream.keys().eq(expected), "life {life} leaves out a batch");
        at = began + stream.len();
        for (place, batch) in stream {
            assert!(batch == undisturbed[&place], "life {life}: {place:?} differs");
            taken.insert(place, batch);
        }
    }
    assert!(taken == undisturbed, "not all batches were taken");
}
