//! Libraries that exist and cannot be used count as absent: the program says what is wrong with the
//! file and goes on without it, or refuses to start where it is forced to use it.
//!
//! The libraries are empty ones, as a failed installation leaves behind.

use std::path::Path;
use std::process::{Command, Output};

use headwater_core::recipe::JpegDecoder;
use headwater_core::{Dtype, Recipe};
use headwater_dylib::{CUDA_DRIVER, Dylib, IBVERBS, NVJPEG, NVML, NVRTC, UCX};
use headwater_receiver::{DatasetUse, Receiver, ReceiverConfig};

use crate::emulation;
use crate::gpu_run::photo;
use crate::support;
use crate::support::fleet::Fleet;

/// A folder with an empty library under each name of these.
fn empty(libraries: &[Dylib]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for soname in libraries.iter().flat_map(|library| library.sonames) {
        let status = Command::new("cc")
            .args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(folder.path().join(soname))
            .status()
            .expect("a C compiler");
        assert!(status.success(), "{soname} does not build");
    }
    folder
}

fn path(folders: &[&Path]) -> String {
    let folders: Vec<&str> = folders.iter().map(|f| f.to_str().expect("text")).collect();
    folders.join(":")
}

/// The program with these libraries before the system's.
fn headwater(libraries: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(arguments)
        .current_dir(folder.path())
        .env("LD_LIBRARY_PATH", libraries)
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .expect("the program starts")
}

