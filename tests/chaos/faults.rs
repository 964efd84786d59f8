//! What is done to the fleet.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use super::liar::Liar;
use super::{Chaos, WORKERS};
use crate::support::faulty_files::FaultyFiles;
use crate::support::fleet::Fleet;
use crate::support::unix_ms;

/// Without faults the machine makes many batches in this time.
const PAUSE_MS: [u64; 2] = [100, 900];
/// Longest time for a process that was asked to end.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// Maximum memory of a worker that will be killed for it, in bytes: it starts with less and renders
/// with more.
const CGROUP_BYTES: u64 = 24 << 20;
/// Longest time for the kernel to find that it is too much.
const CGROUP_LIMIT: Duration = Duration::from_secs(20);
/// Lies after which a storage node that lies is put right again, and the longest time for them.
const LIES: usize = 10;
const LIES_LIMIT: Duration = Duration::from_secs(10);
/// How far clocks jump, either way, in seconds.
const JUMPS_S: [i64; 4] = [-86_400, -3, 3, 86_400];

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    KillWorker,
    StopWorker,
    DrainWorker,
    KillStorage,
    StopStorage,
    DrainStorage,
    KillTrainer,
    /// The shards' folder is called something else for a moment.
    HideShards,
    /// A node cannot open another file or connection.
    StarveOfDescriptors,
    /// A worker's renderers stand still, and its heartbeats come.
    WedgeWorker,
    /// The wall clocks of a worker and of a storage node jump.
    JumpClocks,
    /// The kernel kills a worker for its memory.
    KillForMemory,
    /// Calls on shards fail by chance in every node.
    FailFiles,
    /// Another answers at a storage node's address, and lies.
    TellLies,
}

/// What this machine lets a test do, and what it needs for it.
pub(crate) struct Means {
    /// Of the wall clock of those who follow it: seconds from the true one.
    clock: Option<PathBuf>,
    /// A folder of control groups for memory.
    cgroups: Option<Cgroups>,
    can_wedge: bool,
    files: FaultyFiles,
}

/// Where control groups for memory can be made.
struct Cgroups {
    root: PathBuf,
    limit: &'static str,
}

/// A worker's renderers that are held, until this is dropped.
struct Wedge(Child);

// === impl Fault ===

impl Fault {
    pub(crate) const ALL: [Self; 14] = [
        Self::KillWorker,
        Self::StopWorker,
        Self::DrainWorker,
        Self::KillStorage,
        Self::StopStorage,
        Self::DrainStorage,
        Self::KillTrainer,
        Self::HideShards,
        Self::StarveOfDescriptors,
        Self::WedgeWorker,
        Self::JumpClocks,
        Self::KillForMemory,
        Self::FailFiles,
        Self::TellLies,
    ];
}

// === impl Means ===

impl Means {
    /// Finds out, and says what there is not.
    pub(crate) fn find(folder: &Path) -> Self {
        let clock = faketime().map(|_| folder.join("clock"));
        let files = FaultyFiles::new(folder);
        let means = Self { clock, cgroups: Cgroups::find(), can_wedge: Wedge::is_allowed(), files };
        if let Some(clock) = &means.clock {
            turn(clock, 0);
        }
        for (has, what) in [
            (means.clock.is_some(), "clocks do not jump: libfaketime is not installed"),
            (means.cgroups.is_some(), "nobody is killed for memory: no control groups to write to"),
            (means.can_wedge, "renderers are not held: ptrace is not allowed"),
        ] {
            if !has {
                println!("SKIP: {what}");
            }
        }
        means
    }

    /// The faults that are possible here.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let can = |fault: &Fault| match fault {
            Fault::JumpClocks => self.clock.is_some(),
            Fault::KillForMemory => self.cgroups.is_some(),
            Fault::WedgeWorker => self.can_wedge,
            _ => true,
        };
        Fault::ALL.into_iter().filter(can).collect()
    }

    /// Nodes that are started from now on meet files that fail, and follow the clock that jumps or
    /// the true one.
    pub(crate) fn surround(&self, fleet: &mut Fleet, follows: bool) {
        let [(preload, files), control] = self.files.variables();
        let (Some(clock), Some(library)) = (self.clock.as_ref().filter(|_| follows), faketime())
        else {
            return fleet.surround(&[(preload, files), control]);
        };
        fleet.surround(&[
            // In this order: libfaketime opens files before the other is ready.
            (preload, &format!("{library}:{files}")),
            control,
            ("FAKETIME_TIMESTAMP_FILE", clock.to_str().expect("text")),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_CACHE_DURATION", "1"),
        ]);
    }
}

