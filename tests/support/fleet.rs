//! Storage nodes and augment workers as processes of their own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::trainer::RECIPE;
use headwater_core::{Dtype, Recipe};
use headwater_receiver::{
    DatasetUse, LeaseConfig, OrderConfig, Receiver, ReceiverConfig, ReceiverError, WindowConfig,
};

/// Longest wait for a process to listen.
const START_LIMIT: Duration = Duration::from_secs(60);

/// One process of the program that listens.
pub struct Node {
    pub address: String,
    /// Where its metrics are.
    pub metrics: String,
    child: Child,
    log: PathBuf,
}

/// Processes on this machine, all killed when the fleet is dropped.
pub struct Fleet {
    dir: tempfile::TempDir,
    storage: Vec<Node>,
    pub workers: Vec<Option<Node>>,
    shards: String,
    /// `[security]` of every process.
    security: String,
    /// Where nodes listen.
    host: String,
    /// Network namespace of the next node; empty: this one.
    namespace: String,
    started: usize,
    /// Where workers find the storage tier, if not at its own addresses.
    storage_at: Option<String>,
    /// Variables of the next node's environment.
    variables: Vec<(String, String)>,
    /// Control group of the next node.
    group: Option<PathBuf>,
    /// Further lines of `[storage]`.
    storage_lines: String,
    /// Files that the next node may have open; `None`: as this process.
    open_files: Option<u32>,
}

// === impl Node ===

impl Node {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9, and waits until the process is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for the process to end by itself; its exit code.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("process did not end; its log:\n{}", self.log());
    }

    /// A counter over all labels that hold `label`, 0 where it has not counted yet.
    pub fn counter(&self, name: &str, label: &str) -> u64 {
        let text = super::scrape(&self.metrics);
        let values = text.lines().filter_map(|line| {
            let labels = line.strip_prefix(name).filter(|l| l.starts_with(['{', ' ']))?;
            labels.contains(label).then(|| labels.rsplit(' ').next()?.parse::<u64>().ok())?
        });
        values.sum()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}", self.log.display(), self.log());
        }
    }
}

// === impl Fleet ===

impl Fleet {
    /// A storage node over `shards` (a path or pattern) and `workers` augment workers.
    pub fn start(shards: impl AsRef<Path>, workers: usize) -> Self {
        let mut fleet = Self::without_workers(shards);
        for _ in 0..workers {
            fleet.add_worker("");
        }
        fleet
    }

    pub fn without_workers(shards: impl AsRef<Path>) -> Self {
        Self::secured(shards, "")
    }

    /// Without workers; `security` are the lines of `[security]` in every process.
    pub fn secured(shards: impl AsRef<Path>, security: &str) -> Self {
        let mut fleet = Self::empty(shards, security);
        fleet.add_storage();
        fleet
    }

    /// Without a node.
    pub fn empty(shards: impl AsRef<Path>, security: &str) -> Self {
        Self {
            dir: tempfile::tempdir().expect("a folder"),
            storage: Vec::new(),
            workers: Vec::new(),
            shards: shards.as_ref().display().to_string(),
            security: security.to_owned(),
            host: "127.0.0.1".to_owned(),
            namespace: String::new(),
            started: 0,
            storage_at: None,
            variables: Vec::new(),
            group: None,
            storage_lines: String::new(),
            open_files: None,
        }
    }

    /// Nodes that are started from now on listen on `host`, in a network namespace.
    pub fn settle(&mut self, host: &str, namespace: &str) {
        (self.host, self.namespace) = (host.to_owned(), namespace.to_owned());
    }

    /// Workers that are started from now on call the storage tier at this address.
    pub fn reach_storage_at(&mut self, address: &str) {
        self.storage_at = Some(address.to_owned());
    }

    /// Nodes that are started from now on have these variables in their environment.
    pub fn surround(&mut self, variables: &[(&str, &str)]) {
        let owned = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        self.variables = owned.collect();
    }

