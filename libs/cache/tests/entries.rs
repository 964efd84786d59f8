//! What is filled is given out, whoever asks, and goes in the order of its use.

use std::path::Path;

use headwater_cache::{CacheError, Cached, FillError, OpenError, Unavailable};

use crate::support::*;

/// Three of these fit in 4 MiB.
const BYTES: u64 = MIB + 1;

#[test]
fn an_entry_is_filled_once_and_found_by_another_cache_and_by_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&[(dir.path(), 4 * MIB)]);
    assert!(cache.get(&key(1)).is_none());
    let cached = ask(&cache, 1, BYTES).unwrap();
    check(&cached, 1, BYTES);
    assert!(!had_to_fill(&cache, 1, BYTES));
    let other = open(&[(dir.path(), 4 * MIB)]);
    check(&other.get(&key(1)).unwrap(), 1, BYTES);
    check(&Cached::open(cached.path(), &key(1), &[]).unwrap(), 1, BYTES);
    assert_eq!(cached.payload_offset() % 4096, 0);
    let other = Cached::open(cached.path(), &key(2), &[]).unwrap_err();
    assert!(matches!(other, OpenError::Damaged { .. }), "{other}");
    let nowhere = Cached::open(&dir.path().join("x"), &key(2), &[]).unwrap_err();
    assert!(matches!(nowhere, OpenError::Absent { .. }), "{nowhere}");
    assert_eq!((part(dir.path(), "filling").len(), part(dir.path(), "flights").len()), (0, 0));
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn a_filler_that_fails_leaves_nothing_and_the_next_one_tries_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&[(dir.path(), 4 * MIB)]);
    let failed = cache.get_or_fill(&key(1), 10, |writer| {
        writer.write_all(b"half").unwrap();
        Err::<Vec<u8>, _>(Broken("the source is gone"))
    });
    assert!(matches!(failed, Err(FillError::Fill(Broken("the source is gone")))));
    let panicked = std::panic::catch_unwind(|| {
        let _ = cache.get_or_fill(&key(1), 10, |_| -> Result<Vec<u8>, Broken> { panic!("a bug") });
    });
    assert!(panicked.is_err());
    assert_eq!((taken(dir.path()), tally(dir.path())), (0, 0));
    assert!(part(dir.path(), "flights").is_empty());
    assert!(had_to_fill(&cache, 1, 10));
}

