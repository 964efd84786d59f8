//! NCCL's variables: the values in the job files of a topology, and the values here.

use crate::doctor::{Check, Inventory, Patient};

/// Machines whose GPUs talk by NVLink across hosts, by the names of their GPUs.
const RACKS: [&str; 2] = ["GB200", "GB300"];

/// A topology for which `slurm/` has a job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    /// A rack of one NVLink domain.
    Nvl72,
    /// NVLink within a host, RDMA cards on PCIe between hosts.
    Pcie,
}

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let Some(topology) = topology(&patient.inventory) else {
        if patient.inventory.gpus.is_empty() {
            return Vec::new();
        }
        let found = "no RDMA device beside the GPUs: between hosts NCCL takes sockets";
        let remedy = "nothing is to be set here";
        return vec![Check::absent("nccl", found, remedy)];
    };
    let settings = settings(topology.job_file());
    settings.map(|(name, wanted)| setting(patient, topology, name, wanted)).collect()
}

fn setting(patient: &Patient<'_>, topology: Topology, name: &str, wanted: &str) -> Check {
    let file = topology.name();
    match (patient.variable)(name) {
        Some(value) if value.trim() == wanted => {
            Check::ok(name, format!("{wanted}, as for {file}"))
        }
        Some(value) if topology.is_free(name) => {
            Check::ok(name, format!("{value}; {file} has {wanted}"))
        }
        Some(value) => Check::wrong(
            name,
            format!("is {value}; {file} has {wanted}"),
            format!("export {name}={wanted}; slurm/{file}.env says why"),
        ),
        None => Check::absent(
            name,
            format!("not set here; {file} has {wanted}"),
            format!("export {name}={wanted} for the ranks, or start them with slurm/{file}.env"),
        ),
    }
}

fn topology(inventory: &Inventory) -> Option<Topology> {
    let models = || inventory.gpus.iter().filter_map(|gpu| gpu.model.as_deref());
    if models().any(|model| RACKS.iter().any(|rack| model.contains(rack))) {
        return Some(Topology::Nvl72);
    }
    (!inventory.gpus.is_empty() && inventory.has_rdma()).then_some(Topology::Pcie)
}

/// The variables of NCCL that a job file sets, with their values: lines `: "${NAME:=VALUE}"`.
fn settings(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.lines().filter_map(|line| {
        let inner = line.strip_prefix(": \"${")?.split_once('}')?.0;
        inner.split_once(":=").filter(|(name, _)| name.starts_with("NCCL_"))
    })
}

// === impl Topology ===

impl Topology {
    /// Name of its job file.
    const fn name(self) -> &'static str {
        match self {
            Self::Nvl72 => "nvl72",
            Self::Pcie => "b200-pcie",
        }
    }

    const fn job_file(self) -> &'static str {
        match self {
            Self::Nvl72 => include_str!("../../slurm/nvl72.env"),
            Self::Pcie => include_str!("../../slurm/b200-pcie.env"),
        }
    }

    /// Whether a site may choose another value than the job file's without harm.
    fn is_free(self, name: &str) -> bool {
        const SITE: [&str; 4] =
            ["NCCL_IB_HCA", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT"];
        self == Self::Pcie && SITE.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_files_hold_what_is_to_be_set() {
        let nvl72: Vec<_> = settings(Topology::Nvl72.job_file()).collect();
        for pair in [("NCCL_IB_DISABLE", "1"), ("NCCL_NVLS_ENABLE", "1"), ("NCCL_PROTO", "LL128")] {
            assert!(nvl72.contains(&pair), "{pair:?} not in {nvl72:?}");
        }
        let pcie: Vec<_> = settings(Topology::Pcie.job_file()).collect();
        assert!(pcie.contains(&("NCCL_NET", "IB")), "{pcie:?}");
        assert!(!pcie.iter().any(|(name, _)| *name == "NCCL_PROTO"));
    }
}
