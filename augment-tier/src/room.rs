//! Whether the memory is there that a worker may take for encoded samples and shared parts.

use headwater_inventory::Machine;

use crate::config::LeaseConfig;
use crate::error::AugmentError;

/// Checks `augment.staging_bytes`, and `augment.share_bytes` beside it, against the memory that this process may still take.
///
/// # Errors
/// It is more; with both numbers.
pub(crate) fn check_room(machine: &Machine, leases: &LeaseConfig) -> Result<(), AugmentError> {
    let Some(room) = machine.memory_room() else { return Ok(()) };
    let (free, from) = (room.free_bytes, room.from.display());
    let (key, value, free) = if leases.staging_bytes > free {
        ("staging_bytes", leases.staging_bytes, free)
    } else if leases.share_bytes > free - leases.staging_bytes {
        ("share_bytes", leases.share_bytes, free - leases.staging_bytes)
    } else {
        return Ok(());
    };
    let rule = format!("memory has {free} bytes free (by {from}): lower it, or give it more room");
    Err(AugmentError::Config { key, value: value.to_string(), rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_read_ahead_fit_in_memory_or_the_key_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("proc")).expect("a folder");
        std::fs::write(folder.path().join("proc/meminfo"), "MemAvailable: 1024 kB\n")
            .expect("a file");
        let machine = Machine::recorded(folder.path());
        let checked = |staging_bytes| {
            let config = LeaseConfig { staging_bytes, ..LeaseConfig::default() };
            check_room(&machine, &config).map_err(|error| error.to_string())
        };
        assert_eq!(checked(1 << 20), Ok(()));
        let said = checked((1 << 20) + 1).expect_err("more than there is");
        assert!(
            said.starts_with("augment.staging_bytes is `1048577`: memory has 1048576"),
            "{said}"
        );
        assert!(said.contains("/proc/meminfo"), "{said}");
        let config = LeaseConfig { staging_bytes: 1 << 19, ..LeaseConfig::default() };
        let sharing = |share_bytes| {
            let config = LeaseConfig { share_bytes, ..config.clone() };
            check_room(&machine, &config).map_err(|error| error.to_string())
        };
        assert_eq!(sharing(1 << 19), Ok(()));
        let said = sharing((1 << 19) + 1).expect_err("more than the rest");
        assert!(said.starts_with("augment.share_bytes is `524289`: memory has 524288"), "{said}");
    }
}
