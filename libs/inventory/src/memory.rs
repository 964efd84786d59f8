//! Memory: file systems in it, and huge pages.

use std::path::Path;

use serde::Serialize;

use crate::Machine;

/// Number of tmpfs (linux/magic.h).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Room on a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Space {
    /// All of it.
    pub total_bytes: u64,
    /// What unprivileged users may still take.
    pub free_bytes: u64,
    /// Whether it is memory.
    pub is_tmpfs: bool,
}

/// Huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Policy for private memory: `always`, `madvise` or `never`.
    pub private: String,
    /// Policy for files of tmpfs: `always`, `within_size`, `advise`, `never`, `deny` or `force`.
    pub shared: String,
    /// Pages set aside (hugetlbfs), which slots do not use.
    pub reserved: u64,
}

// === impl Machine ===

impl Machine {
    /// Room on the file system of a folder.
    #[must_use]
    pub fn space(&self, folder: &Path) -> Option<Space> {
        let path = self.path(folder);
        let room = rustix::fs::statvfs(&path).ok()?;
        let kind = rustix::fs::statfs(&path).ok()?.f_type;
        Some(Space {
            total_bytes: room.f_blocks * room.f_frsize,
            free_bytes: room.f_bavail * room.f_frsize,
            is_tmpfs: kind as i64 == TMPFS_MAGIC,
        })
    }

    /// Whether and for what the kernel gives huge pages.
    #[must_use]
    pub fn huge_pages(&self) -> Option<HugePages> {
        let folder = "/sys/kernel/mm/transparent_hugepage";
        let chosen = |file: &str| {
            let text = self.text(format!("{folder}/{file}"))?;
            let (_, rest) = text.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        };
        let reserved = self.meminfo("HugePages_Total").unwrap_or(0);
        Some(HugePages { private: chosen("enabled")?, shared: chosen("shmem_enabled")?, reserved })
    }

    /// Memory that can be taken without swapping, in bytes.
    #[must_use]
    pub fn available_bytes(&self) -> Option<u64> {
        self.meminfo("MemAvailable").map(|kib| kib * 1024)
    }

    fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.text("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }
}
