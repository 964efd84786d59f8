//! Where batches are handed out, and how they come there.

use headwater_config_derive::Section;
use headwater_core::Dtype;
use headwater_transport::LinkKind;
use serde::{Deserialize, Serialize};

use crate::error::ReceiverError;

/// Where batches are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// In the host's memory.
    Cpu,
    /// In the memory of the GPU of this number.
    Cuda(u32),
}

/// Whether the network card of the `rdma` link writes to the GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuDirect {
    /// Where it can.
    Auto,
    /// It must: the receiver does not open otherwise.
    On,
    /// No: batches are copied from the host's memory.
    Off,
}

/// Where batches are delivered, and how they get there.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct DeviceConfig {
    /// Where batches are delivered: `cpu`, or `cuda:0` and so on for a GPU's memory. A GPU needs
    /// one batch's bytes for each slot.
    #[key(default = "cpu".into())]
    pub device: String,
    /// Type to which `u8` image tensors are normalised on that GPU: `bf16`, `f16` or `f32`; empty:
    /// they are not changed.
    pub u8_as: String,
    /// Whether the NIC of the `rdma` link writes to that GPU's memory (GPUDirect RDMA): `auto`: if
    /// it can; `on`: otherwise the receiver does not open; `off`: batches are copied there. The
    /// default is `off` until a real NIC has been tested.
    #[key(default = GpuDirect::Off)]
    pub gpudirect: GpuDirect,
    /// Folder for the compiled kernel that normalises; empty: one in the user's cache folder.
    pub cuda_cache_dir: String,
}

// === impl DeviceConfig ===

impl DeviceConfig {
    /// Where batches are handed out.
    ///
    /// # Errors
    /// A device that is not known.
    pub fn parsed(&self) -> Result<Device, ReceiverError> {
        if self.device == "cpu" {
            return Ok(Device::Cpu);
        }
        let number = self.device.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        number.map(Device::Cuda).ok_or_else(|| ReceiverError::Config {
            key: "device",
            value: format!("\"{}\"", self.device),
            rule: "must be \"cpu\", or \"cuda:0\" and so on",
        })
    }

    /// What levels of images become on a GPU.
    ///
    /// # Errors
    /// A type that they cannot become.
    pub fn u8_as(&self) -> Result<Option<Dtype>, ReceiverError> {
        if self.u8_as.is_empty() {
            return Ok(None);
        }
        let known = [Dtype::Bf16, Dtype::F16, Dtype::F32];
        let named = known.into_iter().find(|dtype| dtype.name() == self.u8_as);
        named.map(Some).ok_or_else(|| ReceiverError::Config {
            key: "u8_as",
            value: format!("\"{}\"", self.u8_as),
            rule: "is \"bf16\", \"f16\", \"f32\" or empty",
        })
    }

    /// Whether these keys go together, and with the links.
    pub(super) fn check(&self, links: &[LinkKind]) -> Result<(), ReceiverError> {
        let wrong = |key, value, rule| Err(ReceiverError::Config { key, value, rule });
        let on_cpu = self.parsed()? == Device::Cpu;
        if on_cpu && self.u8_as()?.is_some() {
            let rule = "is done on a GPU: name it in receiver.device, or leave this out";
            return wrong("u8_as", format!("\"{}\"", self.u8_as), rule);
        }
        if self.gpudirect != GpuDirect::On {
            return Ok(());
        }
        let on = || "\"on\"".to_owned();
        if on_cpu {
            let rule = "has cards write to a GPU: name it in receiver.device, or leave this out";
            return wrong("gpudirect", on(), rule);
        }
        if !links.iter().any(|kind| kind.facts().writes_by_card()) {
            let rule =
                "needs a link in receiver.links that writes to a GPU's memory, as \"rdma\" does";
            return wrong("gpudirect", on(), rule);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(device: &str, links: &[&str], gpudirect: GpuDirect) -> Option<String> {
        let config = DeviceConfig { device: device.into(), gpudirect, ..DeviceConfig::default() };
        let links: Vec<_> = links.iter().filter_map(|name| LinkKind::from_name(name)).collect();
        config.check(&links).err().map(|error| error.to_string())
    }

    #[test]
    fn what_must_go_to_a_gpu_needs_one_and_a_link_that_can() {
        let all = ["shm", "rdma", "tcp"];
        let said = refusal("cpu", &all, GpuDirect::On).expect("a refusal");
        assert!(said.starts_with("receiver.gpudirect is \"on\"") && said.contains("device"));
        for links in [&["tcp"][..], &["ucx", "tcp"], &["shm"], &["cuda"]] {
            let said = refusal("cuda:0", links, GpuDirect::On).expect("a refusal");
            assert!(said.contains("receiver.links") && said.contains("\"rdma\""), "{said}");
            assert_eq!(refusal("cuda:0", links, GpuDirect::Auto), None);
        }
        assert_eq!(refusal("cuda:0", &all, GpuDirect::On), None);
        assert_eq!(refusal("cpu", &all, GpuDirect::Auto), None);
    }
}
