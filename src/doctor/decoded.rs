//! Folders for decoded images.

use headwater_storage::CacheLevel;
use rustix::fs::{Access, access, statvfs};

use crate::doctor::{Check, Patient, gigabytes};

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    patient.config.augment.decoding.decoded_cache.iter().map(folder).collect()
}

/// Whether a folder exists, is writable, and is on a file system of that size.
fn folder(level: &CacheLevel) -> Check {
    let CacheLevel { dir, bytes } = level;
    let check = format!("decoded images in {}", dir.display());
    let usable = access(dir, Access::WRITE_OK | Access::EXEC_OK).and_then(|()| statvfs(dir));
    let stat = match usable {
        Ok(stat) => stat,
        Err(errno) => {
            let remedy = "make the folder, allow it, or name another one in augment.decoded_cache";
            return Check::wrong(check, std::io::Error::from(errno).to_string(), remedy);
        }
    };
    let [all, free] = [stat.f_blocks, stat.f_bavail].map(|blocks| blocks * stat.f_frsize);
    let found = format!(
        "{} of {} free; they may take {}",
        gigabytes(free),
        gigabytes(all),
        gigabytes(*bytes)
    );
    if *bytes <= all {
        return Check::ok(check, found);
    }
    Check::wrong(check, found, "lower `bytes` in augment.decoded_cache, or name a larger folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_to_be_there_and_large_enough() {
        let dir = tempfile::tempdir().unwrap();
        let level = |name: &str, bytes| CacheLevel { dir: dir.path().join(name), bytes };
        assert!(folder(&level("", 1 << 20)).is_ok());
        let small = folder(&level("", 1 << 60)).to_string();
        assert!(small.starts_with("wrong") && small.contains("lower `bytes`"), "{small}");
        let absent = folder(&level("absent", 1 << 20)).to_string();
        assert!(absent.contains("No such file") && absent.contains("make the folder"), "{absent}");
    }
}
