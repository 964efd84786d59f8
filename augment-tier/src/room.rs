//! Whether the memory is there that a worker may take for encoded samples.

use headwater_inventory::Machine;

use crate::config::AugmentConfig;
use crate::error::AugmentError;

/// Checks `augment.staging_bytes` against the memory that this process may still take.
///
/// # Errors
/// It is more; with both numbers.
pub(crate) fn check_room(machine: &Machine, config: &AugmentConfig) -> Result<(), AugmentError> {
    let Some(room) = machine.memory_room() else { return Ok(()) };
    if config.staging_bytes <= room.free_bytes {
        return Ok(());
    }
    let (free, from) = (room.free_bytes, room.from.display());
    let rule = format!("memory has {free} bytes free (by {from}): lower it, or give it more room");
    let value = config.staging_bytes.to_string();
    Err(AugmentError::Config { key: "staging_bytes", value, rule })
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
            let config = AugmentConfig { staging_bytes, ..AugmentConfig::default() };
            check_room(&machine, &config).map_err(|error| error.to_string())
        };
        assert_eq!(checked(1 << 20), Ok(()));
        let said = checked((1 << 20) + 1).expect_err("more than there is");
        assert!(
            said.starts_with("augment.staging_bytes is `1048577`: memory has 1048576"),
            "{said}"
        );
        assert!(said.contains("/proc/meminfo"), "{said}");
    }
}
