//! Which cores the receiver's threads run on.

use std::panic::resume_unwind;
use std::thread;

use headwater_inventory::{Cores, CoresWanted, Machine};

use super::cards::{VISIBLE, near_cards};
use super::{Device, ReceiverConfig};
use crate::error::ReceiverError;

// === impl ReceiverConfig ===

impl ReceiverConfig {
    /// The cores for the receiver's own threads; `None`: they stay where the calling thread is. What was chosen
    /// is logged.
    ///
    /// # Errors
    /// `receiver.cpus` is no list of cores, or this process may run on none of them.
    pub(crate) fn own_cores(&self) -> Result<Option<Cores>, ReceiverError> {
        let visible = std::env::var(VISIBLE).ok();
        match self.cores(&Machine::this(), &Cores::of_this_thread(), visible.as_deref()) {
            Ok(cores) => {
                if let Some(cores) = &cores {
                    tracing::info!(%cores, "the receiver's threads run on these cores");
                }
                Ok(cores)
            }
            Err(reason) if self.wanted_cores()? == CoresWanted::Near => {
                tracing::warn!(reason, "receiver.cpus is `auto`, but threads stay where they are");
                Ok(None)
            }
            Err(reason) => {
                tracing::error!(reason, "the cores of receiver.cpus cannot be used");
                Err(self.wrong_cpus("names no core that this process may run on (taskset -p)"))
            }
        }
    }

    /// Which of the `allowed` cores of a machine `receiver.cpus` asks for; `visible`: the process's
    /// `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn cores(
        &self,
        machine: &Machine,
        allowed: &Cores,
        visible: Option<&str>,
    ) -> Result<Option<Cores>, String> {
        let wanted: CoresWanted = self.cpus.parse()?;
        wanted.among(allowed, || {
            let (name, node) = self.nearest_device(machine, allowed, visible)?;
            machine.cores_near(&name, node)
        })
    }

    pub(super) fn wanted_cores(&self) -> Result<CoresWanted, ReceiverError> {
        let rule = "must be a list of cores such as 0-7,16, or `auto`, or empty";
        self.cpus.parse().map_err(|_| self.wrong_cpus(rule))
    }

    fn wrong_cpus(&self, rule: &'static str) -> ReceiverError {
        ReceiverError::Config { key: "cpus", value: format!("\"{}\"", self.cpus), rule }
    }

    /// The device that batches go to, and its NUMA node: the rank's GPU, else its card.
    fn nearest_device(
        &self,
        machine: &Machine,
        allowed: &Cores,
        visible: Option<&str>,
    ) -> Result<(String, Option<u32>), String> {
        let device = self.device.parsed().ok();
        if let Some(Device::Cuda(number)) = device
            && let Some(gpu) = machine.visible_gpu(number, visible)
        {
            return Ok((format!("GPU {}", gpu.pci.address), gpu.pci.numa_node));
        }
        let wanted = match self.link_settings.card() {
            Some(name) => name.to_owned(),
            None => {
                let near = near_cards(machine, device, visible, allowed, self.rank);
                near.into_iter().next().ok_or("there is neither a GPU nor an RDMA device")?
            }
        };
        let found = machine.rdma_devices().into_iter().find(|device| device.name == wanted);
        let found = found.ok_or_else(|| format!("there is no RDMA device {wanted}"))?;
        Ok((found.name, found.pci.and_then(|pci| pci.numa_node)))
    }
}

/// Does `work` on a thread that is kept to `cores`; on this one without any. A thread that `work` starts is kept to
/// them too, and memory that it touches first is on their NUMA node. The calling thread is the trainer's, and
/// stays where it is.
pub(crate) fn on_cores<T: Send>(cores: Option<&Cores>, work: impl FnOnce() -> T + Send) -> T {
    let Some(cores) = cores else { return work() };
    thread::scope(|scope| {
        let kept = || {
            keep_to(cores);
            work()
        };
        scope.spawn(kept).join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Keeps a thread of the receiver to `cores`.
pub(crate) fn keep_to(cores: &Cores) {
    if let Err(error) = cores.bind_this_thread() {
        tracing::warn!(%cores, %error, "a thread of the receiver cannot have its cores");
    }
}

#[cfg(test)]
mod tests {
    use headwater_inventory::trees::{DGX_H100, ROCE, unpack};

    use super::super::DeviceConfig;
    use super::*;

    fn cores(tree: &str, config: &ReceiverConfig, allowed: &str) -> Result<Option<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = unpack(tree, folder.path()).expect("a tree");
        let found = config.cores(&machine, &allowed.parse().expect("cores"), Some("1,7"));
        Ok(found?.map(|cores| cores.to_string()))
    }

    fn config(cpus: &str, device: &str) -> ReceiverConfig {
        let device = DeviceConfig { device: device.to_owned(), ..DeviceConfig::default() };
        let cpus = cpus.to_owned();
        ReceiverConfig { cpus, device, ..ReceiverConfig::default() }
    }

    #[test]
    fn auto_is_near_the_ranks_gpu_or_its_card() {
        let of = |device: &str| cores(DGX_H100, &config("auto", device), "0-223");
        assert_eq!(of("cuda:0"), Ok(Some("0-55,112-167".into())), "GPU 1 of the machine");
        assert_eq!(of("cuda:1"), Ok(Some("56-111,168-223".into())), "GPU 7 of the machine");
        let card = cores(ROCE, &config("auto", "cpu"), "32-95");
        assert_eq!(card, Ok(Some("64-95".into())), "the card's node, as far as it is allowed");
        assert!(cores(ROCE, &config("auto", "cpu"), "0-31").unwrap_err().contains("64-127"));
        assert_eq!(cores(ROCE, &config("", "cpu"), "0-31"), Ok(None));
        assert_eq!(cores(ROCE, &config("0-3", "cpu"), "2-31"), Ok(Some("2-3".into())));
    }

    #[test]
    fn a_list_of_cores_is_checked() {
        let refused = config("7-0", "cpu").validate().unwrap_err().to_string();
        assert!(refused.starts_with("receiver.cpus is \"7-0\": must be a list"), "{refused}");
        let refused = config("1023", "cpu").own_cores().unwrap_err().to_string();
        assert!(refused.contains("may run on"), "{refused}");
    }

    #[test]
    fn only_the_receivers_own_thread_is_kept_to_its_cores() {
        let all = Cores::of_this_thread();
        let text = all.to_string();
        let first = text.split(['-', ',']).next().unwrap_or_default().parse().expect("a core");
        let started = || thread::spawn(Cores::of_this_thread).join().expect("cores");
        assert_eq!(on_cores(Some(&first), started), first);
        assert_eq!(Cores::of_this_thread(), all, "the caller stays where it was");
    }
}
