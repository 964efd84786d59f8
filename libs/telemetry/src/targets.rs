//! Where the processes of a service show their metrics: a directory with one file for each process.
//!
//! A file has the form of Prometheus' `file_sd`, so that Prometheus reads the directory too:
//! `[{"targets": ["10.0.0.5:9400"], "labels": {"tier": "receiver", "headwater_job": "run7", "rank": "0"}}]`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use headwater_own_files::{check_own_folder, is_own, make_own_folder, open_file};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// Label with the tier of a process.
pub const TIER_LABEL: &str = "tier";
/// Label with the job of a training rank.
pub const JOB_LABEL: &str = "headwater_job";
/// Label with the number of a training rank.
pub const RANK_LABEL: &str = "rank";

pub(crate) const ENDING: &str = ".json";
/// A number that the kernel draws when it starts; all its containers see the same.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Digits of that number in a name.
const BOOT_DIGITS: usize = 8;
/// Characters of a name that tell a process from all others.
pub(crate) const RANDOM_CHARS: usize = 16;
/// Name of the usual directory, in the user's.
const USUAL: &str = "targets";
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
    /// Only this user or root can have written the file: what is said there may be shown a secret.
    #[serde(skip)]
    pub is_own: bool,
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
    if configured.as_os_str().is_empty() { usual().join(USUAL) } else { configured.to_owned() }
}

/// Makes the usual directory, or makes sure that it is this user's own: everybody can make it.
pub(crate) fn make_usual_dir() -> io::Result<()> {
    make_in(&usual())
}

fn make_in(top: &Path) -> io::Result<()> {
    make_own_folder(top)?;
    make_own_folder(&top.join(USUAL))
}

/// Whoever can swap the one above can swap this one.
fn check_in(top: &Path) -> io::Result<()> {
    check_own_folder(top)?;
    check_own_folder(&top.join(USUAL))
}

fn usual() -> PathBuf {
    format!("/dev/shm/headwater-{}", geteuid().as_raw()).into()
}

/// Start of the name of a process's file, which [`RANDOM_CHARS`] others follow: `receiver-node7-5f0e2b1c`. It
/// holds a lock on the file for as long as it lives, which all processes of its kernel see: those that find the
/// file unlocked may remove it.
pub(crate) fn name_start(tier: &str) -> String {
    format!("{tier}-{}-{}", targets_host(), *BOOT)
}

/// Name of this host, as it stands in names of files.
fn targets_host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    name.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

/// Names this start of this machine; empty where the kernel does not say.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    id.chars().filter(char::is_ascii_hexdigit).take(BOOT_DIGITS).collect()
});

