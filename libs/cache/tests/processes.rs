//! Several processes with one cache: each entry is filled once, and whoever is killed leaves nothing
//! that the others cannot clear away. The processes are this same binary, started again on the test
//! `child`.

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use headwater_cache::{Cache, CacheConfig, CacheLevel};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::*;

const ROLE: &str = "HEADWATER_TEST_CACHE_ROLE";
const DIRS: &str = "HEADWATER_TEST_CACHE_DIRS";
/// Readers of the crowd, as on a node with eight GPUs.
const PROCESSES: usize = 8;
const THREADS: u64 = 9;
const ENTRIES: u64 = 20;
const BYTES: u64 = 300_000;

/// A process with a role; killed when it is dropped.
struct Process {
    child: Child,
    tell: ChildStdin,
    says: BufReader<ChildStdout>,
}

// === impl Process ===

impl Process {
    fn start(role: &str, levels: &[(&Path, u64)]) -> Self {
        let dirs = levels.iter().map(|(dir, bytes)| format!("{}={bytes}", dir.display()));
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(DIRS, dirs.collect::<Vec<_>>().join(";"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let tell = child.stdin.take().expect("its input");
        let says = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, tell, says }
    }

    /// Waits for a word of its own; what is said before is passed over.
    fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.says.read_line(&mut line).expect("a line"), 0, "it ended");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }

    /// Lets it go on, and waits for its end.
    fn finish(mut self) -> String {
        // One that has ended already needs no word.
        let _ = self.tell.write_all(b"\n");
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).expect("its words");
        assert!(self.child.wait().expect("its end").success(), "{rest}");
        rest
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "a process of the other tests"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dirs = std::env::var(DIRS).unwrap();
    let levels = dirs.split(';').map(|level| {
        let (dir, bytes) = level.split_once('=').unwrap();
        CacheLevel { dir: dir.into(), bytes: bytes.parse().unwrap() }
    });
    let levels = levels.collect();
    let config = CacheConfig::node(levels, PATIENCE, false);
    let cache = Cache::open(&config).unwrap();
    match role.as_str() {
        "crowd" => crowd(&cache),
        "stuck" => stuck(&cache),
        "waiting" => {
            println!("asking");
            drop(ask(&cache, 0, BYTES).unwrap());
        }
        "churn" => churn(&cache),
        "rounds" => rounds(&cache),
        "short" => short(&cache),
        other => panic!("no role {other}"),
    }
}

/// All threads ask for all entries, in other orders.
fn crowd(cache: &Cache) {
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let filled = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let filled = &filled;
            scope.spawn(move || {
                for at in 0..ENTRIES {
                    let number = (at * 7 + thread * 3) % ENTRIES;
                    if had_to_fill(cache, number, BYTES) {
                        filled.lock().unwrap().push(number);
                    }
                }
            });
        }
    });
    println!("filled {:?}", filled.into_inner().unwrap());
}

/// Stays in the middle of an entry.
fn stuck(cache: &Cache) {
    let _ = cache.get_or_fill(&key(0), BYTES, |writer| {
        writer.write_all(&payload(0, BYTES)[..200_000])?;
        println!("in the middle");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        Err::<Vec<u8>, _>(Broken("told to stop"))
    });
}

/// Asks for more than there is room for, until it is killed.
fn churn(cache: &Cache) {
    println!("ready");
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for number in (thread..).step_by(3) {
                    had_to_fill(cache, number % 40, BYTES);
                }
            });
        }
    });
}

/// The same for a while, with a look at the limit of its own.
fn rounds(cache: &Cache) {
    for number in 0..150u64 {
        had_to_fill(cache, (number * 11) % 40, BYTES);
    }
    println!("done");
}

/// Has two files left to open, which are those of an entry that is being filled: folders cannot be listed.
fn short(cache: &Cache) {
    let limit = Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut others: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    others.truncate(others.len() - 2);
    println!("refused {}", ask(cache, 100, BYTES).unwrap_err());
}

#[test]
fn folders_that_cannot_be_listed_are_not_taken_for_empty() {
    let dir = tempfile::tempdir().unwrap();
    let levels = [(dir.path(), 2 * MIB)];
    let cache = open(&levels);
    assert!((0..6).all(|number| had_to_fill(&cache, number, BYTES)));
    let before = tally(dir.path());
    let refused = Process::start("short", &levels).hear("refused ");
    assert!(refused.contains("no room"), "{refused}");
    assert_eq!((tally(dir.path()), taken(dir.path())), (before, before));
}

