//! Libraries that are opened at run time.

use headwater_inventory::{Library, LoadError};

use crate::doctor::{Check, Patient};

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let inventory = &patient.inventory;
    let (gpu, rdma) = (inventory.has_gpu(), inventory.has_rdma());
    let mut checks = vec![
        verbs(rdma),
        plain(
            "ucx",
            Library::UCX,
            Library::ucx_version,
            false,
            "apt-get install libucx0; it is the second way to rdma, and the one on EFA",
        ),
        plain(
            "cuda driver library",
            Library::CUDA,
            |library| library.cuda_version().map(|version| format!("CUDA {version}")),
            gpu,
            "it comes with NVIDIA's driver; in a container, NVIDIA's runtime mounts it",
        ),
        management(gpu),
        plain(
            "nvrtc",
            Library::NVRTC,
            Library::nvrtc_version,
            gpu,
            "pip install nvidia-cuda-nvrtc, and put its folder `lib` on LD_LIBRARY_PATH; without it \
             the processor augments, unless augment.cuda_cache_dir has the kernels already",
        ),
    ];
    checks.extend(jpeg(gpu));
    checks
}

/// A library and its version.
fn plain(
    check: &str,
    names: &'static [&'static str],
    version: impl FnOnce(&Library) -> Option<String>,
    needed: bool,
    remedy: &str,
) -> Check {
    match Library::open(names) {
        Ok(library) => match version(&library) {
            Some(version) => Check::ok(check, format!("{} {version}", library.name)),
            None => Check::lacking(
                needed,
                check,
                format!("{} does not say its version", library.name),
                remedy,
            ),
        },
        Err(LoadError { names, reason }) => {
            // A file that is there and cannot be opened is never as it should be.
            let broken = !reason.contains("No such file");
            let found = match broken {
                true => reason,
                false => format!("{} is not installed", names[0]),
            };
            Check::lacking(needed || broken, check, found, remedy)
        }
    }
}

fn verbs(needed: bool) -> Check {
    plain(
        "libibverbs",
        Library::IBVERBS,
        |_| Some("is installed".to_owned()),
        needed,
        "apt-get install libibverbs1 ibverbs-providers: the rdma link writes through it",
    )
}

fn management(needed: bool) -> Check {
    let remedy = "it comes with NVIDIA's driver; in a container, NVIDIA's runtime mounts it";
    let check = "nvml";
    let library = match Library::open(Library::NVML) {
        Ok(library) => library,
        Err(error) => return Check::lacking(needed, check, error.to_string(), remedy),
    };
    match library.nvml() {
        Ok(said) => {
            let mut found = format!("driver {}, {} GPUs", said.driver, said.gpus.len());
            if let Some(first) = said.gpus.first() {
                found += &format!(", the first {first}");
            }
            Check::ok(check, found)
        }
        Err(status) => {
            let found = format!("{} is installed and ends with status {status}", library.name);
            Check::lacking(needed, check, found, "load NVIDIA's driver: modprobe nvidia")
        }
    }
}

/// nvJPEG, and its engines where a driver can be asked for them.
fn jpeg(gpu: bool) -> Vec<Check> {
    let remedy = "pip install nvidia-nvjpeg, and put its folder `lib` on LD_LIBRARY_PATH; without \
                  it the processor decodes";
    let check = plain("nvjpeg", Library::NVJPEG, Library::nvjpeg_version, gpu, remedy);
    let mut checks = vec![check];
    let Some(library) = Library::open(Library::NVJPEG).ok().filter(|_| gpu) else { return checks };
    checks.push(match library.jpeg_engines() {
        Ok(found) => Check::ok(
            "jpeg engines",
            format!("{} of {} decoders each", found.engines, found.cores_per_engine),
        ),
        Err(status) => Check::absent(
            "jpeg engines",
            format!("nvJPEG ends with status {status}"),
            "this GPU has none, or another program holds them; nvJPEG then decodes on its cores",
        ),
    });
    checks
}
