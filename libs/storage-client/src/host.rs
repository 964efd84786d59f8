//! Which host this is.

use std::sync::LazyLock;

/// The kernel's boot id: equal for all processes of one running host, containers included, and
/// for no two hosts. Empty where the kernel does not tell; an empty id equals no other.
#[must_use]
pub fn host_id() -> &'static str {
    static HOST_ID: LazyLock<String> = LazyLock::new(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    });
    &HOST_ID
}

/// The host's own name, as `hostname` prints it.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
