//! The machine that was measured, and whether others used it meanwhile.

use std::num::NonZeroUsize;
use std::thread;

use headwater_inventory::{GroupLimits, Interface, Machine, ProcessorTicks};
use serde::Serialize;

use crate::bench::cpu::ticks_with_children;
use crate::doctor::kernels;

/// Load at the start above which the machine is said to be in use, for each core.
const LOAD_MAX: f64 = 0.25;
/// Share of the processor that other programs may take meanwhile.
const OTHERS_MAX: f64 = 0.05;

/// A machine. What could not be read is null.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Description {
    pub(crate) processor: Option<String>,
    /// Logical cores.
    pub(crate) cores: usize,
    /// Cores that this process may use: its affinity and its container's limit.
    pub(crate) usable_cores: usize,
    /// The augment tier's kernels for this processor.
    pub(crate) kernels: &'static str,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) available_bytes: Option<u64>,
    /// What a container allows.
    pub(crate) limits: GroupLimits,
    pub(crate) kernel: Option<String>,
    pub(crate) gpus: Vec<String>,
    pub(crate) nvidia_driver: Option<String>,
    pub(crate) interfaces: Vec<Interface>,
    /// Ports, as in `mlx5_0 port 1: InfiniBand, 400 Gbit/s, ACTIVE`.
    pub(crate) rdma: Vec<String>,
    /// Processes that ran or waited for a core in the minute before.
    pub(crate) load_at_start: Option<f64>,
    /// Share of all cores' time that other programs took while it was measured.
    pub(crate) others_share: Option<f64>,
}

/// Looks at the processor from a moment on.
pub(crate) struct Watch {
    machine: ProcessorTicks,
    own: u64,
}

// === impl Description ===

impl Description {
    /// Describes a machine; cores that may be used are this process's.
    pub(crate) fn of(machine: &Machine) -> Self {
        let processor = machine.processor();
        let gpus = machine.gpus().into_iter().map(|gpu| gpu.model.unwrap_or(gpu.device));
        Self {
            cores: processor.as_ref().map_or(0, |processor| processor.cores),
            usable_cores: thread::available_parallelism().map_or(1, NonZeroUsize::get),
            kernels: processor.as_ref().map_or("plain", kernels),
            processor: processor.and_then(|processor| processor.model),
            memory_bytes: machine.total_bytes(),
            available_bytes: machine.available_bytes(),
            limits: machine.group_limits(),
            kernel: machine.kernel().map(|kernel| kernel.text),
            gpus: gpus.collect(),
            nvidia_driver: machine.nvidia_driver().map(|driver| driver.version),
            interfaces: machine.interfaces(),
            rdma: rdma(machine),
            load_at_start: machine.load(),
            others_share: None,
        }
    }

    /// Why the machine may be faster than its figures; `None` if nothing else ran.
    pub(crate) fn trouble(&self) -> Option<String> {
        let cores = self.usable_cores;
        let load = self.load_at_start.filter(|load| *load > LOAD_MAX * cores as f64);
        let others = self.others_share.filter(|share| *share > OTHERS_MAX);
        let load =
            load.map(|load| format!("the load was {load:.1} at the start, on {cores} cores"));
        let others = others.map(|share| {
            let percent = 100.0 * share;
            format!("other programs took {percent:.0} % of the processor during the measurements")
        });
        let both: Vec<String> = load.into_iter().chain(others).collect();
        (!both.is_empty()).then(|| both.join(", and "))
    }
}

fn rdma(machine: &Machine) -> Vec<String> {
    let devices = machine.rdma_devices().into_iter();
    let ports = devices.flat_map(|device| {
        device.ports.into_iter().map(move |port| {
            let rate = port.rate_gbit.map_or_else(String::new, |rate| format!("{rate} Gbit/s, "));
            let (name, number) = (&device.name, port.number);
            format!("{name} port {number}: {}, {rate}{}", port.link_layer, port.state)
        })
    });
    ports.collect()
}

// === impl Watch ===

impl Watch {
    /// Begins now; `None` where the kernel does not say what its cores do.
    pub(crate) fn begin(machine: &Machine) -> Option<Self> {
        Some(Self { machine: machine.processor_ticks()?, own: ticks_with_children().ok()? })
    }

    /// Share of all cores' time since then that neither this process nor its children took.
    pub(crate) fn others_share(&self, machine: &Machine) -> Option<f64> {
        let (now, own) = (machine.processor_ticks()?, ticks_with_children().ok()?);
        others(self.machine, now, own.saturating_sub(self.own))
    }
}

fn others(before: ProcessorTicks, now: ProcessorTicks, own: u64) -> Option<f64> {
    let busy = now.busy.saturating_sub(before.busy);
    let all = busy + now.idle.saturating_sub(before.idle);
    (all > 0).then(|| busy.saturating_sub(own) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use headwater_inventory::trees;

    use super::*;

    #[test]
    fn a_recorded_machine_is_described() {
        let folder = tempfile::tempdir().unwrap();
        let described = Description::of(&trees::unpack(trees::DGX_H100, folder.path()).unwrap());
        assert_eq!(described.gpus.len(), 8);
        assert_eq!(described.gpus[0], "NVIDIA H100 80GB HBM3");
        assert_eq!(described.nvidia_driver.as_deref(), Some("535.161.08"));
        assert_eq!(described.rdma[0], "mlx5_0 port 1: InfiniBand, 400 Gbit/s, ACTIVE");
    }

    #[test]
    fn a_machine_is_in_use_above_a_load_or_where_others_take_its_time() {
        let idle = Description {
            usable_cores: 8,
            load_at_start: Some(1.9),
            others_share: Some(0.04),
            ..Description::default()
        };
        assert_eq!(idle.trouble(), None);
        let loaded = Description { load_at_start: Some(2.1), ..idle.clone() };
        assert_eq!(loaded.trouble().as_deref(), Some("the load was 2.1 at the start, on 8 cores"));
        let shared = Description { others_share: Some(0.31), ..idle };
        assert!(shared.trouble().is_some_and(|why| why.contains("took 31 % of the processor")));
    }

    #[test]
    fn what_is_its_own_is_not_others() {
        let before = ProcessorTicks { busy: 100, idle: 100 };
        let now = ProcessorTicks { busy: 160, idle: 140 };
        assert_eq!(others(before, now, 40), Some(0.2));
        assert_eq!(others(before, now, 70), Some(0.0));
        assert_eq!(others(before, before, 0), None);
    }
}
