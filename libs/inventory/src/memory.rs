//! Memory: what is free of it, and huge pages.

use serde::Serialize;

use crate::Machine;

/// Huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Policy for private memory: `always`, `madvise` or `never`.
    pub private: String,
    /// Policy for shared memory: `always`, `within_size`, `advise`, `never`, `deny` or `force`.
    pub shared: String,
    /// Pages set aside (hugetlbfs), which slots do not use.
    pub reserved: u64,
}

// === impl Machine ===

impl Machine {
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

    /// Memory of the machine, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.meminfo("MemTotal").map(|kib| kib * 1024)
    }

    fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.text("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }
}
