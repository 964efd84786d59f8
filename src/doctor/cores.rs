//! The cores that the tiers' threads are to run on.

use headwater_augment::AugmentConfig;
use headwater_inventory::Cores;
use headwater_receiver::ReceiverConfig;

use crate::doctor::{Check, Patient};

/// Which GPUs a process sees, in the order of its own numbers: CUDA's variable.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let config = patient.config;
    let link_settings = || config.links.clone();
    let augment = AugmentConfig { link_settings: link_settings(), ..config.augment.clone() };
    let receiver = ReceiverConfig { link_settings: link_settings(), ..config.receiver.clone() };
    // What a recorded machine's processes may use is not known.
    let allowed = if patient.is_this { Cores::of_this_thread() } else { Cores::default() };
    let visible = (patient.variable)(VISIBLE);
    let tiers = [
        (
            "cores of a worker",
            &augment.cpus,
            augment.cores(patient.machine, &allowed, visible.as_deref()),
        ),
        (
            "cores of a receiver",
            &receiver.cpus,
            receiver.cores(patient.machine, &allowed, visible.as_deref()),
        ),
    ];
    tiers.into_iter().filter_map(|(name, key, cores)| check(name, key, cores)).collect()
}

/// `None`: the configuration names no cores.
fn check(name: &str, key: &str, cores: Result<Option<Cores>, String>) -> Option<Check> {
    match cores {
        Ok(None) => None,
        Ok(Some(cores)) => Some(Check::ok(name, format!("`{key}`: {cores}"))),
        Err(reason) => {
            let remedy =
                "list cores that this process may use; `lscpu` shows those of each NUMA node";
            Some(Check::wrong(name, format!("`{key}`: {reason}"), remedy))
        }
    }
}
