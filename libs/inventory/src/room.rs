//! Memory that this process may still take: of the machine's, and of its control groups' limits.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Machine;

/// Memory that may still be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryRoom {
    /// So many bytes, without swapping.
    pub free_bytes: u64,
    /// The file that says so.
    pub from: PathBuf,
}

/// How one version of control groups says what it limits.
struct Version {
    /// Type of its file system.
    file_system: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Pages of files among what is used, in `memory.stat`; the kernel takes them back.
    files: [&'static str; 2],
}

const V1: Version = Version {
    file_system: "cgroup",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};
const V2: Version = Version {
    file_system: "cgroup2",
    limit: "memory.max",
    used: "memory.current",
    files: ["inactive_file", "active_file"],
};

// === impl Machine ===

impl Machine {
    /// Memory that this process may still take: the least of what the machine has available and of
    /// what each control group above it leaves. `None` where nothing of it can be read.
    #[must_use]
    pub fn memory_room(&self) -> Option<MemoryRoom> {
        let free_bytes = self.available_bytes();
        let whole = free_bytes.map(|free_bytes| MemoryRoom { free_bytes, from: MEMINFO.into() });
        whole.into_iter().chain(self.control_groups()).min_by_key(|room| room.free_bytes)
    }

    /// What each control group of this process leaves, of those with a limit that can be seen.
    fn control_groups(&self) -> Vec<MemoryRoom> {
        let groups = self.text("/proc/self/cgroup").unwrap_or_default();
        let mounts = self.text("/proc/self/mountinfo").unwrap_or_default();
        groups.lines().flat_map(|line| self.rooms_above(line, &mounts)).collect()
    }

    /// From a line `number:controllers:path` of /proc/self/cgroup.
    fn rooms_above(&self, line: &str, mounts: &str) -> Vec<MemoryRoom> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            return Vec::new();
        };
        let version = match controllers {
            "" => V2,
            list if list.split(',').any(|controller| controller == "memory") => V1,
            _ => return Vec::new(),
        };
        let Some((root, mounted)) = mounts.lines().find_map(|line| version.mount(line)) else {
            return Vec::new();
        };
        // Of another namespace's path only the top is seen here.
        let group = mounted.join(Path::new(path).strip_prefix(root).unwrap_or(Path::new("")));
        let groups = group.ancestors().take_while(|group| group.starts_with(&mounted));
        groups.filter_map(|group| self.room_of(group, &version)).collect()
    }

    /// `None` without a limit.
    fn room_of(&self, group: &Path, version: &Version) -> Option<MemoryRoom> {
        let from = group.join(version.limit);
        let limit: u64 = self.number(&from)?;
        let used: u64 = self.number(group.join(version.used))?;
        let stat = self.text(group.join("memory.stat")).unwrap_or_default();
        let value = |name: &str| stat.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        let files = version.files.iter().filter_map(|name| value(name)?.parse::<u64>().ok());
        let used = used.saturating_sub(files.sum());
        Some(MemoryRoom { free_bytes: limit.saturating_sub(used), from })
    }
}

const MEMINFO: &str = "/proc/meminfo";

// === impl Version ===

impl Version {
    /// Root and mount point of this version's file system, from a line of /proc/self/mountinfo.
    fn mount<'a>(&self, line: &'a str) -> Option<(&'a str, PathBuf)> {
        let (place, file_system) = line.split_once(" - ")?;
        let (kind, rest) = file_system.split_once(' ')?;
        let of_memory = || rest.split([' ', ',']).any(|option| option == "memory");
        if kind != self.file_system || kind == V1.file_system && !of_memory() {
            return None;
        }
        let mut fields = place.split(' ').skip(3);
        Some((fields.next()?, PathBuf::from(fields.next()?)))
    }
}
