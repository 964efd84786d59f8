//! Libraries that are opened at run time.

use headwater_core::pluralize;
use headwater_dylib::{CUDA_DRIVER, Dylib, NVJPEG, NVML, NVRTC};
use headwater_inventory::Library;
use headwater_transport::LinkKind;
use headwater_transport::links::LinkLibrary;

use crate::doctor::{Check, Patient, Verdict};

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let inventory = &patient.inventory;
    let (gpu, rdma) = (inventory.has_gpu(), inventory.has_rdma());
    // A library that this configuration does not use may be missing. One that cannot be opened is
    // reported.
    let mut checks = for_links(patient, rdma);
    let forced = libraries().any(|(kind, _)| patient.forces(kind));
    if inventory.rdma_devices.is_empty() && !forced {
        checks.retain(|check| check.verdict != Verdict::Absent);
    }
    let mut of_gpus = for_gpu(gpu);
    if inventory.gpus.is_empty() && !patient.asks_for_gpu() {
        of_gpus.retain(|check| check.verdict != Verdict::Absent);
    }
    checks.extend(of_gpus);
    checks
}

/// Libraries that links open.
fn libraries() -> impl Iterator<Item = (LinkKind, &'static LinkLibrary)> {
    LinkKind::ALL.into_iter().filter_map(|kind| Some((kind, kind.facts().library.as_ref()?)))
}

fn for_links(patient: &Patient<'_>, rdma: bool) -> Vec<Check> {
    let check = |(kind, library): (LinkKind, &LinkLibrary)| {
        let needed = patient.forces(kind) || (rdma && kind.facts().needs_card);
        plain(library.name, library.dylib, library.version, needed, library.remedy)
    };
    libraries().map(check).collect()
}

fn for_gpu(gpu: bool) -> Vec<Check> {
    let mut checks = vec![
        plain(
            "cuda driver library",
            &CUDA_DRIVER,
            |library| library.cuda_version().map(|version| format!("CUDA {version}")),
            gpu,
            "it comes with NVIDIA's driver; in a container, NVIDIA's runtime mounts it",
        ),
        management(gpu),
        compiler(gpu),
    ];
    checks.extend(jpeg(gpu));
    checks
}

/// The compiler of kernels. As in the program, it must make machine code that the driver accepts.
fn compiler(gpu: bool) -> Check {
    let remedy = "pip install nvidia-cuda-nvrtc, and put its folder `lib` on LD_LIBRARY_PATH; without it \
                  the processor augments, unless augment.cuda_cache_dir has the kernels already";
    match headwater_cuda::check_nvrtc() {
        Err(error) if !error.is_absent() => Check::wrong("nvrtc", error.reason(), remedy),
        _ => plain("nvrtc", &NVRTC, Library::nvrtc_version, gpu, remedy),
    }
}

/// A library and its version.
fn plain(
    check: &str,
    dylib: &Dylib,
    version: impl FnOnce(&Library) -> Option<String>,
    needed: bool,
    remedy: &str,
) -> Check {
    match Library::open(dylib) {
        Ok(library) => match version(&library) {
            Some(version) => Check::ok(check, format!("{} {version}", library.soname())),
            None => not_the_library(check, &library, remedy),
        },
        // A file that exists and cannot be opened is never as it should be.
        Err(error) if !error.is_absent() => Check::wrong(check, error.reason(), remedy),
        Err(_) => {
            let found = format!("{} is not installed", dylib.sonames.join(" or "));
            Check::lacking(needed, check, found, remedy)
        }
    }
}

/// A file of the right name without the library's functions.
fn not_the_library(check: &str, library: &Library, remedy: &str) -> Check {
    let found = format!("{} lacks the library's functions", library.soname());
    Check::wrong(check, found, remedy)
}

fn management(needed: bool) -> Check {
    let remedy = "it comes with NVIDIA's driver; in a container, NVIDIA's runtime mounts it";
    let check = "nvml";
    let library = match Library::open(&NVML) {
        Ok(library) => library,
        Err(error) => return Check::lacking(needed, check, error.to_string(), remedy),
    };
    if !library.has("nvmlInit_v2") {
        return not_the_library(check, &library, remedy);
    }
    match library.nvml() {
        Ok(said) => {
            let mut found = format!("driver {}, {} GPUs", said.driver, said.gpus.len());
            if let Some(first) = said.gpus.first() {
                found += &format!(", the first {first}");
            }
            Check::ok(check, found)
        }
        Err(status) => {
            let found = format!("{} is installed and ends with status {status}", library.soname());
            Check::lacking(needed, check, found, "load NVIDIA's driver: modprobe nvidia")
        }
    }
}

/// nvJPEG, and its engines where a driver can be asked for them.
fn jpeg(gpu: bool) -> Vec<Check> {
    let remedy = "pip install nvidia-nvjpeg, and put its folder `lib` on LD_LIBRARY_PATH; without \
                  it the processor decodes";
    let check = plain("nvjpeg", &NVJPEG, Library::nvjpeg_version, gpu, remedy);
    let mut checks = vec![check];
    let Some(library) = Library::open(&NVJPEG).ok().filter(|_| gpu) else { return checks };
    checks.push(match library.jpeg_engines() {
        Ok(found) => Check::ok(
            "jpeg engines",
            format!(
                "{}, each with {}",
                pluralize(found.engines, "engine"),
                pluralize(found.cores_per_engine, "core")
            ),
        ),
        Err(status) => Check::absent(
            "jpeg engines",
            format!("nvJPEG ends with status {status}"),
            "this GPU has none, or another program holds them; nvJPEG then decodes on its cores",
        ),
    });
    checks
}
