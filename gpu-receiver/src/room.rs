//! Whether memory has room for all slots, before the first is made.

use headwater_core::{Layout, Recipe};
use headwater_inventory::{Machine, MemoryRoom};

use crate::config::ReceiverConfig;
use crate::error::ReceiverError;

/// Checks that all slots there may be have room, those that are made later included: what is missing
/// then would end the stream in mid-epoch, or have the kernel end some process of this host.
///
/// # Errors
/// They do not fit; says by how much, and the keys to lower.
pub(crate) fn check_room(
    machine: &Machine,
    config: &ReceiverConfig,
    recipe: &Recipe,
) -> Result<(), ReceiverError> {
    let Some(MemoryRoom { free_bytes, from }) = machine.memory_room() else { return Ok(()) };
    let slots = config.window.slots_limit() as u64;
    let batch_samples = config.batch_samples;
    let bytes = |samples: u32| Layout::largest(recipe, samples).len_bytes();
    let fits = |samples: u32| bytes(samples).saturating_mul(slots) <= free_bytes;
    if fits(batch_samples) {
        return Ok(());
    }
    // Layouts grow with their samples: the most that fit are found by halving.
    let (mut fit, mut too_many) = (0, batch_samples);
    while too_many - fit > 1 {
        let between = fit + (too_many - fit) / 2;
        if fits(between) { fit = between } else { too_many = between }
    }
    let lower = match fit {
        0 => String::new(),
        fit => format!("receiver.batch_samples ({batch_samples}) to {fit} or less, "),
    };
    let slot_bytes = bytes(batch_samples);
    Err(ReceiverError::Room { slots, slot_bytes, from, free_bytes, lower })
}

/// Slots that there is room for; `None` where nobody can tell.
pub(crate) fn slots_with_room(
    machine: &Machine,
    config: &ReceiverConfig,
    recipe: &Recipe,
) -> Option<u64> {
    let MemoryRoom { free_bytes, .. } = machine.memory_room()?;
    free_bytes.checked_div(Layout::largest(recipe, config.batch_samples).len_bytes())
}

/// Slots that an RDMA card of this machine could be given; `None`: it has no card, or any number.
pub(crate) fn slots_to_lock(
    machine: &Machine,
    config: &ReceiverConfig,
    recipe: &Recipe,
) -> Option<u64> {
    let links = config.link_kinds().unwrap_or_default();
    if !links.iter().any(|kind| kind.facts().needs_card) || machine.rdma_devices().is_empty() {
        return None;
    }
    let limits = machine.limits().filter(|limits| !limits.may_lock_all)?;
    let slot_bytes = Layout::largest(recipe, config.batch_samples).len_bytes();
    limits.locked_bytes.soft?.checked_div(slot_bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use headwater_core::Dtype;

    use super::*;
    use crate::config::WindowConfig;

    const GIB: u64 = 1 << 30;
    const SAMPLE: u64 = 3 * 224 * 224;

    fn recipe() -> Recipe {
        Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset")
    }

    /// A machine with so much memory available, and so much of it left by its control group.
    fn machine(available: u64, group: u64) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: String| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        write("proc/meminfo", format!("MemAvailable: {} kB\n", available / 1024));
        write("proc/self/cgroup", "0::/job\n".into());
        let mount = "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        write("proc/self/mountinfo", mount.into());
        write("sys/fs/cgroup/job/memory.max", format!("{}\n", group + GIB));
        write("sys/fs/cgroup/job/memory.current", format!("{GIB}\n"));
        let machine = Machine::recorded(folder.path());
        (folder, machine)
    }

    fn checked(machine: &Machine, batch_samples: u32, slots_max: u32) -> Result<(), String> {
        let recipe = recipe();
        let window = WindowConfig { slots_max, ..WindowConfig::default() };
        let config = ReceiverConfig { batch_samples, window, ..ReceiverConfig::default() };
        check_room(machine, &config, &recipe).map_err(|error| error.to_string())
    }

    #[test]
    fn slots_that_do_not_fit_in_memory_are_refused_with_numbers_and_keys() {
        let (_folder, machine) = machine(23 * GIB, 100 * GIB);
        assert_eq!(checked(&machine, 1000, 8), Ok(()));
        let said = checked(&machine, 30_000, 8).expect_err("36 GB");
        let wanted = format!("8 slots of {} bytes", Layout::new(&recipe(), 30_000).len_bytes());
        assert!(said.contains(&wanted), "{said}");
        assert!(said.contains(&format!("{} bytes free", 23 * GIB)), "{said}");
        assert!(said.contains("/proc/meminfo"), "{said}");
        // Just what there is room for, as it says.
        let fit: u32 = said
            .split("lower receiver.batch_samples (30000) to ")
            .nth(1)
            .and_then(|rest| rest.split([',', ' ']).next()?.parse().ok())
            .unwrap_or_else(|| panic!("{said}"));
        assert_eq!(checked(&machine, fit, 8), Ok(()));
        assert!(checked(&machine, fit + 1, 8).is_err());
        // More slots than the window has are counted too.
        assert!(checked(&machine, 1000, 400).is_err());
    }

    #[test]
    fn the_limit_of_a_control_group_counts() {
        let (_folder, machine) = machine(23 * GIB, GIB);
        let said = checked(&machine, 1000, 8).expect_err("1.2 GB");
        assert!(said.contains("/sys/fs/cgroup/job/memory.max"), "{said}");
        assert!(said.contains(&format!("{GIB} bytes free")), "{said}");
    }

    #[test]
    fn the_limit_of_locked_memory_counts_where_there_is_a_card() {
        let (folder, machine) = machine(23 * GIB, GIB);
        let limits =
            format!("Max locked memory  {GIB}  {GIB}  bytes\nMax open files  9  9  files\n");
        fs::write(folder.path().join("proc/self/limits"), limits).expect("a file");
        let config = ReceiverConfig { batch_samples: 1000, ..ReceiverConfig::default() };
        assert_eq!(slots_to_lock(&machine, &config, &recipe()), None);
        let card = folder.path().join("sys/class/infiniband/mlx5_0/ports/1");
        fs::create_dir_all(card).expect("a folder");
        let slots = GIB / Layout::new(&recipe(), 1000).len_bytes();
        assert_eq!(slots_to_lock(&machine, &config, &recipe()), Some(slots));
    }

    #[test]
    fn a_machine_that_holds_not_even_one_sample_says_what_else_to_do() {
        let (_folder, machine) = machine(SAMPLE, 100 * GIB);
        let said = checked(&machine, 4, 8).expect_err("eight samples");
        assert!(said.contains("receiver.window_batches"), "{said}");
        assert!(!said.contains("to 0"), "{said}");
    }
}
