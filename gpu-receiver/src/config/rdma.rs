//! Which port the `rdma` link takes, and the class of its packets.

use headwater_inventory::{Machine, RdmaDevice};
use headwater_transport::rdma::RdmaPort;

use super::{Device, ReceiverConfig};
use crate::error::ReceiverError;

/// Which GPUs a process sees, in the order of its own numbers: CUDA's variable.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

// === impl ReceiverConfig ===

impl ReceiverConfig {
    /// The RDMA port of this end, on this machine.
    #[must_use]
    pub fn rdma_port(&self) -> RdmaPort {
        let preferred = match self.rdma_device.is_empty() {
            true => {
                let visible = std::env::var(VISIBLE).ok();
                near_cards(&Machine::this(), self.device().ok(), visible.as_deref(), self.rank)
            }
            false => Vec::new(),
        };
        RdmaPort {
            device: self.rdma_device.clone(),
            preferred,
            gid_index: u8::try_from(self.rdma_gid_index).ok(),
            pkey: self.rdma_pkey,
            traffic_class: self.rdma_traffic_class,
            service_level: self.rdma_service_level,
        }
    }

    pub(super) fn check_rdma(&self) -> Result<(), ReceiverError> {
        let wrong = |key, value, rule| Err(ReceiverError::Config { key, value, rule });
        if !(-1..=255).contains(&self.rdma_gid_index) {
            return wrong("rdma_gid_index", self.rdma_gid_index.to_string(), "is -1 or an index");
        }
        if self.rdma_service_level > 15 {
            let value = self.rdma_service_level.to_string();
            return wrong("rdma_service_level", value, "must be from 0 to 15");
        }
        Ok(())
    }
}

/// Names of the fastest cards among those that are nearest to the rank's GPU, or of all where it has none
/// or it is not known which; each rank begins with another.
fn near_cards(
    machine: &Machine,
    device: Option<Device>,
    visible: Option<&str>,
    rank: u32,
) -> Vec<String> {
    let devices = machine.rdma_devices();
    let gpus = machine.gpus();
    let gpu = match device {
        Some(Device::Cuda(number)) => physical(number, visible).and_then(|at| gpus.get(at)),
        _ => None,
    };
    let near = gpu.and_then(|gpu| gpu.nearest(&devices)).map(|(_, near)| near);
    let near = near.unwrap_or_else(|| devices.iter().filter(|device| is_usable(device)).collect());
    let fastest = near.iter().map(|device| rate(device)).fold(0.0, f64::max);
    let mut names: Vec<String> = near
        .into_iter()
        .filter(|device| rate(device) >= fastest)
        .map(|device| device.name.clone())
        .collect();
    if !names.is_empty() {
        let first = rank as usize % names.len();
        names.rotate_left(first);
    }
    names
}

/// Number of a process's GPU among all of the machine; `None`: the variable names it otherwise.
fn physical(number: u32, visible: Option<&str>) -> Option<usize> {
    let Some(visible) = visible.filter(|list| !list.is_empty()) else {
        return Some(number as usize);
    };
    visible.split(',').nth(number as usize)?.trim().parse().ok()
}

fn is_usable(device: &RdmaDevice) -> bool {
    device.usable_ports().next().is_some()
}

/// In 1e9 bits per second, of its fastest port.
fn rate(device: &RdmaDevice) -> f64 {
    device.usable_ports().filter_map(|port| port.rate_gbit).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_numbers_the_gpus_that_it_sees() {
        assert_eq!(physical(1, None), Some(1));
        assert_eq!(physical(1, Some("3, 5")), Some(5));
        assert_eq!(physical(2, Some("3,5")), None);
        assert_eq!(physical(0, Some("GPU-2e4b")), None);
    }

    #[test]
    fn a_service_level_has_four_bits() {
        let mut config = ReceiverConfig { rdma_service_level: 15, ..ReceiverConfig::default() };
        config.check_rdma().expect("the last");
        config.rdma_service_level = 16;
        let said = config.check_rdma().unwrap_err().to_string();
        assert!(said.contains("rdma_service_level") && said.contains("from 0 to 15"), "{said}");
    }
}
