//! A worker with a GPU, which CUDA's emulated driver is: the very program takes its path on a GPU.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use headwater_core::{Digest, Dtype, Recipe};
use headwater_receiver::{DatasetUse, Receiver, ReceiverConfig};
use rustix::process::Signal;

use crate::emulation;
use crate::support;
use crate::support::fleet::{Fleet, Node};

/// Configuration of a worker that has to take a GPU.
const CUDA: &str = "backend = \"cuda\"\ncuda_memory_bytes = 67108864";
const ENDS: Duration = Duration::from_secs(60);

/// The `dinov2` recipe in small: an emulated GPU takes its time.
fn recipe() -> Recipe {
    let mut recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
    for tensor in &mut recipe.tensors {
        (tensor.height, tensor.width) = (tensor.height / 4, tensor.width / 4);
    }
    recipe
}

/// One epoch from one worker: the digest of each batch, and samples of all of them.
fn epoch(fleet: &mut Fleet, worker: usize) -> (Vec<Digest>, u64) {
    let links = fleet.config().links;
    epoch_over(links, fleet, worker)
}

/// The same over these links.
fn epoch_over(links: Vec<String>, fleet: &mut Fleet, worker: usize) -> (Vec<Digest>, u64) {
    let workers = vec![fleet.worker(worker).address.clone()];
    let config = ReceiverConfig { workers, links, batch_samples: 8, ..fleet.config() };
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    let receiver = Receiver::open(config, recipe(), &[dataset]).expect("a receiver");
    let (mut digests, mut samples) = (Vec::new(), 0);
    while let Some(batch) = receiver.next_batch().expect("a batch") {
        digests.push(batch.digest().expect("on the host"));
        samples += batch.samples().len() as u64;
    }
    assert!(samples > 30, "an epoch of {samples} samples");
    (digests, samples)
}

/// A node's counter over all labels, 0 where it has not counted yet.
fn counter(node: &Node, name: &str) -> u64 {
    node.counter(name, "")
}

