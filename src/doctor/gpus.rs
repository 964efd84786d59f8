//! GPUs, their driver, the RDMA device nearest to each, and how cards reach their memory.

use headwater_inventory::{Distance, Gpu, NvidiaDriver};

use crate::doctor::{Check, Patient};

/// First kernel with dmabuf for RDMA (`ib_umem_dmabuf_get`).
const KERNEL_WITH_DMABUF: (u32, u32) = (5, 12);
/// The module that lets RDMA cards register GPU memory.
const PEER_MODULE: &str = "nvidia_peermem";

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let gpus = &patient.inventory.gpus;
    if gpus.is_empty() {
        // If nothing asks for a GPU, a missing one is not reported.
        let asked = patient.asks_for_gpu();
        let remedy = "show it to the container, or set augment.backend and receiver.device to cpu \
                      and recipe.decoder to turbojpeg";
        return asked
            .then(|| Check::wrong("gpu", "no NVIDIA GPU on PCI", remedy))
            .into_iter()
            .collect();
    }
    let mut checks = vec![driver(patient.inventory.nvidia_driver.as_ref())];
    for gpu in gpus {
        checks.push(of_gpu(gpu));
        checks.extend(nearest(patient, gpu));
    }
    checks.extend(peer_memory(patient));
    checks
}

fn driver(driver: Option<&NvidiaDriver>) -> Check {
    match driver {
        Some(NvidiaDriver { version, open }) => {
            let kind = if *open { "open" } else { "proprietary" };
            Check::ok("gpu driver", format!("{version}, {kind} kernel modules"))
        }
        None => Check::wrong(
            "gpu driver",
            "there is a GPU and no /proc/driver/nvidia",
            "install NVIDIA's driver, or load it: modprobe nvidia",
        ),
    }
}

fn of_gpu(gpu: &Gpu) -> Check {
    let check = format!("gpu {}", gpu.pci.address);
    let model = gpu.model.clone().unwrap_or_else(|| format!("product {}", gpu.device));
    let numa = gpu.pci.numa_node.map_or(String::new(), |node| format!(", NUMA node {node}"));
    let found = format!("{model}{numa}");
    match gpu.driver.as_deref() {
        Some("nvidia") => Check::ok(check, found),
        Some(other) => {
            let remedy = "unbind it and give it to NVIDIA's driver";
            Check::wrong(check, format!("{found}, held by driver {other}"), remedy)
        }
        None => {
            let remedy = "modprobe nvidia; the kernel's log says what stands in its way";
            Check::wrong(check, format!("{found}, without a driver"), remedy)
        }
    }
}

/// Which RDMA device writes to a GPU with the fewest detours.
fn nearest(patient: &Patient<'_>, gpu: &Gpu) -> Option<Check> {
    let (distance, devices) = gpu.nearest(&patient.inventory.rdma_devices)?;
    let check = format!("rdma nearest to gpu {}", gpu.pci.address);
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let found = format!("{} ({distance})", names.join(", "));
    Some(match distance {
        Distance::System => Check::absent(
            check,
            found,
            "writes to its memory would cross from one CPU to the other: let this rank receive \
             into host memory",
        ),
        _ => Check::ok(check, found),
    })
}

/// Whether RDMA cards can write to the memory of GPUs at all.
fn peer_memory(patient: &Patient<'_>) -> Option<Check> {
    if !patient.inventory.has_rdma() {
        return None;
    }
    let driver = patient.inventory.nvidia_driver.as_ref()?;
    let kernel = patient.machine.kernel();
    let new_enough = kernel.as_ref().is_some_and(|kernel| kernel.version >= KERNEL_WITH_DMABUF);
    let release = kernel.map_or("an unknown kernel".to_owned(), |kernel| kernel.text);
    let modules = if driver.open { "open" } else { "proprietary" };
    let dmabuf = driver.open && new_enough;
    let by_module = patient.machine.has_module(PEER_MODULE);
    let found = |way: &str| format!("{way} (kernel {release}, {modules} kernel modules)");
    Some(match (dmabuf, by_module) {
        (true, true) => Check::ok("gpu peer memory", found("dmabuf and nvidia_peermem")),
        (true, false) => Check::ok("gpu peer memory", found("dmabuf")),
        (false, true) => Check::ok("gpu peer memory", found("nvidia_peermem")),
        (false, false) => Check::absent(
            "gpu peer memory",
            found("neither dmabuf nor nvidia_peermem"),
            "modprobe nvidia_peermem, or install the driver with open kernel modules on Linux 5.12 \
             or later; until then batches go through pinned host memory",
        ),
    })
}