#[test]
fn the_entry_that_was_used_longest_ago_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&[(dir.path(), 4 * MIB)]);
    for number in [1, 2, 3] {
        drop(ask(&cache, number, BYTES).unwrap());
    }
    drop(cache.get(&key(1)));
    drop(ask(&cache, 4, BYTES).unwrap());
    let has = |number| cache.get(&key(number)).is_some();
    assert_eq!([1, 2, 3, 4].map(has), [true, false, true, true]);
    // In the order of that line: 1, 3, 4.
    drop(ask(&cache, 5, BYTES).unwrap());
    assert_eq!([1, 3, 4, 5].map(has), [false, true, true, true]);
    assert!(tally(dir.path()) <= 4 * MIB);
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn a_reader_keeps_its_entry_and_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&[(dir.path(), 4 * MIB)]);
    let oldest = ask(&cache, 1, BYTES).unwrap();
    for number in 2..9 {
        drop(ask(&cache, number, BYTES).unwrap());
    }
    assert!(oldest.path().exists());
    check(&oldest, 1, BYTES);
    // All are being read: there is room for nobody else.
    let all = [7, 8].map(|number| cache.get(&key(number)).unwrap());
    let refused = ask(&cache, 9, BYTES).unwrap_err();
    assert!(
        matches!(&refused, FillError::Unavailable(Unavailable::NoRoom { .. })),
        "{refused}, {refused:?}"
    );
    drop(all);
    drop(ask(&cache, 9, BYTES).unwrap());
    // Somebody who removes the folder takes no byte from who reads.
    std::fs::remove_dir_all(user_folder(dir.path())).unwrap();
    check(&oldest, 1, BYTES);
    assert!(had_to_fill(&cache, 1, BYTES), "the folder is made again");
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn what_leaves_the_first_level_is_found_in_the_second() {
    let (fast, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = open(&[(fast.path(), 2 * MIB + 65536), (large.path(), 4 * MIB)]);
    for number in 1..=3 {
        drop(ask(&cache, number, BYTES).unwrap());
    }
    let place = |number| {
        let cached = cache.get(&key(number))?;
        check(&cached, number, BYTES);
        Some(if cached.path().starts_with(fast.path()) { "fast" } else { "large" })
    };
    assert_eq!([1, 2, 3].map(place), [Some("large"), Some("fast"), Some("fast")]);
    // What is larger than the first level, or has no room in it, goes to the second.
    let held = [2, 3].map(|number| cache.get(&key(number)).unwrap());
    drop(ask(&cache, 4, BYTES).unwrap());
    assert_eq!(place(4), Some("large"));
    drop(held);
    for number in 5..8 {
        drop(ask(&cache, number, BYTES).unwrap());
    }
    // Gone from the second: 1, then 4, which were used before 2, 3 and 5 came.
    let places = [1, 4, 2, 3, 5, 6, 7].map(place);
    let expected = [None, None, Some("large"), Some("large"), Some("large")];
    assert_eq!(places[..5], expected);
    assert_eq!(places[5..], [Some("fast"), Some("fast")]);
    for dir in [&fast, &large] {
        assert_eq!(tally(dir.path()), taken(dir.path()));
    }
}

#[test]
fn a_payload_that_is_longer_than_expected_takes_room_as_it_grows() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&[(dir.path(), 4 * MIB)]);
    for number in [1, 2, 3] {
        drop(ask(&cache, number, BYTES).unwrap());
    }
    let grown = cache.get_or_fill(&key(4), 0, |writer| {
        writer.write_all(&payload(4, 3 * MIB))?;
        Ok::<_, Broken>(meta(4))
    });
    check(&grown.unwrap(), 4, 3 * MIB);
    assert_eq!(tally(dir.path()), taken(dir.path()));
    let endless = cache.get_or_fill(&key(5), 0, |writer| {
        for _ in 0..5 {
            writer.write_all(&payload(5, MIB))?;
        }
        Ok::<_, Broken>(meta(5))
    });
    assert!(matches!(endless, Err(FillError::Unavailable(Unavailable::NoRoom { .. }))));
    assert_eq!(tally(dir.path()), taken(dir.path()));
}

#[test]
fn a_configuration_that_cannot_work_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let fault = |levels: &[(&Path, u64)]| {
        let error = headwater_cache::Cache::open(&config(levels)).unwrap_err();
        error.to_string()
    };
    assert!(fault(&[]).contains("0 levels"));
    assert!(fault(&[(Path::new("a"), MIB)]).contains("absolute"));
    assert!(fault(&[(dir.path(), MIB), (dir.path(), MIB)]).contains("twice"));
    assert!(fault(&[(dir.path(), 1)]).contains("`1`"));
    assert!(fault(&[(&dir.path().join("no"), MIB)]).contains("/no"));
}

#[test]
fn a_folder_that_is_somebody_elses_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&[(dir.path(), MIB)]);
    drop(cache);
    let top = user_folder(dir.path());
    std::fs::remove_dir_all(&top).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &top).unwrap();
    let refused = headwater_cache::Cache::open(&config(&[(dir.path(), MIB)])).unwrap_err();
    assert!(matches!(refused, CacheError::Foreign { .. }), "{refused}");
    assert!(files(elsewhere.path()).is_empty());
    if std::os::unix::fs::chown(elsewhere.path(), Some(12345), None).is_err() {
        println!("no root here: another user's folder is not tried");
        return;
    }
    std::fs::remove_file(&top).unwrap();
    std::fs::create_dir(&top).unwrap();
    std::os::unix::fs::chown(&top, Some(12345), None).unwrap();
    let refused = headwater_cache::Cache::open(&config(&[(dir.path(), MIB)])).unwrap_err();
    assert!(refused.to_string().contains("12345"), "{refused}");
}