/// Waits until `samples` samples have been counted as delivered, which is after they are.
fn delivered(node: &Node, samples: u64) {
    let end = Instant::now() + ENDS;
    while counter(node, "headwater_augment_samples_total") < samples {
        assert!(Instant::now() < end, "fewer than {samples} samples: {}", node.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Without workers, over a shard with images of every kind.
fn fleet() -> Fleet {
    Fleet::without_workers(support::data("photos/photos-000003.tar"))
}

/// Workers that are started from now on find the emulated libraries, and these variables.
fn emulate(fleet: &mut Fleet, libraries: &Path, variables: &[(&str, &str)]) {
    let libraries = libraries.to_str().expect("text");
    let tally = ("EMULATED_CUDA_TALLY", "1");
    fleet.surround(&[&[("LD_LIBRARY_PATH", libraries), tally], variables].concat());
}

/// Lines of `[augment]` for a GPU whose compiled kernels are kept in the fleet's folder.
fn cuda(fleet: &Fleet) -> String {
    format!("{CUDA}\ncuda_cache_dir = \"{}\"", fleet.dir().join("kernels").display())
}

/// Asks a worker to end; what it logged.
fn ended(node: &mut Node) -> String {
    node.signal(Signal::TERM);
    assert_eq!(node.wait(ENDS), Some(0), "{}", node.log());
    node.log()
}

#[test]
fn a_worker_with_a_gpu_makes_the_processors_bytes_and_leaves_nothing_on_it() {
    let mut fleet = fleet();
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let reference = epoch(&mut fleet, cpu);
    let settings = cuda(&fleet);
    // The second start has no compiler: kernels come from the cache.
    let libraries = emulation::cuda().to_owned();
    let starts: [(_, &[_]); 2] =
        [(libraries.join("driver"), &[("EMULATED_CUDA", "eager")]), (libraries, &[])];
    for (libraries, variables) in starts.into_iter().rev() {
        emulate(&mut fleet, &libraries, variables);
        let gpu = fleet.add_worker(&settings);
        assert!(epoch(&mut fleet, gpu) == reference, "{variables:?}: other batches");
        let worker = fleet.worker(gpu);
        delivered(worker, reference.1);
        let on_device = counter(worker, "headwater_augment_samples_on_device_total");
        assert!(on_device >= reference.1, "{on_device} of {}: {}", reference.1, worker.log());
        assert_eq!(counter(worker, "headwater_augment_samples_beside_device_total"), 0);
        let written = counter(worker, "headwater_augment_samples_written_by_device_total");
        assert_eq!(
            written, 0,
            "slots are the receiver's: a GPU may write longer than a worker lives"
        );
        let log = ended(worker);
        assert!(log.contains("cuda Emulated GPU"), "{log}");
        let nothing = "at the context's release: 0 device allocations, 0 pinned, 0 streams, 0 \
                       events, 0 unfinished operations";
        assert!(log.contains(nothing), "{log}");
    }
}

/// Checksums are compared over a network: those of rows that nobody on the host has written.
#[test]
fn a_gpu_writes_rows_to_a_workers_own_memory_by_itself() {
    let mut fleet = fleet();
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let reference = epoch(&mut fleet, cpu);
    for more in ["cuda_decode = \"host\"", "cuda_decode = \"device\""] {
        let settings = format!("{}\n{more}", cuda(&fleet));
        emulate(&mut fleet, emulation::cuda(), &[]);
        let gpu = fleet.add_worker(&settings);
        for _ in 0..2 {
            let taken = epoch_over(vec!["tcp".to_owned()], &mut fleet, gpu);
            assert!(taken == reference, "{more}: other batches");
        }
        let worker = fleet.worker(gpu);
        delivered(worker, 2 * reference.1);
        let on_device = counter(worker, "headwater_augment_samples_on_device_total");
        let written = counter(worker, "headwater_augment_samples_written_by_device_total");
        assert!(written == on_device && written >= 2 * reference.1, "{written}: {}", worker.log());
        let log = ended(worker);
        let nothing =
            "at the context's release: 0 device allocations, 0 pinned, 0 streams, 0 events";
        assert!(log.contains(nothing), "{log}");
    }
}

/// In the first epoch nothing is known of images: kernels find where decoding can begin. In the second one nothing is
/// looked for again.
#[test]
fn a_worker_whose_gpu_decodes_makes_the_processors_bytes_from_the_first_epoch_on() {
    let mut fleet = fleet();
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let reference = epoch(&mut fleet, cpu);
    let settings = format!("{}\ncuda_decode = \"device\"", cuda(&fleet));
    emulate(&mut fleet, emulation::cuda(), &[]);
    let gpu = fleet.add_worker(&settings);
    let decoded = |fleet: &mut Fleet| {
        assert!(epoch_over(vec!["tcp".to_owned()], fleet, gpu) == reference, "other batches");
        let counted = |way| {
            let label = format!("way=\"{way}\"");
            fleet.worker(gpu).counter("headwater_augment_jpeg_images_total", &label)
        };
        ["device", "device_found"].map(counted)
    };
    let first = decoded(&mut fleet);
    assert!(first[1] > 30 && first[0] < 8, "{first:?} of {}", reference.1);
    let both = decoded(&mut fleet);
    assert_eq!(both[1], first[1], "found again");
    assert_eq!(both[0] - first[0], first[0] + first[1], "as many in the second epoch");
    let worker = fleet.worker(gpu);
    assert_eq!(counter(worker, "headwater_augment_device_failures_total"), 0);
    assert_eq!(counter(worker, "headwater_augment_samples_beside_device_total"), 0);
    ended(worker);
}

/// The shard with bits of its baseline JPEGs turned to ones, from the middle of each tenth one on: no code begins so.
fn with_damaged_jpegs(to: &Path) {
    let mut shard =
        tar::Archive::new(File::open(support::data("photos/photos-000003.tar")).expect("a shard"));
    let mut damaged = tar::Builder::new(File::create(to).expect("a file"));
    let mut jpegs = 0;
    for member in shard.entries().expect("a shard") {
        let mut member = member.expect("a member");
        let header = member.header().clone();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).expect("a member");
        jpegs += usize::from(bytes.starts_with(&[0xff, 0xd8]));
        if bytes.starts_with(&[0xff, 0xd8]) && jpegs % 10 == 5 {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 8].copy_from_slice(&[0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0]);
        }
        damaged.append(&header, &bytes[..]).expect("a member");
    }
    damaged.finish().expect("a shard");
}

/// Their views are made and written a second time, those of the other images of their parts are not.
#[test]
fn images_that_kernels_leave_are_rendered_again_in_their_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let shard = folder.path().join("photos-000000.tar");
    with_damaged_jpegs(&shard);
    let mut fleet = Fleet::without_workers(&shard);
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let reference = epoch(&mut fleet, cpu);
    let settings = cuda(&fleet);
    emulate(&mut fleet, emulation::cuda(), &[]);
    for links in [vec!["tcp".to_owned()], fleet.config().links] {
        let gpu = fleet.add_worker(&settings);
        assert!(
            epoch_over(links.clone(), &mut fleet, gpu) == reference,
            "{links:?}: other batches"
        );
        let worker = fleet.worker(gpu);
        delivered(worker, reference.1);
        let left = worker.counter("headwater_augment_jpeg_left_total", "reason=\"damage\"");
        assert!(left > 1, "{left} images are damaged: {}", worker.log());
        let on_device = counter(worker, "headwater_augment_samples_on_device_total");
        assert!(on_device >= reference.1, "{on_device} of {}", reference.1);
        assert_eq!(counter(worker, "headwater_augment_device_failures_total"), 0);
        ended(fleet.worker(gpu));
    }
}

