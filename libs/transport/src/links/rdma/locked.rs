//! Locked memory: registered pages stay where they are, and the kernel bounds how many a process
//! may have. Looked at before a link is offered or taken, so that the lack of it is a reason to
//! take another and not a failure in mid-epoch.

use std::io;

use rustix::process::{Resource, getrlimit};

/// Bit of CAP_IPC_LOCK in the kernel's list of capabilities.
const IPC_LOCK: u32 = 14;

const REMEDY: &str = "raise it (ulimit -l, LimitMEMLOCK=infinity, docker --ulimit memlock=-1) or \
                      give CAP_IPC_LOCK (which counts for nothing in a rootless container)";

/// Whether so much may be registered.
///
/// # Errors
/// The limit, and the remedy.
pub(super) fn check(wanted_bytes: u64) -> Result<(), String> {
    shortage(limit_bytes(), wanted_bytes).map_or(Ok(()), Err)
}

/// What is wrong where memory cannot be registered.
pub(super) fn registration_failure(what: &str, len_bytes: u64, error: &io::Error) -> String {
    let mut reason = format!("{what} of {len_bytes} bytes cannot be registered: {error}");
    if let Some(limit) = limit_bytes() {
        let kib = limit / 1024;
        reason += &format!("; the limit of locked memory is {kib} KiB: {REMEDY}");
    }
    reason
}

fn shortage(limit_bytes: Option<u64>, wanted_bytes: u64) -> Option<String> {
    let limit = limit_bytes.filter(|limit| *limit < wanted_bytes)?;
    let (limit, wanted) = (limit / 1024, wanted_bytes.div_ceil(1024));
    Some(format!("the limit of locked memory is {limit} KiB, {wanted} KiB are needed: {REMEDY}"))
}

/// `None`: there is none for this process.
fn limit_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let has_none = is_privileged(&status) && is_initial(&users);
    if has_none { None } else { getrlimit(Resource::Memlock).current }
}

/// Whether /proc/self/uid_map is that of the initial user namespace. In any other, as in a rootless
/// container, the kernel counts locked memory whatever capabilities the process has there.
fn is_initial(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// By the `CapEff` line of /proc/self/status.
fn is_privileged(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|set| set >> IPC_LOCK & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_what_is_needed_is_named_with_the_remedy() {
        assert_eq!(shortage(None, u64::MAX), None);
        assert_eq!(shortage(Some(8 << 20), 8 << 20), None);
        let reason = shortage(Some(8 << 20), (8 << 20) + 1).expect("too little");
        assert!(reason.contains("8192 KiB, 8193 KiB are needed"), "{reason}");
        assert!(reason.contains("ulimit -l") && reason.contains("CAP_IPC_LOCK"), "{reason}");
    }

    #[test]
    fn whoever_may_lock_all_has_no_limit() {
        assert!(is_privileged("Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n"));
        assert!(is_privileged("CapEff:\t0000000000004000\n"));
        assert!(!is_privileged("CapEff:\t00000000a80425fb\n"), "a container's usual set");
        assert!(!is_privileged(""));
    }

    #[test]
    fn capabilities_count_in_the_initial_user_namespace_only() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial(
            "         0       1000          1\n         1     100000      65536\n"
        ));
        assert!(!is_initial(""));
    }
}
