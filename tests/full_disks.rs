//! File systems that are full: of checkpoints, of indices. Batches go on or the program
//! says what is full; no batch changes. Small tmpfs stand for them, which takes root. A limit of a file's size is one more.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headwater_receiver::ReceiverConfig;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::{Ranks, Stream};

/// A file system of its own size, gone with this value.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// `None`, with a notice, where none can be mounted.
    fn new(parent: &Path, name: &str, kib: u64) -> Option<Self> {
        let folder = parent.join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let options = format!("size={kib}k,mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&folder)
            .stderr(Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("SKIPPED: no tmpfs can be mounted here");
            return None;
        }
        Some(Self { folder })
    }

    /// Takes all that is left.
    fn fill(&self) {
        let ballast = self.folder.join("ballast");
        let piece = vec![0_u8; 4096];
        let mut file = std::fs::File::create(ballast).expect("a file");
        while std::io::Write::write_all(&mut file, &piece).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.folder.join("ballast")).expect("the ballast");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.folder).status().ok();
    }
}

fn config(fleet: &mut Fleet) -> ReceiverConfig {
    ReceiverConfig {
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["shm".into()],
        ..fleet.config()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|e| e.expect("an entry").file_name().into_string().expect("text")).collect()
}

/// The same batches from a fleet to which nothing happens.
fn undisturbed(config: &ReceiverConfig, folder: &Path, batches: usize) -> Stream {
    let mut calm = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let (storage, workers) = (calm.config().storage, calm.config().workers);
    let config = ReceiverConfig { storage, workers, ..config.clone() };
    let only = ["--batches".to_owned(), batches.to_string()];
    let mut ranks = Ranks::start(&config, folder, "undisturbed", &only);
    ranks.finish();
    ranks.stream()
}

#[test]
fn a_disk_that_is_full_of_checkpoints_and_indices_stops_no_batch() {
    let shards = support::data("photos/photos-*.tar");
    let mut fleet = Fleet::empty(&shards, "");
    let folder = fleet.dir().to_owned();
    let Some(disk) = SmallDisk::new(&folder, "index", 256) else { return };
    // Indices cannot be kept: the node scans, says so, and serves.
    disk.fill();
    fleet.add_storage();
    assert!(fleet.storage().log().contains("indices are not kept"), "nothing is said of them");
    fleet.add_worker("local_files = \"off\"");
    let config = config(&mut fleet);
    let checkpoints = folder.join("index/checkpoints");
    disk.free();
    let keys = [
        format!("receiver.checkpoint_dir={}", checkpoints.display()),
        "receiver.checkpoint_every_steps=1".to_owned(),
    ];
    let mut ranks = Ranks::start(&config, &folder, "full", &support::set_flags(&keys));
    ranks.wait_for(0, 4);
    disk.fill();
    let before = ranks.taken(0);
    ranks.wait_for(0, before + 8);
    let said = std::fs::read_to_string(folder.join("full-rank-0.log")).expect("a log");
    assert!(said.contains("checkpoint"), "nothing is said of the checkpoint:\n{said}");
    // The newest whole one still stands, and the next goes on once there is room.
    let newest = || names(&checkpoints).into_iter().max();
    let while_full = newest().expect("a checkpoint from before");
    let hidden = names(&checkpoints).into_iter().filter(|name| name.starts_with('.'));
    let hidden: Vec<String> = hidden.collect();
    // One may be being written.
    assert!(hidden.len() <= 1, "attempts leave files behind: {hidden:?}");
    disk.free();
    let before = ranks.taken(0);
    ranks.wait_for(0, before + 8);
    assert!(newest() > Some(while_full), "no checkpoint after there was room again");
    ranks.end();
    let faulty = ranks.stream();
    assert!(faulty == undisturbed(&config, &folder, faulty.len()), "batches differ");
    println!("{} batches compared", faulty.len());
}

#[test]
fn a_cache_beyond_the_limit_of_a_files_size_is_read_past() {
    let mut fleet = Fleet::empty(support::data("photos/photos-*.tar"), "");
    let folder = fleet.dir().to_owned();
    let cache = folder.join("cache");
    std::fs::create_dir(&cache).expect("a folder");
    let level = format!("{{ dir = \"{}\", bytes = 67108864 }}", cache.display());
    fleet.store(&format!("cache_all = true\ncache = [{level}]"));
    fleet.add_storage();
    // Smaller than any of the shards.
    let limit = Rlimit { current: Some(1 << 16), maximum: Some(1 << 16) };
    let pid = Pid::from_raw(fleet.storage().pid() as i32);
    prlimit(pid, Resource::Fsize, limit).expect("a limit");
    fleet.add_worker("local_files = \"off\"");
    let config = config(&mut fleet);
    let mut ranks = Ranks::start(&config, &folder, "limited", &[]);
    ranks.wait_for(0, 8);
    ranks.end();
    assert!(!fleet.storage().has_ended(), "the limit ended it");
    let stream = ranks.stream();
    assert!(stream == undisturbed(&config, &folder, stream.len()), "batches differ");
}

#[test]
fn a_full_disk_ends_a_trace_and_not_the_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::new(folder.path(), "disk", 64) else { return };
    let photos = format!("photos={}", support::data("photos/photos-000003.tar").display());
    let trace = disk.folder.join("out.json");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["run", "--threads", "1", "--batch", "8", "--epochs", "20"])
        .args(["--recipe", "imagenet-train", "--set", "storage.index_dir=index"])
        .args(["--dataset", &photos, "--trace"])
        .arg(&trace)
        .current_dir(folder.path())
        .output()
        .expect("the program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("out.json") && said.contains("No space left on device"), "{said}");
    let text = std::fs::read_to_string(&trace).expect("what was written before");
    assert!(text.starts_with("[\n") && text.ends_with("},\n"), "it ends in half a line");
}
