//! Memory for slots, limits on locking it, huge pages, open files.

use headwater_inventory::Limits;
use headwater_transport::LinkKind;

use crate::doctor::{Check, Patient, gigabytes};

/// Descriptors of a process that are not counted separately: listeners, logs, gRPC.
const OTHER_FILES: u64 = 256;

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let limits = patient.machine.limits();
    let limits = limits.iter().flat_map(|limits| {
        [locked_memory(patient, limits), open_files(patient, limits)].into_iter().flatten()
    });
    slots(patient).into_iter().chain(limits).chain(huge_pages(patient)).collect()
}

/// Whether the slots of all ranks of this host have room.
fn slots(patient: &Patient<'_>) -> Option<Check> {
    let wanted = patient.slots_bytes()?;
    let free = patient.machine.available_bytes()?;
    Some(room(wanted, free, patient))
}

fn room(wanted: u64, free: u64, patient: &Patient<'_>) -> Check {
    let check = "memory of slots";
    let receiver = &patient.config.receiver;
    let (ranks, slots) = (patient.ranks(), receiver.window.slots_limit());
    let found = format!(
        "{} free; {ranks} ranks x {slots} slots x {} samples take {}",
        gigabytes(free),
        receiver.batch_samples,
        gigabytes(wanted)
    );
    if free >= wanted {
        return Check::ok(check, found);
    }
    Check::wrong(
        check,
        found,
        "lower receiver.slots_max or batch_samples, or run fewer ranks on this host",
    )
}

/// RDMA locks the memory that it registers: at least all slots of a process's ranks.
fn locked_memory(patient: &Patient<'_>, limits: &Limits) -> Option<Check> {
    // A limit holds for a process, and a process has one receiver.
    let wanted = patient.slots_bytes()? / patient.ranks();
    let limit = limits.locked_bytes.soft.map_or("no limit".to_owned(), gigabytes);
    let privileged = if limits.may_lock_all { ", and the privilege to pass it" } else { "" };
    let found = format!("{limit}{privileged}; a rank's slots are {}", gigabytes(wanted));
    if limits.may_lock_all || limits.locked_bytes.allows(wanted) {
        return Some(Check::ok("locked memory", found));
    }
    let needed = patient.inventory.has_rdma() || patient.forces_card();
    if !needed {
        return Some(Check::ok("locked memory", found + ", which only rdma would lock"));
    }
    Some(Check::wrong(
        "locked memory",
        found,
        "raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity of the service, `--ulimit \
         memlock=-1` of the container, or the capability IPC_LOCK",
    ))
}

/// The largest number that one process of any tier may have open. Each raises its limit as far as it may.
fn open_files(patient: &Patient<'_>, limits: &Limits) -> Option<Check> {
    let config = patient.config;
    let storage = config.storage.reads.open_shards_max as u64;
    let augment = config.augment.descriptors() as u64;
    let wanted = storage.max(augment) + OTHER_FILES;
    let limit = limits.open_files;
    let hard = limit.hard.map_or("no limit".to_owned(), |hard| hard.to_string());
    let found = format!("{hard}; a process may open {wanted}");
    Some(match limit.may_allow(wanted) {
        true => Check::ok("open files", found),
        false => Check::wrong(
            "open files",
            found,
            format!(
                "raise it: `ulimit -Hn {wanted}` or LimitNOFILE of the service; or lower \
                 storage.open_shards_max and augment.sessions_max"
            ),
        ),
    })
}

fn needs_shared_slots(link: &str) -> bool {
    LinkKind::from_name(link).is_some_and(|kind| kind.facts().needs_shared_slots)
}

/// First kernel that moves pages to huge ones when it is asked to (MADV_COLLAPSE), whatever its policy.
const COLLAPSES_SINCE: (u32, u32) = (6, 1);

/// Whether slots get huge pages if the configuration asks for them.
fn huge_pages(patient: &Patient<'_>) -> Option<Check> {
    let receiver = &patient.config.receiver;
    let asked = receiver.window.huge_pages;
    let Some(pages) = patient.machine.huge_pages() else {
        let remedy = "the kernel gives none; set receiver.huge_pages = false";
        return Some(Check::lacking(asked, "huge pages", "no policy in sysfs", remedy));
    };
    let shared = receiver.links.iter().any(|link| needs_shared_slots(link));
    let (policy, file, word) = match shared {
        true => (&pages.shared, "shmem_enabled", "advise"),
        false => (&pages.private, "enabled", "madvise"),
    };
    let collapses =
        patient.machine.kernel().is_some_and(|kernel| kernel.version >= COLLAPSES_SINCE);
    let found = format!(
        "policy `{policy}` for slots, {}given on request; {} reserved pages, which slots do not use",
        if collapses && policy != "deny" { "" } else { "not " },
        pages.reserved
    );
    let refused = policy == "deny" || (policy == "never" && !collapses);
    if !refused {
        let used = if asked { "" } else { "; receiver.huge_pages is off" };
        return Some(Check::ok("huge pages", found + used));
    }
    if !asked {
        return Some(Check::ok("huge pages", found + "; receiver.huge_pages is off"));
    }
    let remedy = format!("echo {word} > /sys/kernel/mm/transparent_hugepage/{file}");
    Some(Check::wrong("huge pages", found, remedy))
}
