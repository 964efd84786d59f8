//! Where devices sit: the tree of PCI bridges, and how far two devices are apart in it.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::Machine;

/// A device's place among the machine's PCI bridges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PciDevice {
    /// Address, as in `0000:1b:00.0`.
    pub address: String,
    /// The host bridge and every PCI bridge from there to the device.
    pub bridges: Vec<String>,
    /// NUMA node, where the firmware says it.
    pub numa_node: Option<u32>,
}

/// What lies between two devices; the nearer the smaller. In brackets the word that
/// `nvidia-smi topo` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// Nothing but this many bridges of PCIe switches (PIX, PXB): they can talk past the CPU.
    Switch {
        /// Bridges on the way from one to the other.
        bridges: usize,
    },
    /// The CPU's own host bridge (PHB).
    HostBridge,
    /// Several host bridges of one NUMA node (NODE).
    NumaNode,
    /// The link between NUMA nodes (SYS), or it is not known.
    System,
}

// === impl PciDevice ===

impl PciDevice {
    /// The device that a link such as `/sys/class/infiniband/mlx5_0/device` leads to; `None` where
    /// it is no PCI device.
    pub(crate) fn of_link(machine: &Machine, link: impl AsRef<Path>) -> Option<Self> {
        let path = machine.target(link)?;
        let components = path.components().filter_map(|part| part.as_os_str().to_str());
        let mut bridges: Vec<String> = components
            .filter(|part| is_host(part) || is_address(part))
            .map(str::to_owned)
            .collect();
        let address = bridges.pop().filter(|last| is_address(last))?;
        let numa_node: Option<i32> = machine.number(path.join("numa_node"));
        let numa_node = numa_node.and_then(|node| u32::try_from(node).ok()); // -1: not known.
        Some(Self { address, bridges, numa_node })
    }

    /// How far another device is.
    #[must_use]
    pub fn distance(&self, other: &Self) -> Distance {
        let common = self.bridges.iter().zip(&other.bridges).take_while(|(a, b)| a == b).count();
        match common {
            // The first is the host bridge; one below it that both share is a switch.
            2.. => {
                let apart = |device: &Self| device.bridges.len() - common;
                Distance::Switch { bridges: apart(self) + apart(other) }
            }
            1 => Distance::HostBridge,
            _ if self.numa_node.is_some() && self.numa_node == other.numa_node => {
                Distance::NumaNode
            }
            _ => Distance::System,
        }
    }
}

/// A host bridge's folder, as in `pci0000:15`.
fn is_host(part: &str) -> bool {
    part.starts_with("pci") && part.contains(':')
}

/// Domain, bus, device and function.
fn is_address(part: &str) -> bool {
    let fields: Vec<&str> = part.split([':', '.']).collect();
    let lengths: Vec<usize> = fields.iter().map(|field| field.len()).collect();
    matches!(lengths[..], [4 | 5, 2, 2, 1])
        && fields.iter().all(|field| field.chars().all(|c| c.is_ascii_hexdigit()))
}

// === impl Distance ===

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch { bridges } => write!(f, "same PCIe switch, {bridges} bridges between"),
            Self::HostBridge => f.write_str("across the CPU's host bridge"),
            Self::NumaNode => f.write_str("across host bridges of one NUMA node"),
            Self::System => f.write_str("across NUMA nodes"),
        }
    }
}
