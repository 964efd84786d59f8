//! Where the processes of a service show their metrics: a directory with one file for each process.
//!
//! A file has the form of Prometheus' `file_sd`, so that Prometheus reads the directory too:
//! `[{"targets": ["10.0.0.5:9400"], "labels": {"tier": "receiver", "headwater_job": "run7", "rank": "0"}}]`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getuid, test_kill_process};
use serde::{Deserialize, Serialize};

/// Label with the tier of a process.
pub const TIER_LABEL: &str = "tier";
/// Label with the job of a training rank.
pub const JOB_LABEL: &str = "headwater_job";
/// Label with the number of a training rank.
pub const RANK_LABEL: &str = "rank";

const ENDING: &str = ".json";
/// Most files that are read.
const FILES_MAX: usize = 4096;
/// Longest file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Addresses with labels: one entry of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetGroup {
    /// Addresses `host:port` of `/metrics`.
    pub targets: Vec<String>,
    /// What is known of the processes there.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// What a directory of targets holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundTargets {
    /// In the order of the files' names.
    pub groups: Vec<TargetGroup>,
    /// A sentence for each file that cannot be used.
    pub troubles: Vec<String>,
}

/// The directory of targets: `configured`, or this user's on this host where it is empty.
#[must_use]
pub fn targets_dir(configured: &Path) -> PathBuf {
    match configured.as_os_str().is_empty() {
        true => format!("/dev/shm/headwater-{}/targets", getuid().as_raw()).into(),
        false => configured.to_owned(),
    }
}

/// Name of the file of a process: `receiver-node7-4711.json`. Whoever finds the process dead on its host may
/// remove the file.
#[must_use]
pub fn targets_file(tier: &str, host: &str, pid: u32) -> String {
    format!("{tier}-{host}-{pid}{ENDING}")
}

/// Name of this host, as it stands in names of files.
#[must_use]
pub fn targets_host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    name.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

/// Reads a directory of targets, and removes files of this host's processes that have ended.
///
/// # Errors
/// The directory cannot be read; it may not be there yet.
pub fn read_targets(folder: &Path) -> io::Result<FoundTargets> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(FILES_MAX) {
        let name = entry?.file_name().into_string();
        names.extend(name.ok().filter(|name| name.ends_with(ENDING) && !name.starts_with('.')));
    }
    names.sort_unstable();
    let host = targets_host();
    let mut found = FoundTargets::default();
    for name in names {
        let path = folder.join(&name);
        if has_ended(&name, &host) {
            // Somebody else may have been faster, or may own the file.
            let _ = std::fs::remove_file(&path);
            continue;
        }
        match read_file(&path) {
            Ok(groups) => found.groups.extend(groups),
            // Its process has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => found.troubles.push(format!("{}: {error}", path.display())),
        }
    }
    Ok(found)
}

/// Whether a file is of a process of this host that has ended.
fn has_ended(name: &str, host: &str) -> bool {
    let parts = name.strip_suffix(ENDING).and_then(|name| name.rsplit_once('-'));
    let Some((before, pid)) = parts else { return false };
    let is_here = before.strip_suffix(host).is_some_and(|tier| tier.ends_with('-'));
    let pid = pid.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    // Another user's process may not be signalled, and is there.
    is_here && pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

fn read_file(path: &Path) -> io::Result<Vec<TargetGroup>> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_directory_is_this_users_own() {
        let usual = targets_dir(Path::new(""));
        let user = getuid().as_raw();
        assert_eq!(usual.to_str(), Some(&*format!("/dev/shm/headwater-{user}/targets")));
        assert_eq!(targets_dir(Path::new("/shared/targets")), Path::new("/shared/targets"));
    }

    #[test]
    fn files_of_processes_that_live_are_read_and_those_of_dead_ones_removed() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let (host, own) = (targets_host(), std::process::id());
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let dead = targets_file("receiver", &host, ended.id());
        let elsewhere = targets_file("augment", "another.host", ended.id());
        let group = |address: &str| format!("[{{\"targets\": [\"{address}\"]}}]");
        let alive = "[{\"targets\": [\"a:1\", \"a:2\"], \"labels\": {\"tier\": \"storage\"}}]";
        write(&targets_file("storage", &host, own), alive);
        write(&dead, &group("b:1"));
        write(&elsewhere, &group("c:1"));
        write("written-by-hand.json", &group("d:1"));
        write("half.json", "[{\"targets\"");
        write("notes.txt", "none of ours");
        let found = read_targets(folder.path()).unwrap();
        let addresses: Vec<&str> =
            found.groups.iter().flat_map(|group| &group.targets).map(String::as_str).collect();
        assert_eq!(addresses, ["c:1", "a:1", "a:2", "d:1"]);
        assert_eq!(found.groups[1].labels[TIER_LABEL], "storage");
        assert_eq!(found.troubles.len(), 1, "{:?}", found.troubles);
        assert!(found.troubles[0].contains("half.json: EOF"), "{:?}", found.troubles);
        assert!(!folder.path().join(dead).exists() && folder.path().join(elsewhere).exists());
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let missing = read_targets(Path::new("/nowhere/targets")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
