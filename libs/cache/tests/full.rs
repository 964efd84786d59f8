//! A file system without room: the cache gives way, says so and works again afterwards. The file
//! system is a tmpfs of 4 MiB in a mount namespace of its own, where this system has those.

mod support;

use std::path::Path;
use std::process::Command;

use headwater_cache::{FillError, Unavailable};
use support::*;

const DIR: &str = "HEADWATER_TEST_CACHE_SMALL_TMPFS";
const MOUNT: &str = "mount -t tmpfs -o size=4m none \"$0\" && exec \"$@\"";
const BYTES: u64 = MIB;

#[test]
fn a_full_file_system_is_read_past() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["-rm", "sh", "-c", MOUNT]).arg(dir.path()).args(command);
        unshare.env(DIR, dir.path());
        unshare
    };
    if !namespace(&["true"]).status().is_ok_and(|status| status.success()) {
        println!("no mount namespaces here: a full file system is not tried");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let child = [this, "in_a_small_tmpfs", "--exact", "--ignored", "--nocapture"];
    let ended = namespace(&child).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let why = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}{why}");
}

#[test]
#[ignore = "a process of the other test"]
fn in_a_small_tmpfs() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    // The limit is no limit here: the file system's is met first.
    let levels = [(dir, 64 * MIB)];
    let cache = open(&levels);
    for number in 0..10 {
        assert!(had_to_fill(&cache, number, BYTES), "the oldest makes room");
    }
    assert!(part(dir, "entries").len() >= 2);
    let is_no_room = |number| {
        matches!(
            ask(&cache, number, BYTES),
            Err(FillError::Unavailable(Unavailable::NoRoom { .. }))
        )
    };
    let held: Vec<_> = (0..10).filter_map(|number| cache.get(&key(number))).collect();
    assert!(is_no_room(20));
    drop(held);
    // Somebody else fills it up, while an entry is written.
    let other = dir.join("other");
    let grown = cache.get_or_fill(&key(21), BYTES, |writer| {
        writer.write_all(&payload(21, BYTES))?;
        let free = rustix::fs::statvfs(dir).unwrap();
        std::fs::write(&other, vec![1; (free.f_bavail * free.f_frsize) as usize]).unwrap();
        for _ in 0..4 {
            writer.write_all(&payload(21, BYTES))?;
        }
        Ok::<_, Broken>(Vec::new())
    });
    assert!(matches!(grown, Err(FillError::Unavailable(Unavailable::NoRoom { .. }))));
    let _ = std::fs::remove_file(&other);
    let whole = rustix::fs::statvfs(dir).unwrap();
    let all = (whole.f_bavail * whole.f_frsize) as usize;
    std::fs::write(&other, vec![1; all]).unwrap();
    assert!(is_no_room(22));
    assert!(part(dir, "entries").is_empty(), "the cache gives way to who needs the room");
    // Begun without room for a byte, the tally's included.
    std::fs::remove_dir_all(user_folder(dir)).unwrap();
    let free = rustix::fs::statvfs(dir).unwrap();
    std::fs::write(dir.join("rest"), vec![1; (free.f_bavail * free.f_frsize) as usize]).unwrap();
    let late = open(&levels);
    assert!(ask(&late, 23, BYTES).is_err());
    std::fs::remove_file(&other).unwrap();
    for cache in [&cache, &late] {
        had_to_fill(cache, 23, BYTES);
    }
    drop(open(&levels));
    assert_eq!(tally(dir), taken(dir));
}
