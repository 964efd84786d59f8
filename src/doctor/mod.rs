//! Compares this machine with what a configuration needs: one line for each check.
//!
//! Each file judges one kind of thing from an inventory; nothing here is changed or repaired.

mod check;
mod cores;
mod decoded;
mod gpus;
mod libraries;
pub(crate) mod link;
mod memory;
mod nccl;
mod processor;
pub(crate) mod proof;
mod rdma;
pub(crate) mod storage;
pub(crate) mod tiers;

use headwater_augment::BackendChoice;
use headwater_core::Layout;
use headwater_inventory::{Gpu, Machine, NvidiaDriver, RdmaDevice};
use headwater_transport::LinkKind;
use serde::Serialize;

use headwater_config::Config;

pub(crate) use check::{Check, Verdict, gigabytes};
pub(crate) use processor::kernels;

/// What checks look at.
pub(crate) struct Patient<'a> {
    pub(crate) machine: &'a Machine,
    /// Whether the machine is the one that this process runs on.
    pub(crate) is_this: bool,
    pub(crate) config: &'a Config,
    /// A variable of the environment.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Ranks of a training job on this host; `None`: one for each GPU, one at least.
    pub(crate) ranks: Option<u32>,
    pub(crate) inventory: Inventory,
}

/// The devices.
#[derive(Debug, Serialize)]
pub(crate) struct Inventory {
    pub(crate) rdma_devices: Vec<RdmaDevice>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) nvidia_driver: Option<NvidiaDriver>,
}

/// Everything that is checked, in the order in which it is shown.
pub(crate) fn examine(patient: &Patient<'_>) -> Vec<Check> {
    let mut checks = vec![configuration(patient.config)];
    checks.extend(processor::checks(patient));
    checks.extend(cores::checks(patient));
    checks.extend(memory::checks(patient));
    if patient.is_this {
        checks.extend(decoded::checks(patient));
    }
    checks.extend(rdma::checks(patient));
    checks.extend(gpus::checks(patient));
    if patient.is_this {
        // Libraries of a recorded machine are not at hand.
        checks.extend(libraries::checks(patient));
    }
    checks.extend(nccl::checks(patient));
    checks
}

fn configuration(config: &Config) -> Check {
    match config.validate() {
        Ok(()) => Check::ok("configuration", "can be used"),
        Err(error) => {
            let said = headwater_core::error_chain(&error);
            Check::wrong("configuration", said, "correct it; `headwater config` shows what is set")
        }
    }
}

// === impl Inventory ===

impl Inventory {
    pub(crate) fn of(machine: &Machine) -> Self {
        Self {
            rdma_devices: machine.rdma_devices(),
            gpus: machine.gpus(),
            nvidia_driver: machine.nvidia_driver(),
        }
    }

    /// Whether some port can be used.
    pub(crate) fn has_rdma(&self) -> bool {
        self.rdma_devices.iter().any(|device| device.usable_ports().next().is_some())
    }

    /// Whether programs can use a GPU.
    pub(crate) fn has_gpu(&self) -> bool {
        self.nvidia_driver.is_some() && !self.gpus.is_empty()
    }
}

// === impl Patient ===

impl Patient<'_> {
    /// Ranks of a training job on this host.
    pub(crate) fn ranks(&self) -> u64 {
        let gpus = self.inventory.gpus.len().max(1) as u64;
        self.ranks.map_or(gpus, u64::from)
    }

    /// Bytes of all slots of all ranks of this host, at most; `None` where the recipe is no good.
    pub(crate) fn slots_bytes(&self) -> Option<u64> {
        let receiver = &self.config.receiver;
        let recipe = self.config.recipe.recipe().ok()?;
        let slot_bytes = Layout::largest(&recipe, receiver.batch_samples).len_bytes();
        Some(slot_bytes * receiver.window.slots_limit() as u64 * self.ranks())
    }

    /// Whether something is configured that only a GPU does.
    pub(crate) fn asks_for_gpu(&self) -> bool {
        let config = self.config;
        let decodes = config.recipe.recipe().is_ok_and(|recipe| !recipe.decoder.is_turbojpeg());
        decodes
            || config.augment.backend == BackendChoice::Cuda
            || config.receiver.device.device.starts_with("cuda")
    }

    /// Whether a link that needs an RDMA card is the only one that receiver or worker may take.
    pub(crate) fn forces_card(&self) -> bool {
        LinkKind::ALL.into_iter().any(|kind| kind.facts().needs_card && self.forces(kind))
    }

    /// Whether a link is the only one that receiver or worker may take.
    pub(crate) fn forces(&self, kind: LinkKind) -> bool {
        let config = self.config;
        [&config.receiver.links, &config.augment.links].iter().any(|links| *links == &[kind.name()])
    }
}