#[test]
fn a_gpu_that_decodes_otherwise_is_refused_where_it_is_to_decode() {
    let mut fleet = fleet();
    let wrong = ("EMULATED_NVRTC_REPLACE", "x % 2 == 0 ? 8 : 7=>x % 2 == 0 ? 8 : 8");
    let forced = ["augment.backend=cuda", "augment.cuda_decode=device"];
    let (code, said) = refused(&mut fleet, emulation::cuda(), &[wrong], &forced);
    assert_eq!(code, Some(1), "{said}");
    let named =
        "Emulated GPU: its proof failed: `decode JPEGs` gives other bytes than the processor";
    assert!(said.contains(named), "{said}");
}

#[test]
fn a_gpu_that_fails_in_mid_epoch_costs_no_byte_and_is_counted() {
    let mut fleet = fleet();
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let reference = epoch(&mut fleet, cpu);
    let settings = cuda(&fleet);
    let calls = ["cuLaunchKernel:12", "cuMemcpyDtoHAsync:3", "cuEventSynchronize:4"];
    // Over tcp the GPU writes rows and their checksums to the worker's memory by itself.
    let runs = calls.map(|call| (fleet.config().links, call));
    let tcp = || vec!["tcp".to_owned()];
    for (links, call) in runs.into_iter().chain([(tcp(), "cuEventSynchronize:4")]) {
        // Counted from the end of the proof's stream on.
        let after = ("EMULATED_CUDA_FAIL_AFTER", "cuStreamDestroy");
        emulate(&mut fleet, emulation::cuda(), &[("EMULATED_CUDA_FAIL", call), after]);
        let gpu = fleet.add_worker(&settings);
        assert!(epoch_over(links, &mut fleet, gpu) == reference, "{call}: other batches");
        let worker = fleet.worker(gpu);
        assert_eq!(counter(worker, "headwater_augment_device_failures_total"), 1, "{call}");
        let on_device = counter(worker, "headwater_augment_samples_on_device_total");
        assert!(on_device > 0 && on_device < reference.1, "{call}: {on_device}");
        let log = ended(worker);
        assert!(log.contains("the device failed: it is given up"), "{log}");
        assert!(log.contains("unspecified launch failure"), "{call}: {log}");
    }
}

