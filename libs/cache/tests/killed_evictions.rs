//! A process that is killed while it makes room: before each of its calls in turn that change a file or
//! a lock. Whatever it leaves, no entry is lost on its way down, and the next process clears it away.
//!
//! The processes are this same binary, started again on the test `child`, with `kill_at` preloaded.

mod support;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::*;

const DIRS: &str = "HEADWATER_TEST_CACHE_EVICTS_IN";
const BYTES: u64 = 300_000;
/// Entries that fit the first level.
const FITTING: u64 = 3;
const FIRST_LEVEL: u64 = MIB;
const SECOND_LEVEL: u64 = 8 * MIB;
const SIGKILL: i32 = 9;

/// The library, built in a folder.
fn kill_at(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kill_at/kill_at.c");
    let library = folder.join("libkill_at.so");
    let compiler = std::env::var("CC").unwrap_or("cc".to_owned());
    let mut compile = Command::new(compiler);
    compile.args(["-std=c11", "-O1", "-fPIC", "-Wall", "-Wextra", "-shared", "-o"]);
    compile.arg(&library).arg(source).arg("-ldl");
    assert!(compile.status().expect("a compiler of C").success());
    library
}

fn levels<'a>(dirs: &'a [&'a Path]) -> Vec<(&'a Path, u64)> {
    dirs.iter().copied().zip([FIRST_LEVEL, SECOND_LEVEL]).collect()
}

#[test]
#[ignore = "a process of the other tests"]
fn child() {
    let Ok(dirs) = std::env::var(DIRS) else { return };
    let dirs: Vec<&Path> = dirs.split(';').map(Path::new).collect();
    let cache = open(&levels(&dirs));
    std::fs::remove_file(std::env::var("KILL_AT_BEGIN").unwrap()).unwrap();
    assert!(had_to_fill(&cache, FITTING, BYTES));
}

/// Lets a process make room until its call of that number; whether it was killed there.
fn make_room(dirs: &[&Path], library: &Path, call: u64) -> bool {
    let begin = dirs[0].join("begin");
    std::fs::write(&begin, "").unwrap();
    let names: Vec<_> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    let status = Command::new(std::env::current_exe().expect("this binary"))
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(DIRS, names.join(";"))
        .env("LD_PRELOAD", library)
        .env("KILL_AT_BEGIN", &begin)
        .env("KILL_AT", call.to_string())
        .stdout(Stdio::null())
        .status()
        .expect("a process");
    assert!(status.success() || status.signal() == Some(SIGKILL), "{status}");
    !begin.exists() && !status.success()
}

/// Whether a level has the file of an entry.
fn has(dir: &Path, number: u64) -> bool {
    let name = key(number).to_string();
    part(dir, "entries").iter().any(|(path, _)| path.ends_with(&name))
}

/// Kills processes at one call after the other, until one comes to its end. `left` looks at what each
/// leaves, and how many of the entries that were there have to be filled anew afterwards.
fn kill_at_each_call(dirs: usize, mut left: impl FnMut(&[&Path], &mut dyn FnMut() -> u64)) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let library = kill_at(folder.path());
    for call in 1.. {
        let folders: Vec<_> = (0..dirs).map(|_| tempfile::tempdir().unwrap()).collect();
        let dirs: Vec<&Path> = folders.iter().map(|folder| folder.path()).collect();
        let before = open(&levels(&dirs));
        assert!((0..FITTING).all(|number| had_to_fill(&before, number, BYTES)));
        drop(before);
        if !make_room(&dirs, &library, call) {
            return call - 1;
        }
        left(&dirs, &mut || {
            let cache = open(&levels(&dirs));
            for (dir, limit) in levels(&dirs) {
                assert_eq!(tally(dir), taken(dir), "killed at call {call}");
                assert!(tally(dir) <= limit && part(dir, "filling").is_empty());
            }
            assert!(part(dirs[0], "flights").is_empty());
            let lost = (0..FITTING).filter(|&number| had_to_fill(&cache, number, BYTES)).count();
            had_to_fill(&cache, FITTING, BYTES);
            lost as u64
        });
    }
    unreachable!("a process comes to its end")
}

#[test]
fn an_entry_on_its_way_down_is_in_one_of_the_levels_whenever_the_process_is_killed() {
    let mut seen = BTreeSet::new();
    let calls = kill_at_each_call(2, |dirs, lost| {
        seen.insert((has(dirs[0], 0), part(dirs[1], "filling").len(), has(dirs[1], 0)));
        assert_eq!(lost(), 0);
    });
    println!("killed at {calls} calls: {seen:?}");
    // Not begun, copied in part, in both levels, gone from the first.
    for state in [(true, 0, false), (true, 1, false), (true, 0, true), (false, 0, true)] {
        assert!(seen.contains(&state), "{state:?} in none of {seen:?}");
    }
}

#[test]
fn no_more_than_one_entry_is_lost_from_the_last_level() {
    let mut seen = BTreeSet::new();
    kill_at_each_call(1, |dirs, lost| {
        // Which of them is the oldest is not sure: they were filled within a tick of the clock.
        let gone = (0..FITTING).filter(|&number| !has(dirs[0], number)).count() as u64;
        seen.insert(gone);
        // Those that are filled anew make room in their turn.
        assert!(lost() >= gone);
    });
    assert_eq!(seen, BTreeSet::from([0, 1]), "killed before and after one was evicted");
}