#[test]
fn eight_processes_of_nine_threads_fill_each_entry_once() {
    let dir = tempfile::tempdir().unwrap();
    let levels = [(dir.path(), 64 * MIB)];
    let mut crowd: Vec<Process> =
        (0..PROCESSES).map(|_| Process::start("crowd", &levels)).collect();
    crowd.iter_mut().for_each(|process| drop(process.hear("ready")));
    crowd.iter_mut().for_each(|process| process.tell.write_all(b"\n").unwrap());
    let mut filled = Vec::new();
    for mut process in crowd {
        let numbers = process.hear("filled ");
        let numbers = numbers.trim_matches(['[', ']']).split(", ").filter(|n| !n.is_empty());
        filled.extend(numbers.map(|number| number.parse::<u64>().unwrap()));
        process.finish();
    }
    filled.sort_unstable();
    assert_eq!(filled, (0..ENTRIES).collect::<Vec<_>>());
    assert!(part(dir.path(), "flights").is_empty());
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn one_who_is_killed_while_it_writes_is_followed_by_one_who_waits() {
    let dir = tempfile::tempdir().unwrap();
    let levels = [(dir.path(), 8 * MIB)];
    let mut stuck = Process::start("stuck", &levels);
    stuck.hear("in the middle");
    // A process that waits may be killed as well.
    let mut waiting = Process::start("waiting", &levels);
    waiting.hear("asking");
    let cache = open(&levels);
    std::thread::scope(|scope| {
        let asks: Vec<_> = (0..4).map(|_| scope.spawn(|| had_to_fill(&cache, 0, BYTES))).collect();
        std::thread::sleep(Duration::from_millis(50));
        waiting.kill();
        assert!(asks.iter().all(|ask| !ask.is_finished()), "it is filled elsewhere");
        stuck.kill();
        let filled = asks.into_iter().map(|ask| ask.join().unwrap());
        assert_eq!(filled.filter(|had| *had).count(), 1);
    });
    // What it had begun lies there until somebody counts: the next one who opens the cache.
    assert_eq!(part(dir.path(), "filling").len(), 1);
    drop(open(&levels));
    assert!(part(dir.path(), "filling").is_empty());
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn one_who_waits_too_long_is_told_for_what() {
    let dir = tempfile::tempdir().unwrap();
    let mut stuck = Process::start("stuck", &[(dir.path(), 8 * MIB)]);
    stuck.hear("in the middle");
    let config =
        CacheConfig { timeout: Duration::from_millis(200), ..config(&[(dir.path(), 8 * MIB)]) };
    let cache = Cache::open(&config).unwrap();
    let refused = ask(&cache, 0, BYTES).unwrap_err().to_string();
    assert!(refused.contains(&key(0).to_string()), "{refused}");
    assert!(had_to_fill(&cache, 1, BYTES), "another entry is nobody's");
    stuck.finish();
    // Its filler failed, and gave its room back.
    assert!(had_to_fill(&cache, 0, BYTES));
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

/// A suspended process holds its locks for as long as one that is busy for ever.
#[test]
fn who_was_waited_for_in_vain_is_not_waited_for_again() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let dir = tempfile::tempdir().unwrap();
    let mut stuck = Process::start("stuck", &[(dir.path(), 8 * MIB)]);
    stuck.hear("in the middle");
    let config = CacheConfig { timeout: TIMEOUT, ..config(&[(dir.path(), 8 * MIB)]) };
    let cache = Cache::open(&config).unwrap();
    let refused = |number| {
        let begun = Instant::now();
        ask(&cache, number, BYTES).unwrap_err();
        begun.elapsed()
    };
    assert!(refused(0) >= TIMEOUT && refused(0) < TIMEOUT / 2, "the entry");
    let tally_file = File::open(user_folder(dir.path()).join("tally")).unwrap();
    tally_file.lock().unwrap();
    assert!(refused(1) >= TIMEOUT && refused(2) < TIMEOUT / 2, "the tally");
    tally_file.unlock().unwrap();
    // Without a wait, each lock is tried.
    assert!(had_to_fill(&cache, 2, BYTES));
    stuck.finish();
    assert!(had_to_fill(&cache, 0, BYTES));
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn processes_that_are_killed_at_any_time_leave_a_cache_that_works() {
    let (fast, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let levels = [(fast.path(), 3 * MIB), (large.path(), 5 * MIB)];
    // One that goes on, in whose way whatever is left would be.
    let mut steady = Process::start("churn", &levels);
    steady.hear("ready");
    let mut seed = std::process::id().into();
    println!("seed {seed}");
    for _ in 0..25 {
        let mut victim = Process::start("churn", &levels);
        victim.hear("ready");
        seed = u64::wrapping_mul(seed, 6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros(seed >> 48));
        victim.kill();
    }
    assert!(steady.child.try_wait().unwrap().is_none(), "it goes on");
    steady.kill();
    let cache = open(&levels);
    for (dir, limit) in levels {
        assert_eq!(tally(dir), taken(dir));
        assert!(tally(dir) <= limit);
        assert!(part(dir, "filling").is_empty() && part(dir, "flights").is_empty());
        assert!(!part(dir, "entries").is_empty());
    }
    for number in 0..40 {
        had_to_fill(&cache, number, BYTES);
    }
}

#[test]
fn processes_with_other_limits_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (small, large) = (2 * MIB, 6 * MIB);
    let mut processes: Vec<_> =
        [small, large, large].map(|limit| Process::start("rounds", &[(dir.path(), limit)])).into();
    processes.iter_mut().for_each(|process| drop(process.hear("done")));
    processes.into_iter().for_each(|process| drop(process.finish()));
    assert_eq!(tally(dir.path()), taken(dir.path()));
    assert!(tally(dir.path()) <= large);
    // Whoever fills keeps to a limit of its own.
    let cache = open(&[(dir.path(), small)]);
    assert!(had_to_fill(&cache, 100, BYTES));
    assert!(tally(dir.path()) <= small);
    assert_eq!(tally(dir.path()), taken(dir.path()));
}