/// `headwater augment` that does not come to listen: its exit code and what it said.
fn refused(
    fleet: &mut Fleet,
    libraries: &Path,
    variables: &[(&str, &str)],
    settings: &[&str],
) -> (Option<i32>, String) {
    let storage = fleet.storage().address.clone();
    let cache = tempfile::tempdir().expect("a folder");
    let cache = format!("augment.cuda_cache_dir={}", cache.path().display());
    let always = ["augment.listen=127.0.0.1:0", "augment.cuda_memory_bytes=67108864", &cache];
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    for setting in always.iter().chain(settings) {
        command.args(["--set", setting]);
    }
    command.args(["augment", "--storage", &storage]);
    command.env("LD_LIBRARY_PATH", libraries).envs(variables.iter().copied());
    let output = command.output().expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_gpu_that_cannot_be_had_is_refused_by_name() {
    let (mut fleet, libraries) = (fleet(), emulation::cuda());
    let forced = "augment.backend=cuda";
    for (variables, named) in [
        (("EMULATED_NVRTC_FAIL", "1"), "the kernels do not compile for sm_90"),
        (("EMULATED_CUDA_MEMORY_BYTES", "1048576"), "augment.cuda_memory_bytes"),
        (("EMULATED_CUDA_FAIL", "cuModuleLoadData:1"), "GPU 0: load kernels: unspecified launch"),
        (("EMULATED_CUDA_FAIL", "cuMemHostAlloc:1:2"), "GPU 0: pin memory: out of memory"),
        (("EMULATED_CUDA_CAPABILITY", "7.0"), "has architecture sm_70, but the kernels need sm_75"),
    ] {
        let (code, said) = refused(&mut fleet, libraries, &[variables], &[forced]);
        assert_eq!(code, Some(1), "{variables:?}: {said}");
        for words in ["augment.backend is `cuda`, but ", named] {
            assert!(said.contains(words), "{variables:?}: {said}");
        }
    }
    let (code, said) = refused(&mut fleet, libraries, &[], &[forced, "augment.cuda_device=1"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("GPU 1: open it: invalid device ordinal"), "{said}");
}

/// A blur that rounds otherwise: nothing fails, and every byte would be within one level.
#[test]
fn a_gpu_that_makes_other_bytes_is_refused_where_it_is_forced_and_left_alone_where_it_is_not() {
    let mut fleet = fleet();
    let wrong =
        ("EMULATED_NVRTC_REPLACE", "const f32 level = rintf(sum)=>const f32 level = truncf(sum)");
    let named =
        "Emulated GPU: its proof failed: `gaussian_blur` gives other bytes than the processor";
    let (code, said) = refused(&mut fleet, emulation::cuda(), &[wrong], &["augment.backend=cuda"]);
    assert_eq!(code, Some(1), "{said}");
    for words in ["augment.backend is `cuda`, but cuda ", named] {
        assert!(said.contains(words), "{said}");
    }

    let cpu = fleet.add_worker("backend = \"cpu\"");
    let reference = epoch(&mut fleet, cpu);
    let settings = cuda(&fleet).replace("\"cuda\"", "\"auto\"");
    emulate(&mut fleet, emulation::cuda(), &[wrong]);
    let auto = fleet.add_worker(&settings);
    assert!(epoch(&mut fleet, auto) == reference, "other batches");
    let log = ended(fleet.worker(auto));
    for said in ["the GPU cannot be used: the processor renders", named, "back end backend=\"cpu "]
    {
        assert!(log.contains(said), "no `{said}` in {log}");
    }
    let nothing = "at the context's release: 0 device allocations, 0 pinned, 0 streams, 0 events";
    assert!(log.contains(nothing), "{log}");
}

/// A machine with a driver and without NVRTC.
#[test]
fn without_nvrtc_a_gpu_is_refused_where_it_is_forced_and_left_alone_where_it_is_not() {
    let mut fleet = fleet();
    let driver = emulation::cuda().join("driver");
    let (code, said) = refused(&mut fleet, &driver, &[], &["augment.backend=cuda"]);
    if said.contains("device kernel image is invalid") {
        return eprintln!("SKIP: NVRTC is installed on this machine");
    }
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("NVRTC (libnvrtc.so) is not found"), "{said}");

    emulate(&mut fleet, &driver, &[]);
    let kernels = fleet.dir().join("no kernels").display().to_string();
    let auto = fleet.add_worker(&format!(
        "backend = \"auto\"\ncuda_memory_bytes = 67108864\ncuda_cache_dir = \"{kernels}\""
    ));
    let log = fleet.worker(auto).log();
    assert!(log.contains("the GPU cannot be used: the processor renders"), "{log}");
    assert!(log.contains("NVRTC (libnvrtc.so) is not found"), "{log}");
}

/// Its machine code would not load: with CUDA 12's driver NVRTC 13 is as good as none, and doctor says so too.
#[test]
fn an_nvrtc_newer_than_the_driver_is_refused_by_name() {
    let mut fleet = fleet();
    let old = [("EMULATED_CUDA_VERSION", "12040")];
    let (code, said) = refused(&mut fleet, emulation::cuda(), &old, &["augment.backend=cuda"]);
    assert_eq!(code, Some(1), "{said}");
    let named = "it is of CUDA 13.0, and the driver takes CUDA 12.4: install NVRTC 12 beside it";
    assert!(said.contains(named), "{said}");
    let same = [old[0], ("EMULATED_NVRTC_VERSION", "12.9")];
    emulate(&mut fleet, emulation::cuda(), &same);
    let worker = fleet.add_worker(&cuda(&fleet));
    assert!(
        fleet.worker(worker).log().contains("back end backend=\"cuda "),
        "{}",
        fleet.worker(worker).log()
    );
}

/// A file of compiled kernels that is as it was written, whatever is in it.
fn kept(code: &[u8]) -> Vec<u8> {
    let sum = xxhash_rust::xxh3::xxh3_64(code);
    [b"HWCUBIN1", &(code.len() as u64).to_le_bytes()[..], &sum.to_le_bytes(), code].concat()
}

#[test]
fn kept_kernels_that_are_damaged_or_that_the_driver_refuses_are_made_anew_and_kept() {
    let mut fleet = fleet();
    let settings = cuda(&fleet);
    let kernels = fleet.dir().join("kernels");
    let start = |fleet: &mut Fleet, variables: &[_]| {
        emulate(fleet, emulation::cuda(), variables);
        let worker = fleet.add_worker(&settings);
        let log = ended(fleet.worker(worker));
        assert!(log.contains("cuda Emulated GPU"), "{log}");
        log
    };
    let log = start(&mut fleet, &[]);
    assert!(!log.contains("made anew"), "{log}");
    let mut files = std::fs::read_dir(&kernels).expect("a folder");
    let file = files.next().expect("a file").expect("a file").path();
    assert!(files.next().is_none(), "one file of kernels");
    let whole = std::fs::read(&file).expect("kernels");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let refused = ["the driver refuses these kept kernels", "device kernel image is invalid"];
    for (wrong, said) in [
        (whole[..whole.len() / 2].to_owned(), &["these compiled kernels are damaged"][..]),
        (flipped, &["these compiled kernels are damaged"]),
        (kept(b"machine code of another GPU"), &refused),
    ] {
        std::fs::write(&file, wrong).expect("a file");
        let log = start(&mut fleet, &[]);
        assert!(said.iter().all(|said| log.contains(said)), "{said:?}: {log}");
        let log = start(&mut fleet, &[("EMULATED_NVRTC_FAIL", "1")]);
        assert!(!log.contains("made anew"), "{said:?}: {log}");
    }
    // Nor is what the driver refuses put there.
    std::fs::write(&file, kept(b"code")).expect("a file");
    let second = ("EMULATED_CUDA_FAIL", "cuModuleLoadData:2:200");
    emulate(&mut fleet, emulation::cuda(), &[second]);
    let auto = fleet.add_worker(&settings.replace("\"cuda\"", "\"auto\""));
    let log = ended(fleet.worker(auto));
    assert!(log.contains("GPU 0: load kernels: device kernel image is invalid"), "{log}");
    assert_eq!(std::fs::read(&file).expect("a file"), kept(b"code"));
}

#[test]
fn where_the_gpu_has_too_little_memory_auto_takes_the_processor_and_says_why() {
    let mut fleet = fleet();
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let reference = epoch(&mut fleet, cpu);
    let settings = cuda(&fleet).replace("\"cuda\"", "\"auto\"");
    emulate(&mut fleet, emulation::cuda(), &[("EMULATED_CUDA_MEMORY_BYTES", "20000000")]);
    let auto = fleet.add_worker(&settings);
    assert!(epoch(&mut fleet, auto) == reference, "other batches");
    let log = ended(fleet.worker(auto));
    for said in [
        "the GPU cannot be used: the processor renders",
        "take augment.cuda_memory_bytes of its memory: out of memory: 67108864 bytes for each of \
         augment.threads, 20000000 of 20000000 bytes are free: lower augment.cuda_memory_bytes",
        "at the context's release: 0 device allocations, 0 pinned, 0 streams, 0 events",
        "back end backend=\"cpu ",
    ] {
        assert!(log.contains(said), "no `{said}` in {log}");
    }
}

/// `headwater receive` of one batch of levels, which a GPU normalises.
fn receive(fleet: &mut Fleet, worker: usize, libraries: &Path) -> (Option<i32>, String) {
    let kernels = fleet.dir().join("kernels").display().to_string();
    let settings = [
        "recipe.preset=imagenet-eval".to_owned(),
        "recipe.dtype=u8".to_owned(),
        "receiver.device=cuda:0".to_owned(),
        "receiver.u8_as=bf16".to_owned(),
        format!("receiver.cuda_cache_dir={kernels}"),
        format!("storage.index_dir={}", fleet.dir().display()),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["receive", "--batch", "2", "--batches", "1", "--epochs", "1"]);
    command.args(["--storage", &fleet.storage().address]);
    command.args(["--workers", &fleet.worker(worker).address]);
    command.args(["--dataset", "photos=of the storage tier's"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let output = command.env("LD_LIBRARY_PATH", libraries).output().expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_receivers_kernel_that_was_compiled_once_needs_no_compiler() {
    let mut fleet = fleet();
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let driver = emulation::cuda().join("driver");
    let (code, said) = receive(&mut fleet, cpu, &driver);
    if !said.contains("device kernel image is invalid") {
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("NVRTC (libnvrtc.so) is not found"), "{said}");
        assert!(said.contains("install the CUDA toolkit"), "{said}");
    }
    for libraries in [emulation::cuda(), &driver] {
        let (code, said) = receive(&mut fleet, cpu, libraries);
        assert_eq!(code, Some(0), "{}: {said}", libraries.display());
    }
}

/// A GPU that `auto` takes is refused like one that is forced.
#[test]
fn decoded_images_are_for_the_processor() {
    let mut fleet = fleet();
    let folder = tempfile::tempdir().expect("a folder");
    let level = format!("{{dir = \"{}\", bytes = 1048576}}", folder.path().display());
    let cache = format!("augment.decoded_cache=[{level}]");
    for backend in ["augment.backend=auto", "augment.backend=cuda"] {
        let settings = [backend, &cache];
        let (code, said) = refused(&mut fleet, emulation::cuda(), &[], &settings);
        assert_eq!(code, Some(1), "{said}");
        let sentence = "augment.decoded_cache is for the processor, and cuda Emulated GPU";
        assert!(said.contains(sentence) && said.contains("or leave"), "{said}");
    }
}