fn faketime() -> Option<&'static str> {
    const PLACES: [&str; 2] = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    ];
    PLACES.into_iter().find(|place| Path::new(place).exists())
}

fn turn(clock: &Path, seconds: i64) {
    let new = clock.with_extension("new");
    std::fs::write(&new, format!("{seconds:+}\n")).expect("a clock");
    std::fs::rename(new, clock).expect("a clock");
}

// === impl Cgroups ===

impl Cgroups {
    fn find() -> Option<Self> {
        let places =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        places.into_iter().find_map(|(root, limit)| {
            let groups = Self { root: root.into(), limit };
            let group = groups.make("probe").ok()?;
            std::fs::remove_dir(group).ok()?;
            Some(groups)
        })
    }

    /// A group whose processes have no more than [`CGROUP_BYTES`].
    fn make(&self, name: &str) -> std::io::Result<PathBuf> {
        let group = self.root.join(format!("headwater-{}-{name}", std::process::id()));
        std::fs::create_dir(&group)?;
        let limited = std::fs::write(group.join(self.limit), CGROUP_BYTES.to_string());
        limited.inspect_err(|_| drop(std::fs::remove_dir(&group)))?;
        Ok(group)
    }
}

// === impl Wedge ===

impl Wedge {
    /// Holds the renderers of a process; none where this machine does not allow it.
    fn hold(pid: u32) -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/wedge.py");
        let mut child = Command::new("python3")
            .args([script, &pid.to_string(), "render-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut held = String::new();
        let said = BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut held);
        if said.expect("a line") == 0 {
            assert_eq!(child.wait().expect("a child").code(), Some(77), "wedge.py");
            return None;
        }
        Some(Self(child))
    }

