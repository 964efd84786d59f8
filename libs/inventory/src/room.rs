//! Memory that this process may still take: of the machine's, and of its control groups' limits.

use std::path::PathBuf;

use serde::Serialize;

use crate::Machine;
use crate::groups::{Group, Version};

/// Memory that may still be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryRoom {
    /// So many bytes, without swapping.
    pub free_bytes: u64,
    /// The file that says so.
    pub from: PathBuf,
}

/// How one version of control groups says what it limits.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Pages of files among what is used, in `memory.stat`; the kernel takes them back.
    pages: [&'static str; 2],
}

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    pages: ["total_inactive_file", "total_active_file"],
};
const V2: Files =
    Files { limit: "memory.max", used: "memory.current", pages: ["inactive_file", "active_file"] };

// === impl Machine ===

impl Machine {
    /// Memory that this process may still take: the least of what the machine has available and of
    /// what each control group above it leaves. `None` where nothing of it can be read.
    #[must_use]
    pub fn memory_room(&self) -> Option<MemoryRoom> {
        let free_bytes = self.available_bytes();
        let whole = free_bytes.map(|free_bytes| MemoryRoom { free_bytes, from: MEMINFO.into() });
        let groups = self.control_groups("memory");
        let rooms = groups.iter().filter_map(|group| self.room_of(group));
        whole.into_iter().chain(rooms).min_by_key(|room| room.free_bytes)
    }

    /// `None` without a limit.
    fn room_of(&self, Group { folder, version }: &Group) -> Option<MemoryRoom> {
        let files = match version {
            Version::V1 => V1,
            Version::V2 => V2,
        };
        let from = folder.join(files.limit);
        let limit: u64 = self.number(&from)?;
        let used: u64 = self.number(folder.join(files.used))?;
        let stat = self.text(folder.join("memory.stat")).unwrap_or_default();
        let value = |name: &str| stat.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        let pages = files.pages.iter().filter_map(|name| value(name)?.parse::<u64>().ok());
        let used = used.saturating_sub(pages.sum());
        Some(MemoryRoom { free_bytes: limit.saturating_sub(used), from })
    }
}

const MEMINFO: &str = "/proc/meminfo";
