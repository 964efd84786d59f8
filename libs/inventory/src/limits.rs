//! What this process may take: `/proc/self/limits` and its capabilities.

use serde::Serialize;

use crate::Machine;

/// Number of CAP_IPC_LOCK (linux/capability.h): memory is locked without a limit.
const CAP_IPC_LOCK: u32 = 14;

/// Limits that matter here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Memory that may be locked, in bytes; RDMA locks what it registers.
    pub locked_bytes: Limit,
    /// Files that may be open.
    pub open_files: Limit,
    /// Whether memory may be locked whatever the limit.
    pub may_lock_all: bool,
}

/// What holds now, and how far the process may raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// In force; `None`: without limit.
    pub soft: Option<u64>,
    /// Most; `None`: without limit.
    pub hard: Option<u64>,
}

// === impl Machine ===

impl Machine {
    /// Limits of this process.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        let text = self.text("/proc/self/limits")?;
        let status = self.text("/proc/self/status").unwrap_or_default();
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        Some(Limits {
            locked_bytes: limit(&text, "Max locked memory")?,
            open_files: limit(&text, "Max open files")?,
            may_lock_all: capabilities.is_some_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1),
        })
    }
}

fn limit(text: &str, name: &str) -> Option<Limit> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut columns = line.split_whitespace();
    let mut number = || match columns.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Limit { soft: number()?, hard: number()? })
}

// === impl Limit ===

impl Limit {
    /// Whether so much is allowed now.
    #[must_use]
    pub fn allows(&self, wanted: u64) -> bool {
        self.soft.is_none_or(|soft| soft >= wanted)
    }

    /// Whether the process may have so much allowed.
    #[must_use]
    pub fn may_allow(&self, wanted: u64) -> bool {
        self.hard.is_none_or(|hard| hard >= wanted)
    }
}