    fn is_allowed() -> bool {
        let sleeper = Command::new("sleep").arg("60").spawn();
        let mut sleeper = sleeper.expect("sleep starts");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/wedge.py");
        let status = Command::new("python3")
            .args([script, &sleeper.id().to_string(), "sleep"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        let _ = sleeper.kill();
        let _ = sleeper.wait();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Wedge {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

// === impl Chaos ===

impl Chaos {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.rng.unit() * end as f64) as usize).min(end - 1)
    }

    pub(crate) fn pause(&mut self) {
        let [least, most] = PAUSE_MS;
        let ms = least + self.below((most - least) as usize) as u64;
        sleep(Duration::from_millis(ms));
    }

    /// One fault, from its beginning to its end.
    pub(crate) fn inject(&mut self, fault: Fault) {
        let (worker, storage) = (self.below(WORKERS), self.below(2));
        self.injected.push((fault, unix_ms()));
        match fault {
            Fault::KillWorker => {
                self.fleet.worker(worker).kill();
                self.pause();
                self.restart_worker(worker);
            }
            Fault::StopWorker => {
                self.fleet.worker(worker).signal(Signal::STOP);
                // Often longer than its heartbeats may stay out: it wakes as one given up.
                (0..3).for_each(|_| self.pause());
                self.fleet.worker(worker).signal(Signal::CONT);
            }
            Fault::DrainWorker => {
                self.fleet.worker(worker).signal(Signal::TERM);
                let code = self.fleet.worker(worker).wait(DRAIN_LIMIT);
                assert_eq!(code, Some(0), "a worker that was asked to end");
                self.restart_worker(worker);
            }
            Fault::KillStorage => {
                self.fleet.storage_node(storage).kill();
                self.pause();
                self.restart_storage(storage);
            }
            Fault::StopStorage => {
                self.fleet.storage_node(storage).signal(Signal::STOP);
                self.pause();
                self.fleet.storage_node(storage).signal(Signal::CONT);
            }
            Fault::DrainStorage => {
                self.fleet.storage_node(storage).signal(Signal::TERM);
                let code = self.fleet.storage_node(storage).wait(DRAIN_LIMIT);
                assert_eq!(code, Some(0), "a storage node that was asked to end");
                self.restart_storage(storage);
            }
            Fault::KillTrainer => self.kill_trainer(),
            Fault::HideShards => {
                // A node that has just started has no shard open.
                self.restart_storage(storage);
                let away = self.shards.with_extension("away");
                std::fs::rename(&self.shards, &away).expect("a folder");
                // Once in two times for as long as a file system takes to fail over.
                let ms = [3, 300][self.below(2)];
                sleep(Duration::from_millis(ms));
                std::fs::rename(away, &self.shards).expect("a folder");
            }
            Fault::StarveOfDescriptors => {
                let pid = match self.below(2) {
                    0 => {
                        self.restart_worker(worker);
                        self.fleet.worker(worker).pid()
                    }
                    _ => {
                        self.restart_storage(storage);
                        self.fleet.storage_node(storage).pid()
                    }
                };
                let before = limit_descriptors(pid, Some(open_descriptors(pid)));
                self.pause();
                limit_descriptors(pid, before);
            }
            Fault::WedgeWorker => {
                let wedge = Wedge::hold(self.fleet.worker(worker).pid());
                // Longer than its leases last.
                (0..6).for_each(|_| self.pause());
                drop(wedge);
            }
            Fault::JumpClocks => {
                let clock = self.means.clock.clone().expect("a clock");
                turn(&clock, JUMPS_S[self.below(JUMPS_S.len())]);
                self.pause();
                if self.below(2) == 0 {
                    turn(&clock, 0);
                }
            }
            Fault::KillForMemory => self.kill_for_memory(worker),
            Fault::FailFiles => {
                let seed = self.below(1 << 30) as u64;
                let per_mille = [20, 300][self.below(2)];
                self.means.files.fail(per_mille, seed);
                (0..2).for_each(|_| self.pause());
                self.means.files.heal();
            }
            Fault::TellLies => self.tell_lies(worker, storage),
        }
    }

    /// Puts a liar where a storage node was; a worker that starts meanwhile hears it first.
    fn tell_lies(&mut self, worker: usize, storage: usize) {
        let truth = self.fleet.storage_node(1 - storage).address.clone();
        let node = self.fleet.storage_node(storage);
        node.kill();
        let address = node.address.clone();
        let first = self.below(1 << 20);
        let liar = Liar::stand_in(&address, &truth, &self.forged, first);
        self.restart_worker(worker);
        let end = Instant::now() + LIES_LIMIT;
        while liar.told() < LIES && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
        self.lies += liar.told();
        drop(liar);
        self.restart_storage(storage);
    }

    pub(crate) fn restart_worker(&mut self, number: usize) {
        self.means.surround(&mut self.fleet, number + 1 == WORKERS);
        self.fleet.restart_worker(number, &Self::worker_config(&self.dress, number));
    }

    fn restart_storage(&mut self, number: usize) {
        self.means.surround(&mut self.fleet, number == 1);
        self.fleet.restart_storage_node(number);
    }

    /// Starts a worker again where it has too little memory to render in, and then where it has
    /// enough.
    fn kill_for_memory(&mut self, worker: usize) {
        let cgroups = self.means.cgroups.as_ref().expect("control groups");
        let group = cgroups.make(&format!("{}", self.injected.len())).expect("a control group");
        self.fleet.confine(Some(&group));
        // It may not even come to listen.
        let started =
            self.fleet.try_restart_worker(worker, &Self::worker_config(&self.dress, worker));
        self.fleet.confine(None);
        let end = Instant::now() + CGROUP_LIMIT;
        while started && !self.fleet.worker(worker).has_ended() && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
        if started && !self.fleet.worker(worker).has_ended() {
            println!("a worker was not killed for memory in time");
        }
        self.restart_worker(worker);
        std::fs::remove_dir(&group).expect("an empty control group");
    }
}

fn open_descriptors(pid: u32) -> u64 {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count) as u64
}

/// Lets a process have `current` descriptors; returns how many it might have before.
fn limit_descriptors(pid: u32, current: Option<u64>) -> Option<u64> {
    let pid = Pid::from_raw(pid as i32);
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    // It may have been killed by what came before.
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).ok()?.current
}