/// Reads a directory of targets, and removes files of this host's processes that have ended.
///
/// # Errors
/// The directory cannot be read; it may not be there yet. It is the usual one, and is not this user's own.
pub fn read_targets(folder: &Path) -> io::Result<FoundTargets> {
    if folder == usual().join(USUAL) {
        check_in(&usual())?;
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(FILES_MAX) {
        let name = entry?.file_name().into_string();
        names.extend(name.ok().filter(|name| name.ends_with(ENDING) && !name.starts_with('.')));
    }
    names.sort_unstable();
    let mut found = FoundTargets::default();
    for name in names {
        let path = folder.join(&name);
        match open_file(&path) {
            // Somebody else may have been faster, or may own the file.
            Ok(file) if is_left(&name, &file) => drop(std::fs::remove_file(&path)),
            Ok(file) => match read_file(&file) {
                Ok(groups) => found.groups.extend(groups),
                Err(error) => found.troubles.push(format!("{}: {error}", path.display())),
            },
            // Its process has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => found.troubles.push(format!("{}: {error}", path.display())),
        }
    }
    Ok(found)
}

/// Whether a file is of a process of this kernel that has ended: locks of other machines may not be seen here.
fn is_left(name: &str, file: &File) -> bool {
    let unique = name.strip_suffix(ENDING).and_then(|name| name.rsplit_once('-'));
    let random = unique.and_then(|(_, unique)| unique.strip_prefix(BOOT.as_str()));
    let is_of_this_boot = !BOOT.is_empty() && random.is_some_and(|r| r.len() == RANDOM_CHARS);
    is_of_this_boot && file.try_lock_shared().is_ok()
}

fn read_file(file: &File) -> io::Result<Vec<TargetGroup>> {
    let is_own = is_own(&file.metadata()?);
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let groups: Vec<TargetGroup> = serde_json::from_str(&text)?;
    Ok(groups.into_iter().map(|group| TargetGroup { is_own, ..group }).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_usual_directory_is_this_users_own() {
        let usual = targets_dir(Path::new(""));
        let user = geteuid().as_raw();
        assert_eq!(usual.to_str(), Some(&*format!("/dev/shm/headwater-{user}/targets")));
        assert_eq!(targets_dir(Path::new("/shared/targets")), Path::new("/shared/targets"));
    }

    #[test]
    fn a_usual_directory_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("headwater-1000");
        make_in(&top).unwrap();
        make_in(&top).expect("the second time");
        check_in(&top).unwrap();
        // Another user came first, and lets this one in.
        std::fs::set_permissions(&top, Permissions::from_mode(0o777)).unwrap();
        assert!(make_in(&top).is_err() && check_in(&top).is_err());
        std::fs::rename(&top, folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), &top).unwrap();
        assert!(make_in(&top).is_err() && check_in(&top).is_err());
    }

    fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn group(address: &str) -> String {
        format!("[{{\"targets\": [\"{address}\"]}}]")
    }

    fn addresses(found: &FoundTargets) -> Vec<&str> {
        found.groups.iter().flat_map(|group| &group.targets).map(String::as_str).collect()
    }

    #[test]
    fn files_of_processes_that_live_are_read_and_those_of_dead_ones_removed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| write(folder.path(), name, text);
        let random = "0123456789abcdef";
        let alive = "[{\"targets\": [\"a:1\", \"a:2\"], \"labels\": {\"tier\": \"storage\"}}]";
        let alive = write(&format!("{}{random}.json", name_start("storage")), alive);
        let locked = File::open(alive).unwrap();
        locked.lock().unwrap();
        let dead = write(&format!("{}{random}.json", name_start("receiver")), &group("b:1"));
        let elsewhere = format!("augment-another.host-00000000{random}.json");
        let elsewhere = write(&elsewhere, &group("c:1"));
        write("written-by-hand.json", &group("d:1"));
        write("half.json", "[{\"targets\"");
        write("notes.txt", "none of ours");
        let found = read_targets(folder.path()).unwrap();
        assert_eq!(addresses(&found), ["c:1", "a:1", "a:2", "d:1"]);
        assert_eq!(found.groups[1].labels[TIER_LABEL], "storage");
        assert_eq!(found.troubles.len(), 1, "{:?}", found.troubles);
        assert!(found.troubles[0].contains("half.json: EOF"), "{:?}", found.troubles);
        assert!(!dead.exists() && elsewhere.exists());
    }

    #[test]
    fn what_others_may_have_written_is_told_from_what_is_this_users() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.json", &group("own:1"));
        let foreign = write(folder.path(), "b.json", &group("foreign:1"));
        std::fs::set_permissions(foreign, Permissions::from_mode(0o666)).unwrap();
        symlink(folder.path().join("a.json"), folder.path().join("c.json")).unwrap();
        let found = read_targets(folder.path()).unwrap();
        let is_own: Vec<bool> = found.groups.iter().map(|group| group.is_own).collect();
        assert_eq!((addresses(&found), is_own), (vec!["own:1", "foreign:1"], vec![true, false]));
        assert!(found.troubles[0].contains("c.json"), "a link: {:?}", found.troubles);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let missing = read_targets(Path::new("/nowhere/targets")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
