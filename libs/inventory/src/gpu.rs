//! NVIDIA GPUs and their driver.

use serde::Serialize;

use crate::pci::{Distance, PciDevice};
use crate::{Machine, RdmaDevice};

const PCI_DEVICES: &str = "/sys/bus/pci/devices";
const VENDOR_NVIDIA: &str = "0x10de";
/// Base class and subclass of VGA and 3D controllers (PCI Code and ID Assignment, 0x03).
const DISPLAY_CLASSES: [&str; 2] = ["0x0300", "0x0302"];

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Where it sits.
    pub pci: PciDevice,
    /// Number of the product, as in `0x2330`.
    pub device: String,
    /// Name of the product, where the driver is loaded.
    pub model: Option<String>,
    /// Driver that has it.
    pub driver: Option<String>,
}

/// NVIDIA's kernel driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NvidiaDriver {
    /// Version, as in `580.65.06`.
    pub version: String,
    /// Whether these are the open kernel modules; only they export memory as dmabuf.
    pub open: bool,
}

// === impl Machine ===

impl Machine {
    /// All NVIDIA GPUs, in the order of their addresses, as CUDA numbers them with
    /// `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    #[must_use]
    pub fn gpus(&self) -> Vec<Gpu> {
        let mut addresses = self.names(PCI_DEVICES);
        addresses.sort(); // Hexadecimal.
        addresses.into_iter().filter_map(|address| self.gpu(&address)).collect()
    }

    /// The GPU that a process calls by this number; `visible` is its `CUDA_VISIBLE_DEVICES`. `None`: there is
    /// no such GPU, or the variable lists GPUs in another way than by number.
    #[must_use]
    pub fn visible_gpu(&self, number: u32, visible: Option<&str>) -> Option<Gpu> {
        self.gpus().into_iter().nth(physical(number, visible)?)
    }

    fn gpu(&self, address: &str) -> Option<Gpu> {
        let folder = format!("{PCI_DEVICES}/{address}");
        let text = |file: &str| self.text(format!("{folder}/{file}"));
        let class = text("class")?;
        let is_display = DISPLAY_CLASSES.iter().any(|display| class.starts_with(display));
        if !is_display || text("vendor")? != VENDOR_NVIDIA {
            return None;
        }
        let information = self.text(format!("/proc/driver/nvidia/gpus/{address}/information"));
        let model = information.as_deref().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
            Some(line.trim().to_owned())
        });
        Some(Gpu {
            pci: PciDevice::of_link(self, &folder)?,
            device: text("device")?,
            model,
            driver: self.target_name(format!("{folder}/driver")),
        })
    }

    /// NVIDIA's driver, if it is loaded.
    #[must_use]
    pub fn nvidia_driver(&self) -> Option<NvidiaDriver> {
        let text = self.text("/proc/driver/nvidia/version")?;
        let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
        let is_version = |word: &&str| {
            word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.')
        };
        let version = line.split_whitespace().find(is_version)?.to_owned();
        Some(NvidiaDriver { version, open: line.contains("Open Kernel Module") })
    }
}

/// Number of a process's GPU among all of the machine.
fn physical(number: u32, visible: Option<&str>) -> Option<usize> {
    let Some(visible) = visible.filter(|list| !list.is_empty()) else {
        return Some(number as usize);
    };
    visible.split(',').nth(number as usize)?.trim().parse().ok()
}

// === impl Gpu ===

impl Gpu {
    /// The RDMA devices with a usable port that are nearest to this GPU, and how near. Several where
    /// they are equally near; none where there is none on PCI.
    #[must_use]
    pub fn nearest<'a>(
        &self,
        devices: &'a [RdmaDevice],
    ) -> Option<(Distance, Vec<&'a RdmaDevice>)> {
        let on_pci = devices.iter().filter(|device| device.usable_ports().next().is_some());
        let far: Vec<(Distance, &RdmaDevice)> = on_pci
            .filter_map(|device| Some((self.pci.distance(device.pci.as_ref()?), device)))
            .collect();
        let nearest = far.iter().map(|(distance, _)| *distance).min()?;
        let devices = far.into_iter().filter(|(distance, _)| *distance == nearest);
        Some((nearest, devices.map(|(_, device)| device).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::physical;

    #[test]
    fn a_process_numbers_the_gpus_that_it_sees() {
        assert_eq!(physical(1, None), Some(1));
        assert_eq!(physical(1, Some("3, 5")), Some(5));
        assert_eq!(physical(2, Some("3,5")), None);
        assert_eq!(physical(0, Some("GPU-2e4b")), None);
    }
}
