//! A passing error of the system changes no batch: shards that are away for moments, a file system that
//! fails by chance, descriptors that run out. What does not pass ends the stream by the shard's name, and
//! no process with it.
//!
//! `HEADWATER_CHAOS_SEED` replays the faults of the file system.

use std::fs::{File, FileTimes};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headwater_core::Digest;
use headwater_receiver::ReceiverConfig;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::faulty_files::FaultyFiles;
use crate::support::fleet::Fleet;
use crate::support::{data, unix_ms, variable};

/// Batches that are compared at least: more than an epoch of the photographs.
const BATCHES: usize = 20;
/// Longest wait for a fault to be met.
const LIMIT: Duration = Duration::from_secs(300);
/// Each read opens its shard anew.
const ONE_SHARD: &str = "open_shards_max = 1";
/// Whether workers read shards as files.
const WAYS: [&str; 2] = ["local_files = \"auto\"", "local_files = \"off\""];

/// A dataset that only this test uses, to do things to.
struct Photos {
    folder: tempfile::TempDir,
    shards: Vec<PathBuf>,
}

/// How long a fault lasts, again and again. Longer each time, because a busy machine seldom meets a short one.
struct Moments(AtomicU64);

// === impl Moments ===

impl Moments {
    const LONGEST_MS: u64 = 40;

    fn new() -> Self {
        Self(AtomicU64::new(12))
    }

    fn pass(&self) {
        let ms = self.0.fetch_add(1, Ordering::Relaxed) / 4;
        std::thread::sleep(Duration::from_millis(ms.min(Self::LONGEST_MS)));
    }
}

// === impl Photos ===

impl Photos {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let names = (0..4).map(|number| format!("photos-{number:06}.tar"));
        let copy = |name: String| {
            let to = folder.path().join(&name);
            std::fs::copy(data("photos").join(&name), &to).expect("a copy");
            to
        };
        let shards = names.map(copy).collect();
        Self { folder, shards }
    }

    fn pattern(&self) -> PathBuf {
        self.folder.path().join("photos-*.tar")
    }
}

/// Two workers, of one sample of each shard after the other.
fn config(fleet: &mut Fleet) -> ReceiverConfig {
    let mut config = ReceiverConfig { batch_samples: 16, epochs: 1_000_000, ..fleet.config() };
    config.order.shuffle_block = Some(1);
    config
}

/// Batches as they come, `least` at least and until `met`; none of their samples stands in for another.
fn taken(config: ReceiverConfig, least: usize, mut met: impl FnMut() -> bool) -> Vec<Digest> {
    let receiver = Fleet::open(config);
    let (mut digests, end) = (Vec::new(), Instant::now() + LIMIT);
    while digests.len() < least || !met() {
        assert!(Instant::now() < end, "no fault is met in {} batches", digests.len());
        // `None` between two epochs.
        let Some(batch) = receiver.next_batch().expect("a batch") else { continue };
        let substituted = batch.provenance().iter().find(|sample| sample.substituted.is_some());
        assert!(substituted.is_none(), "batch {}: {substituted:?}", digests.len());
        digests.push(batch.digest().expect("on the host"));
    }
    digests
}

/// The same batches of a fleet to which nothing happens.
fn assert_undisturbed(digests: &[Digest]) {
    let mut calm = Fleet::start(data("photos/photos-*.tar"), 1);
    let expected = taken(config(&mut calm), digests.len(), || true);
    for (number, (digest, expected)) in digests.iter().zip(&expected).enumerate() {
        assert!(digest == expected, "batch {number} differs");
    }
}

