//! Which cores the worker's threads run on.

use std::collections::BTreeMap;

use headwater_inventory::{Cores, CoresWanted, Machine};

use super::{AugmentConfig, BackendChoice};
use crate::error::AugmentError;

/// Which GPUs a process sees, in the order of its own numbers: CUDA's variable.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

// === impl AugmentConfig ===

impl AugmentConfig {
    /// Keeps the calling thread, and all threads that it starts from now on, to the cores of `augment.cpus`. To
    /// be called before the worker's threads are started: they then touch the worker's memory first, so that the
    /// kernel takes it from the NUMA node of these cores. What was chosen is logged. `None`: the threads stay
    /// where they are.
    ///
    /// # Errors
    /// The key is no list of cores, or this process may run on none of them.
    pub fn keep_to_cpus(&self) -> Result<Option<Cores>, AugmentError> {
        let visible = std::env::var(VISIBLE).ok();
        let (machine, allowed) = (Machine::this(), Cores::of_this_thread());
        let chosen = match self.cores(&machine, &allowed, visible.as_deref()) {
            Ok(chosen) => chosen,
            Err(reason) if self.wanted_cores()? == CoresWanted::Near => {
                tracing::warn!(reason, "augment.cpus is `auto`, but threads stay where they are");
                None
            }
            Err(rule) => return Err(self.wrong_cpus(rule)),
        };
        let Some(cores) = chosen else { return Ok(None) };
        cores.bind_this_thread().map_err(|error| self.wrong_cpus(error.to_string()))?;
        tracing::info!(%cores, "the worker's threads run on these cores");
        Ok(Some(cores))
    }

    /// Which of the `allowed` cores of a machine `augment.cpus` asks for; `visible`: the process's
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
            let (name, node) = self.nearest_device(machine, visible)?;
            machine.cores_near(&name, node)
        })
    }

    pub(super) fn wanted_cores(&self) -> Result<CoresWanted, AugmentError> {
        self.cpus.parse().map_err(|_| {
            self.wrong_cpus("must be a list of cores such as 0-7,16, or `auto`, or empty".into())
        })
    }

    fn wrong_cpus(&self, rule: String) -> AugmentError {
        AugmentError::Config { key: "cpus", value: self.cpus.clone(), rule }
    }

    /// The device that most bytes go to, and its NUMA node: the GPU that renders, else the card.
    fn nearest_device(
        &self,
        machine: &Machine,
        visible: Option<&str>,
    ) -> Result<(String, Option<u32>), String> {
        if self.backend != BackendChoice::Cpu
            && let Some(gpu) = machine.visible_gpu(self.cuda.cuda_device, visible)
        {
            return Ok((format!("GPU {}", gpu.pci.address), gpu.pci.numa_node));
        }
        let devices = machine.rdma_devices();
        if let Some(wanted) = self.link_settings.card() {
            let named = devices.iter().find(|device| device.name == wanted);
            let named = named.ok_or_else(|| format!("there is no RDMA device {wanted}"))?;
            let node = named.pci.as_ref().and_then(|pci| pci.numa_node);
            return Ok((named.name.clone(), node));
        }
        let usable = devices.iter().filter(|device| device.usable_ports().next().is_some());
        let nodes: BTreeMap<Option<u32>, &str> = usable
            .filter_map(|device| Some((device.pci.as_ref()?.numa_node, device.name.as_str())))
            .collect();
        let mut found = nodes.iter();
        match (found.next(), found.next()) {
            (None, _) => Err("there is neither a GPU that renders nor an RDMA device".to_owned()),
            (Some((node, name)), None) => Ok(((*name).to_owned(), *node)),
            (Some(_), Some(_)) => {
                let names = nodes.values().copied().collect::<Vec<_>>().join(" and ");
                Err(format!(
                    "{names} are on different NUMA nodes: name one in links.rdma_device, or list cores"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_inventory::trees::{ROCE, unpack};
    use headwater_transport::links::LinksConfig;

    use super::super::CudaConfig;
    use super::*;

    fn cores(config: &AugmentConfig, allowed: &str) -> Result<Option<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = unpack(ROCE, folder.path()).expect("a tree");
        let found = config.cores(&machine, &allowed.parse().expect("cores"), None);
        Ok(found?.map(|cores| cores.to_string()))
    }

    fn config(cpus: &str) -> AugmentConfig {
        AugmentConfig {
            cpus: cpus.to_owned(),
            backend: BackendChoice::Cpu,
            ..AugmentConfig::default()
        }
    }

    #[test]
    fn auto_is_near_the_gpu_that_renders_or_the_card() {
        assert_eq!(cores(&config(""), "0-127"), Ok(None));
        assert_eq!(
            cores(&config("auto"), "100-127"),
            Ok(Some("100-127".into())),
            "the card that is up"
        );
        let named = |device: &str| AugmentConfig {
            link_settings: LinksConfig { rdma_device: device.into(), ..LinksConfig::default() },
            ..config("auto")
        };
        let node = cores(&named("mlx5_1:1"), "0-127");
        assert_eq!(node, Ok(Some("64-127".into())), "the one that is named");
        let renders = |cuda_device| AugmentConfig {
            backend: BackendChoice::Cuda,
            cuda: CudaConfig { cuda_device, ..CudaConfig::default() },
            ..config("auto")
        };
        let of = |number| cores(&renders(number), "0-127").expect("cores").expect("near it");
        assert_eq!([of(0), of(1)], ["64-127", "0-63"]);
        assert!(cores(&config("auto"), "0-63").unwrap_err().contains("64-127"));
        assert!(cores(&named("mlx5_7"), "0-127").unwrap_err().contains("mlx5_7"));
    }

    #[test]
    fn a_list_of_cores_is_checked() {
        let refused = config("0-7,x").validate().unwrap_err().to_string();
        assert!(refused.starts_with("augment.cpus is `0-7,x`: must be a list"), "{refused}");
        config("0-7,16").validate().expect("a list");
        let error = config("1023").keep_to_cpus().unwrap_err().to_string();
        assert!(error.contains("this process may run on"), "{error}");
    }

    #[test]
    fn threads_that_are_started_afterwards_run_on_the_same_cores() {
        let kept = std::thread::spawn(|| {
            let allowed = Cores::of_this_thread().to_string();
            let first = allowed.split(['-', ',']).next().unwrap_or_default();
            let kept = config(first).keep_to_cpus().expect("a core of this process");
            let inherited = std::thread::spawn(Cores::of_this_thread).join().expect("cores");
            (kept, inherited, config("").threads())
        });
        let (kept, inherited, threads) = kept.join().expect("kept");
        assert_eq!((kept, threads), (Some(inherited), 1), "one core, so one thread renders");
    }
}
