//! `headwater run --processes`: what it brings, and that its children end with it, however it ends;
//! and that nobody leaves memory behind who is killed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;
use rustix::process::{Pid, Signal, kill_process};

use crate::emulation;
use crate::support::data;
use crate::support::fleet::Fleet;
use crate::support::trainer::Ranks;

const LIMIT: Duration = Duration::from_secs(60);

fn run(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let photos = format!("photos={}", data("photos/photos-000003.tar").display());
    command
        .args(["run", "--processes", "--workers", "2", "--threads", "1", "--batch", "8"])
        .args(["--recipe", "imagenet-train", "--dataset", &photos])
        .args(["--set", "storage.index_dir=index"])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// Processes whose parent is `pid`.
fn children(pid: u32) -> Vec<u32> {
    let parent = |stat: &str| {
        // `pid (name) state ppid`; the name may hold anything.
        let behind_name = stat.rsplit_once(") ")?.1;
        behind_name.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let processes = fs::read_dir("/proc").expect("/proc").filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let stat = fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
        (parent(&stat)? == pid).then(|| name.parse().ok())?
    });
    processes.collect()
}

fn is_there(pid: u32) -> bool {
    // One that has ended and was not waited for has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "not within {} s: {what}", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A run without end whose three children are there.
fn endless(folder: &Path) -> (Child, Vec<u32>) {
    let mut command = run(folder, &["--epochs", "100000"]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a run");
    let mut found = Vec::new();
    until("three children", || {
        found = children(run.id());
        found.len() == 3
    });
    (run, found)
}

#[test]
fn a_run_reports_every_sample_and_draws_a_contact_sheet() {
    let folder = tempfile::tempdir().expect("a folder");
    let sheet = ["--contact-sheet", "new/sheet.png", "--contact-samples", "3"];
    let output = run(folder.path(), &sheet).output().expect("a run");
    let (text, log) = (String::from_utf8_lossy(&output.stdout), output.stderr);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&log));
    // 41 samples in batches of 8; the last one is left out.
    assert!(text.contains("epoch 0: 40 samples in 5 batches, 40 distinct; hash "), "{text}");
    for line in ["storage ", "augment ", "receiver ", "by shm"] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
    // A receiver that is through says so, and nobody takes its leaving for a fault.
    let log = String::from_utf8_lossy(&log);
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    let png = fs::read(folder.path().join("new/sheet.png")).expect("the sheet");
    let decoder = png::Decoder::new(std::io::Cursor::new(png));
    let reader = decoder.read_info().expect("a PNG");
    // A view of 224 x 224 and a margin of 4, three times.
    assert_eq!((reader.info().width, reader.info().height), (232, 688));
}

#[test]
fn embedded_tiers_and_processes_bring_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let hash = |command: &mut Command| {
        let output = command.output().expect("a run");
        let text = String::from_utf8(output.stdout).expect("text");
        text.split("hash ").nth(1).expect("a hash").split_whitespace().next().map(str::to_owned)
    };
    let processes = hash(&mut run(folder.path(), &[]));
    let photos = format!("photos={}", data("photos/photos-000003.tar").display());
    let mut embedded = Command::new(env!("CARGO_BIN_EXE_headwater"));
    embedded
        .args(["run", "--batch", "8", "--recipe", "imagenet-train", "--links", "tcp"])
        .args(["--dataset", &photos, "--set", "storage.index_dir=index"])
        .current_dir(folder.path());
    assert_eq!(hash(&mut embedded), processes);
}

#[test]
fn a_run_that_is_asked_to_end_takes_its_children_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, children) = endless(folder.path());
    let pid = Pid::from_raw(run.id() as i32).expect("a pid");
    kill_process(pid, Signal::TERM).expect("the run is there");
    let output = run.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(143));
    let log = String::from_utf8_lossy(&output.stderr);
    // The children are there before they listen: it may still have been waiting for them.
    let told = ["headwater: receiver: interrupted", "headwater: interrupted"];
    assert!(log.lines().any(|line| told.contains(&line)), "{log}");
    // It waited for them: they are gone at once.
    assert!(children.iter().all(|child| !is_there(*child)));
}

#[test]
fn a_run_that_is_killed_takes_its_children_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut run, children) = endless(folder.path());
    run.kill().expect("the run is there");
    run.wait().expect("its end");
    until("the children end", || children.iter().all(|child| !is_there(*child)));
}

/// Modes and links of the slots that a process has open.
fn slots(pid: u32) -> Vec<(u32, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_slot = |entry: &fs::DirEntry| {
        let target = fs::read_link(entry.path());
        target.is_ok_and(|target| target.to_string_lossy().contains("memfd:headwater-slot"))
    };
    let look = |entry: fs::DirEntry| {
        let file = fs::metadata(entry.path()).ok()?;
        Some((file.permissions().mode() & 0o7777, file.nlink()))
    };
    entries.filter(is_slot).filter_map(look).collect()
}

#[test]
fn shared_memory_is_its_owners_alone_has_no_name_and_goes_with_the_last_who_is_killed() {
    let test = concat!(
        "run_leaves_nothing_behind::",
        "shared_memory_is_its_owners_alone_has_no_name_and_goes_with_the_last_who_is_killed"
    );
    // Others on this host make and remove names there at the same time.
    emulation::with_own_shared_memory(test, killed_owners_leave_no_name);
}

fn killed_owners_leave_no_name() {
    let mut fleet = Fleet::start(data("photos/photos-*.tar"), 2);
    let config = ReceiverConfig {
        world_size: 2,
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["shm".into()],
        ..fleet.config()
    };
    let names = || fs::read_dir("/dev/shm").expect("the folder").count();
    let before = names();
    let mut ranks = Ranks::start(&config, fleet.dir(), "killed", &[]);
    (0..ranks.len()).for_each(|rank| ranks.wait_for(rank, 3));
    for rank in 0..ranks.len() {
        let slots = slots(ranks.pid(rank));
        assert!(!slots.is_empty(), "rank {rank} has no slots");
        assert!(slots.iter().all(|slot| *slot == (0o600, 0)), "{slots:?}");
    }
    // Everybody, the workers in the middle of their writing.
    (0..2).for_each(|worker| fleet.worker(worker).kill());
    ranks.kill();
    fleet.storage().kill();
    assert!(names() <= before, "something is left behind");
}