/// Calls `disturb` again and again on a thread of its own while `work` runs.
fn disturbed<T>(disturb: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                disturb();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn shards_that_are_away_for_moments_change_no_batch() {
    let photos = Photos::new();
    let mut fleet = Fleet::empty(photos.pattern(), "");
    fleet.store(ONE_SHARD);
    fleet.add_storage();
    for way in WAYS {
        fleet.add_worker(&format!("{way}\nlocal_shards_max = 1"));
    }
    let config = config(&mut fleet);
    let away = photos.folder.path().join("away");
    let moments = Moments::new();
    let hide = || {
        for shard in &photos.shards {
            std::fs::rename(shard, &away).expect("away");
            moments.pass();
            std::fs::rename(&away, shard).expect("back");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let digests = disturbed(hide, || {
        taken(config, BATCHES, || {
            fleet.storage().counter("headwater_storage_refused_requests_total", "shard_away") >= 5
        })
    });
    assert_undisturbed(&digests);
}

#[test]
fn errors_of_the_file_system_change_no_batch() {
    let seed = variable("HEADWATER_CHAOS_SEED", unix_ms());
    println!("HEADWATER_CHAOS_SEED={seed}");
    let folder = tempfile::tempdir().expect("a folder");
    let files = FaultyFiles::new(folder.path());
    let mut fleet = Fleet::empty(data("photos/photos-*.tar"), "");
    fleet.surround(&files.variables());
    fleet.store(ONE_SHARD);
    fleet.add_storage();
    for way in WAYS {
        fleet.add_worker(&format!("{way}\nlocal_shards_max = 1"));
    }
    let config = config(&mut fleet);
    // One read makes some ten calls.
    files.fail(30, seed);
    let digests = taken(config, BATCHES, || files.faults() >= 20);
    files.heal();
    assert_undisturbed(&digests);
}

#[test]
fn a_node_whose_descriptors_run_out_and_come_back_changes_no_batch() {
    let mut fleet = Fleet::empty(data("photos/photos-*.tar"), "");
    fleet.store(ONE_SHARD);
    fleet.add_storage();
    for way in WAYS {
        fleet.add_worker(&format!("{way}\nlocal_shards_max = 1"));
    }
    let config = config(&mut fleet);
    let processes = [fleet.storage().pid(), fleet.worker(0).pid()];
    let allow = |files: u64| {
        for pid in processes {
            let limit = Rlimit { current: Some(files), maximum: Some(4096) };
            let pid = Pid::from_raw(pid as i32);
            prlimit(pid, Resource::Nofile, limit).expect("a limit");
        }
    };
    let moments = Moments::new();
    let run_out = || {
        // Fewer than are open: nobody gets one.
        allow(8);
        moments.pass();
        allow(4096);
        std::thread::sleep(Duration::from_millis(15));
    };
    let digests = disturbed(run_out, || {
        taken(config, BATCHES, || {
            allow(4096);
            fleet.storage().counter("headwater_storage_refused_requests_total", "shard_away") >= 5
        })
    });
    assert_undisturbed(&digests);
}

#[test]
fn a_node_of_few_descriptors_keeps_some_for_its_files_whoever_calls() {
    let mut fleet = Fleet::empty(data("photos/photos-*.tar"), "");
    fleet.store(ONE_SHARD);
    fleet.limit_open_files(Some(128));
    fleet.add_storage();
    fleet.limit_open_files(None);
    fleet.add_worker(WAYS[1]);
    let config = config(&mut fleet);
    let address = fleet.storage().address.clone();
    let idle = Mutex::new(Vec::new());
    let call = || {
        // More than it could take, did it not close them.
        let mut idle = idle.lock().expect("a list");
        if idle.len() < 200 {
            idle.push(TcpStream::connect(&address).expect("a connection"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let all_called = || idle.lock().expect("a list").len() == 200;
    let digests = disturbed(call, || taken(config, BATCHES, all_called));
    assert_undisturbed(&digests);
    let log = fleet.storage().log();
    assert!(log.contains("the limit of open files is lower"), "{log}");
}

#[test]
fn a_limit_that_is_of_no_use_is_refused_by_name() {
    for verb in [&["storage", "--dataset", "a=tests/data/photos/*.tar"][..], &["augment"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = Command::new("sh")
            .args(["-c", "ulimit -n 64 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_headwater")])
            .args(["--set", &format!("storage.index_dir={}", folder.path().display())])
            .args(verb)
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("the program");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{verb:?}: {said}");
        assert!(said.contains("the limit of open files is 64, and 112 are needed"), "{said}");
    }
}

/// As `rsync --inplace` does to a file that is in use.
fn cut(shard: &Path) -> (Vec<u8>, File) {
    let whole = std::fs::read(shard).expect("a shard");
    let file = File::options().write(true).open(shard).expect("a shard");
    file.set_len(1000).expect("cut");
    (whole, file)
}

#[test]
fn a_shard_that_is_cut_in_use_and_written_again_changes_no_batch() {
    let photos = Photos::new();
    let mut fleet = Fleet::empty(photos.pattern(), "");
    fleet.add_storage();
    for way in WAYS {
        fleet.add_worker(way);
    }
    let config = config(&mut fleet);
    let rewrite = || {
        for shard in &photos.shards {
            let before = std::fs::metadata(shard).and_then(|m| m.modified()).expect("a time");
            let (whole, file) = cut(shard);
            std::thread::sleep(Duration::from_millis(20));
            std::os::unix::fs::FileExt::write_all_at(&file, &whole, 0).expect("written");
            file.set_times(FileTimes::new().set_modified(before)).expect("its time");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let digests = disturbed(rewrite, || {
        taken(config, BATCHES, || {
            fleet.storage().counter("headwater_storage_refused_requests_total", "shard_away") >= 3
        })
    });
    assert_undisturbed(&digests);
}

#[test]
fn a_shard_that_stays_cut_ends_the_stream_by_its_name_and_no_process() {
    let photos = Photos::new();
    let mut fleet = Fleet::empty(photos.pattern(), "");
    fleet.add_storage();
    for way in WAYS {
        fleet.add_worker(&format!("{way}\nstorage_wait_ms = 500"));
    }
    let mut config = config(&mut fleet);
    config.leases.attempts_max = 2;
    let receiver = Fleet::open(config);
    receiver.next_batch().expect("a batch").expect("the stream goes on");
    cut(&photos.shards[2]);
    let end = Instant::now() + LIMIT;
    let error = loop {
        assert!(Instant::now() < end, "the stream goes on");
        match receiver.next_batch() {
            Ok(batch) => drop(batch),
            Err(error) => break error.to_string(),
        }
    };
    let named = error.contains("photos-000002.tar") && error.contains("was changed");
    assert!(named && error.contains("augment.storage_wait_ms"), "{error}");
    for number in 0..WAYS.len() {
        // It answers.
        fleet.worker(number).counter("headwater_augment_samples_total", "");
    }
}
