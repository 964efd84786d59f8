//! Entries that are offered: nobody waits long for another, and what was used lately is not pushed out.

use std::fs::{File, FileTimes};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use headwater_cache::{Cache, CacheConfig};
use rustix::io::Errno;

use crate::support::*;

const BYTES: u64 = 200_000;
const HOUR: Duration = Duration::from_secs(3600);

fn open_keeping(dir: &Path, bytes: u64) -> Cache {
    let config = CacheConfig { keep: HOUR, is_durable: false, ..config(&[(dir, bytes)]) };
    Cache::open(&config).expect("a cache")
}

fn offer(cache: &Cache, number: u64) -> bool {
    let offered = cache.offer(&key(number), BYTES, |writer| {
        writer.write_all(&payload(number, BYTES))?;
        Ok(meta(number))
    });
    offered.expect("the cache is of use")
}

fn has(cache: &Cache, number: u64) -> bool {
    let found = cache.get(&key(number));
    found.iter().for_each(|entry| check(entry, number, BYTES));
    found.is_some()
}

#[test]
fn what_is_there_or_being_filled_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, other) = (open_keeping(dir.path(), 8 * MIB), open_keeping(dir.path(), 8 * MIB));
    assert!(offer(&cache, 1) && has(&other, 1));
    assert!(!offer(&other, 1), "it is there");
    let filled = cache.get_or_fill(&key(2), BYTES, |writer| {
        assert!(!offer(&other, 2), "somebody fills it");
        writer.write_all(&payload(2, BYTES))?;
        Ok::<_, Broken>(meta(2))
    });
    check(&filled.unwrap(), 2, BYTES);
    // The folder was removed: it is made again.
    std::fs::remove_dir_all(user_folder(dir.path())).unwrap();
    assert!(!has(&cache, 1) && offer(&cache, 1) && has(&other, 1));
}

#[test]
fn a_full_cache_keeps_what_was_used_lately_and_lets_go_of_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_keeping(dir.path(), MIB);
    let written = (0..9).filter(|number| offer(&cache, *number)).count() as u64;
    assert!((4..6).contains(&written), "{written} entries");
    assert!(!cache.has_room());
    assert!((0..written).all(|number| has(&cache, number)) && !has(&cache, written));
    assert!(tally(dir.path()) <= MIB && tally(dir.path()) == taken(dir.path()));
    assert!(part(dir.path(), "filling").is_empty());
    // Two of them were not used for longer than that: the next ones take their places.
    let long_ago = FileTimes::new().set_accessed(SystemTime::now() - 2 * HOUR);
    let paths: Vec<_> =
        (0..2).map(|number| cache.get(&key(number)).unwrap().path().to_owned()).collect();
    paths.iter().for_each(|path| File::open(path).unwrap().set_times(long_ago).unwrap());
    let cache = open_keeping(dir.path(), MIB);
    let again = (20..29).filter(|number| offer(&cache, *number)).count();
    assert_eq!(again, 2);
    assert!((2..written).all(|number| has(&cache, number)) && !has(&cache, 0) && !has(&cache, 1));
}

#[test]
fn an_entry_that_its_reader_discards_is_gone_and_its_bytes_are_free() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_keeping(dir.path(), 8 * MIB);
    assert!(offer(&cache, 1) && offer(&cache, 2));
    let entry = cache.get(&key(1)).unwrap();
    cache.discard(&entry);
    // Its bytes stay for as long as it is open.
    let mut byte = [0];
    entry.file().read_exact_at(&mut byte, entry.payload_offset()).unwrap();
    assert!(!has(&cache, 1) && has(&cache, 2));
    assert_eq!(tally(dir.path()), taken(dir.path()));
    // Somebody has written it anew: that one stays.
    assert!(offer(&cache, 1));
    cache.discard(&entry);
    assert!(has(&cache, 1));
}