    /// Nodes that are started from now on belong to this control group.
    pub fn confine(&mut self, group: Option<&Path>) {
        self.group = group.map(Path::to_owned);
    }

    /// Storage nodes that are started from now on have these lines in their `[storage]` too.
    pub fn store(&mut self, lines: &str) {
        lines.clone_into(&mut self.storage_lines);
    }

    /// Nodes that are started from now on may have `files` files open, and may not raise that.
    pub fn limit_open_files(&mut self, files: Option<u32>) {
        self.open_files = files;
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The first storage node.
    pub fn storage(&mut self) -> &mut Node {
        self.storage_node(0)
    }

    pub fn storage_node(&mut self, number: usize) -> &mut Node {
        &mut self.storage[number]
    }

    pub fn storage_nodes(&self) -> usize {
        self.storage.len()
    }

    /// One more storage node over the same shards; workers that start later know it.
    pub fn add_storage(&mut self) {
        self.add_storage_at(&format!("{}:0", self.host));
    }

    pub fn add_storage_at(&mut self, listen: &str) {
        let node = self.start_storage(listen);
        self.storage.push(node);
    }

    /// Starts the first storage node again at its address.
    pub fn restart_storage(&mut self) {
        self.restart_storage_node(0);
    }

    pub fn restart_storage_node(&mut self, number: usize) {
        self.storage[number].kill();
        let address = self.storage[number].address.clone();
        self.storage[number] = self.start_storage(&address);
    }

    /// Starts a worker again at its address.
    pub fn restart_worker(&mut self, number: usize, extra: &str) {
        self.worker(number).kill();
        let address = self.worker(number).address.clone();
        self.workers[number] = Some(self.start_worker(&address, extra));
    }

    /// As [`Fleet::restart_worker`]; whether it came to listen.
    pub fn try_restart_worker(&mut self, number: usize, extra: &str) -> bool {
        self.worker(number).kill();
        let address = self.worker(number).address.clone();
        let config = self.worker_config(&address, extra);
        let started = self.try_spawn("augment", &config);
        if let Ok(node) = &started {
            assert_eq!(node.address, address, "a worker elsewhere");
        }
        started.map(|node| self.workers[number] = Some(node)).is_ok()
    }

    fn start_storage(&mut self, listen: &str) -> Node {
        let index = self.dir.path().join("index");
        let config = format!(
            "[storage]\nlisten = \"{listen}\"\nindex_dir = \"{}\"\n{}\n\
             [[dataset]]\nname = \"photos\"\nshards = [\"{}\"]\n",
            index.display(),
            self.storage_lines,
            self.shards
        );
        self.spawn("storage", &config)
    }

    /// Starts a worker; `extra` are further lines of its `[augment]` section. Its number.
    pub fn add_worker(&mut self, extra: &str) -> usize {
        self.add_worker_at(&format!("{}:0", self.host), extra)
    }

    pub fn add_worker_at(&mut self, listen: &str, extra: &str) -> usize {
        let node = self.start_worker(listen, extra);
        self.workers.push(Some(node));
        self.workers.len() - 1
    }

    fn start_worker(&mut self, listen: &str, extra: &str) -> Node {
        let config = self.worker_config(listen, extra);
        self.spawn("augment", &config)
    }

    fn worker_config(&self, listen: &str, extra: &str) -> String {
        let storage: Vec<&str> = self.storage.iter().map(|node| node.address.as_str()).collect();
        let storage = self.storage_at.as_deref().map_or(storage, |address| vec![address]);
        format!(
            "[augment]\nlisten = \"{listen}\"\nstorage = {storage:?}\nthreads = 1\n{extra}\n\
             [[dataset]]\nname = \"photos\"\nshards = [\"{}\"]\n",
            self.shards
        )
    }

    pub fn worker(&mut self, number: usize) -> &mut Node {
        self.workers[number].as_mut().expect("the worker is there")
    }

    fn spawn(&mut self, verb: &str, config: &str) -> Node {
        match self.try_spawn(verb, config) {
            Ok(node) => node,
            Err(log) => panic!("{verb} does not listen; its log:\n{log}"),
        }
    }

    /// A node that listens, or the log of one that does not.
    fn try_spawn(&mut self, verb: &str, config: &str) -> Result<Node, String> {
        self.started += 1;
        let name = format!("{verb}-{}", self.started);
        let path = self.dir.path().join(format!("{name}.toml"));
        let config = format!(
            "{config}\n[security]\n{}\n[telemetry]\nmetrics_listen = \"{}:0\"\n",
            self.security, self.host
        );
        std::fs::write(&path, config).expect("a config file");
        let log = self.dir.path().join(format!("{name}.log"));
        let program = env!("CARGO_BIN_EXE_headwater");
        let mut command = Command::new(program);
        if !self.namespace.is_empty() {
            // Becomes the program itself: the child is the node, as without a namespace. A host has
            // a name of its own too: workers are known by it.
            command = Command::new("ip");
            command.args(["netns", "exec", &self.namespace, "unshare", "--uts", "sh", "-c"]);
            command.args(["hostname \"$0\" && exec \"$@\"", &self.namespace, program]);
        }
        if let Some(group) = &self.group {
            // Becomes the program itself, as above.
            command = Command::new("sh");
            command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]);
            command.arg(group).arg(program);
        }
        if let Some(files) = self.open_files {
            assert!(self.namespace.is_empty(), "a node of this namespace");
            command = Command::new("sh");
            command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &files.to_string(), program]);
        }
        let mut child = command
            .arg("--config")
            .arg(&path)
            .arg(verb)
            .env("HEADWATER_LOG", "info")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("a pipe");
        let addresses = addresses(stdout);
        let (address, metrics) = (String::new(), String::new());
        let mut node = Node { address, metrics, child, log };
        match addresses {
            Some((metrics, address)) => (node.metrics, node.address) = (metrics, address),
            None => return Err(node.log()),
        }
        Ok(node)
    }

    pub fn config(&mut self) -> ReceiverConfig {
        ReceiverConfig {
            storage: self.storage.iter().map(|node| node.address.clone()).collect(),
            workers: self.workers.iter().flatten().map(|w| w.address.clone()).collect(),
            batch_samples: 16,
            seed: 7,
            order: OrderConfig { shuffle_block: Some(2), ..OrderConfig::default() },
            window: WindowConfig { part_samples: 4, ..WindowConfig::default() },
            leases: LeaseConfig { worker_wait_ms: 20_000, ..LeaseConfig::default() },
            epochs: 1,
            ..ReceiverConfig::default()
        }
    }

    pub fn open(config: ReceiverConfig) -> Receiver {
        Self::try_open(config).expect("a receiver")
    }

    pub fn try_open(config: ReceiverConfig) -> Result<Receiver, ReceiverError> {
        let recipe = Recipe::preset(RECIPE, Dtype::Bf16).expect("a preset");
        let dataset = DatasetUse { name: "photos".into(), weight: None };
        Receiver::open(config, recipe, &[dataset])
    }
}

/// Reads `metrics on ADDR` and `listening on ADDR`; afterwards keeps reading, so that the pipe never
/// fills.
fn addresses(stdout: std::process::ChildStdout) -> Option<(String, String)> {
    let (found, address) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let said = ["metrics on ", "listening on "].map(|before| line.strip_prefix(before));
            if let Some(address) = said.into_iter().flatten().next() {
                let _ = found.send(address.to_owned());
            }
        }
    });
    let end = Instant::now() + START_LIMIT;
    let next = || address.recv_timeout(end.saturating_duration_since(Instant::now())).ok();
    Some((next()?, next()?))
}