/// The start of a worker that is forced to use something is refused with these words.
#[track_caller]
fn refuses_to_start(libraries: &str, setting: &str, words: &[&str]) {
    let arguments = ["--set", setting, "augment", "--listen", "127.0.0.1:0", "--threads", "1"];
    let output = headwater(libraries, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{setting}: {said}");
    assert!(!said.contains("panicked"), "{setting}: {said}");
    for word in words {
        assert!(said.contains(word), "{setting}: no `{word}` in {said}");
    }
}

/// The first batch of a fleet whose only worker has this environment.
fn first_batch(fleet: &mut Fleet) -> headwater_core::Digest {
    let config = ReceiverConfig { batch_samples: 4, ..fleet.config() };
    let receiver = Fleet::open(config);
    let batch = receiver.next_batch().expect("a batch").expect("one at least");
    batch.digest().expect("on the host")
}

#[test]
fn a_worker_without_a_usable_driver_renders_on_the_processor_and_says_why() {
    let libraries = empty(&[CUDA_DRIVER, NVRTC, NVJPEG, IBVERBS, UCX]);
    let mut fleet = Fleet::start(support::data("photos/photos-000003.tar"), 1);
    let expected = first_batch(&mut fleet);
    fleet.worker(0).kill();
    fleet.surround(&[("LD_LIBRARY_PATH", &path(&[libraries.path()]))]);
    fleet.restart_worker(0, "");
    assert!(first_batch(&mut fleet) == expected);
    let log = fleet.worker(0).log();
    assert!(!log.contains("panicked"), "{log}");
    for word in ["the GPU cannot be used: the processor renders", "libcuda.so: it has no cu"] {
        assert!(log.contains(word), "no `{word}` in {log}");
    }
    let words = ["augment.backend is `cuda`", "the NVIDIA driver", "libcuda.so: it has no cu"];
    refuses_to_start(&path(&[libraries.path()]), "augment.backend=cuda", &words);
}

#[test]
fn a_worker_without_a_usable_compiler_of_kernels_says_so() {
    let libraries = empty(&[NVRTC]);
    let folders = path(&[libraries.path(), &emulation::cuda().join("driver")]);
    let words = ["augment.backend is `cuda`", "NVRTC", "libnvrtc.so.13: it has no nvrtc"];
    refuses_to_start(&folders, "augment.backend=cuda", &words);
}

#[test]
fn a_worker_without_a_usable_jpeg_decoder_refuses_recipes_that_ask_for_it() {
    let libraries = empty(&[NVJPEG]);
    let mut fleet = Fleet::without_workers(support::data("photos/photos-000003.tar"));
    fleet.surround(&[("LD_LIBRARY_PATH", &path(&[libraries.path(), emulation::cuda()]))]);
    fleet.add_worker("backend = \"cuda\"\ncuda_memory_bytes = 67108864");
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    let recipe = Recipe { decoder: JpegDecoder::Nvjpeg, ..recipe };
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    let receiver = Receiver::open(fleet.config(), recipe, &[dataset]);
    let ended = receiver.and_then(|receiver| receiver.next_batch().map(drop));
    let error = ended.expect_err("no worker can").to_string();
    for word in ["nvJPEG", "libnvjpeg.so.13: it has no nvjpegCreateEx"] {
        assert!(error.contains(word), "no `{word}` in {error}: {}", fleet.worker(0).log());
    }
}

#[test]
fn a_link_that_is_forced_and_whose_library_cannot_be_used_is_refused() {
    let libraries = empty(&[IBVERBS, UCX]);
    let folder = path(&[libraries.path()]);
    let words = ["libibverbs cannot be used", "libibverbs.so.1: it has no ibv_"];
    refuses_to_start(&folder, "augment.links=rdma", &words);
    let words = ["UCX (libucp.so) cannot be used", "libucp.so.0: it has no "];
    refuses_to_start(&folder, "augment.links=ucx", &words);
}

#[test]
fn the_doctor_finds_each_library_that_cannot_be_used_wrong() {
    let libraries = empty(&[CUDA_DRIVER, NVRTC, NVJPEG, NVML, IBVERBS, UCX]);
    let output = headwater(&path(&[libraries.path()]), &["doctor", "--batch", "1"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for check in ["libibverbs", "ucx", "cuda driver library", "nvml", "nvrtc", "nvjpeg"] {
        let wrong = said.lines().any(|line| line.starts_with(&format!("wrong   {check}: lib")));
        assert!(wrong, "{check} is not wrong: {said}");
    }
}

/// cudarc panics at a function that the driver lacks, so each function that is called has to be among
/// those that are looked for before the first call. The system's loader tells which were called.
#[test]
fn every_function_of_the_driver_that_is_called_is_looked_for_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["bench", "gpu", "--only", "receiver,back-end", "--images", "1", "--rounds", "1"])
        .args(["--seconds", "1", "--photos"])
        .arg(photo().path())
        .env("LD_LIBRARY_PATH", emulation::cuda())
        .env("HEADWATER_AUGMENT__CUDA_MEMORY_BYTES", "67108864")
        .env("HEADWATER_AUGMENT__THREADS", "1")
        .env("HEADWATER_AUGMENT__CUDA_CACHE_DIR", folder.path().join("cubin"))
        .env("LD_DEBUG", "bindings")
        .env("LD_DEBUG_OUTPUT", folder.path().join("bindings"))
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut called = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("one")) {
        let name = file.file_name().into_string().expect("text");
        if name.starts_with("bindings.") {
            let text = std::fs::read_to_string(file.path()).expect("a text");
            called.extend(text.lines().filter_map(driver_function));
        }
    }
    let known = headwater_cuda::DRIVER_FUNCTIONS;
    let unknown: Vec<&String> = called.iter().filter(|name| !known.contains(&&***name)).collect();
    assert!(called.contains("cuInit"), "{called:?}");
    assert_eq!(unknown, [""; 0], "add them to DRIVER_FUNCTIONS of libs/cuda");
}

/// ``binding file .../libcuda.so [0] to .../libcuda.so [0]: normal symbol `cuInit'``: the loader names
/// the library itself as the one that asked. The emulated driver calls its own functions directly.
fn driver_function(line: &str) -> Option<String> {
    let (_, to) = line.split_once(" to ")?;
    let (file, symbol) = to.split_once(": normal symbol `")?;
    let symbol = symbol.split('\'').next()?;
    let is_of_driver = file.contains("libcuda.so") && symbol.starts_with("cu");
    is_of_driver.then(|| symbol.to_owned())
}