#[test]
fn an_entry_stays_where_a_read_fails_that_may_succeed_later() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_keeping(dir.path(), 8 * MIB);
    assert!(offer(&cache, 1));
    let entry = cache.get(&key(1)).unwrap();
    for passing in [Errno::MFILE, Errno::NOMEM, Errno::ACCESS] {
        cache.on_read_error(&entry, passing.into());
        assert!(has(&cache, 1), "{passing}");
    }
    for lost in [Errno::IO.into(), ErrorKind::UnexpectedEof.into()] {
        cache.on_read_error(&cache.get(&key(1)).unwrap(), lost);
        assert!(!has(&cache, 1) && offer(&cache, 1));
    }
}

/// Another process counts files, and a thread of this one waits for it.
#[test]
fn who_offers_or_discards_does_not_wait_for_a_busy_lock() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_keeping(dir.path(), 8 * MIB);
    assert!(offer(&cache, 1));
    let entry = cache.get(&key(1)).unwrap();
    let tally_file = File::open(user_folder(dir.path()).join("tally")).unwrap();
    tally_file.lock().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| had_to_fill(&cache, 2, BYTES));
        while part(dir.path(), "flights").is_empty() {
            thread::yield_now();
        }
        let begun = Instant::now();
        for _ in 0..3 {
            assert!(!offer(&cache, 3), "the lock is busy");
            cache.discard(&entry);
        }
        assert!(begun.elapsed() < PATIENCE / 10, "{:?}", begun.elapsed());
        assert!(!waiting.is_finished());
        tally_file.unlock().unwrap();
    });
    assert!(has(&cache, 1) && has(&cache, 2) && offer(&cache, 3));
    cache.discard(&entry);
    assert!(!has(&cache, 1));
}

#[test]
fn files_are_counted_at_the_start_only_where_the_tally_may_be_wrong() {
    let dir = tempfile::tempdir().unwrap();
    assert!(offer(&open_keeping(dir.path(), 8 * MIB), 1));
    let right = tally(dir.path());
    let folder = user_folder(dir.path());
    let (entry, aside) = (part(dir.path(), "entries").remove(0).0, dir.path().join("aside"));
    let reopened = || {
        drop(open_keeping(dir.path(), 8 * MIB));
        tally(dir.path())
    };
    std::fs::rename(&entry, &aside).unwrap();
    assert_eq!(reopened(), right, "nothing says that an entry was removed by hand");
    std::fs::write(folder.join("filling/left"), "half").unwrap();
    assert_eq!(reopened(), 0, "somebody died while writing");
    assert!(part(dir.path(), "filling").is_empty());
    std::fs::rename(&aside, &entry).unwrap();
    std::fs::write(folder.join("tally"), "half").unwrap();
    assert_eq!(reopened(), right, "half a tally");
    // The entry of a former start; it stays one, as nobody asks for it.
    let current = entry.parent().unwrap().parent().unwrap();
    std::fs::rename(current, folder.join("entries/former")).unwrap();
    std::fs::write(folder.join("tally"), "half").unwrap();
    assert_eq!((reopened(), reopened()), (right, right));
    std::fs::rename(
        folder.join("entries/former").join(entry.strip_prefix(current).unwrap()),
        &aside,
    )
    .unwrap();
    std::fs::write(folder.join("entries/former/other"), "").unwrap();
    assert_eq!(reopened(), 0, "the machine was started again");
}

/// Another worker counts millions of files.
#[test]
fn a_cache_opens_while_its_lock_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    assert!(offer(&open_keeping(dir.path(), 8 * MIB), 1));
    let tally_file = File::open(user_folder(dir.path()).join("tally")).unwrap();
    tally_file.lock().unwrap();
    let begun = Instant::now();
    let cache = open_keeping(dir.path(), 8 * MIB);
    assert!(begun.elapsed() < PATIENCE / 10 && has(&cache, 1), "{:?}", begun.elapsed());
    assert!(!offer(&cache, 2));
    tally_file.unlock().unwrap();
    assert!(offer(&cache, 2));
    assert_eq!(tally(dir.path()), taken(dir.path()));
}
