//! Batches over the cuda link, from the very program to a receiver of this process, both with CUDA's emulated driver.

use std::time::{Duration, Instant};

use headwater_core::{Digest, Dtype, Recipe};
use headwater_receiver::{
    Batch, DatasetUse, DeviceConfig, Receiver, ReceiverConfig, SampleConfig, WindowConfig,
};

use crate::emulation::{self, on_a_gpu};
use crate::support;
use crate::support::fleet::Fleet;

/// Longest time for a worker's GPU to come to where it stands still.
const LIMIT: Duration = Duration::from_secs(120);

/// An emulated GPU takes its time: views are small.
fn recipe(preset: &str) -> Recipe {
    let mut recipe = Recipe::preset(preset, Dtype::Bf16).expect("a preset");
    for tensor in &mut recipe.tensors {
        (tensor.height, tensor.width) = (tensor.height / 4, tensor.width / 4);
    }
    recipe
}

fn fleet() -> Fleet {
    Fleet::without_workers(support::data("photos/photos-000003.tar"))
}

fn names(links: &[&str]) -> Vec<String> {
    links.iter().map(ToString::to_string).collect()
}

/// Lines of `[augment]` for a worker on the emulated GPU that takes these links.
fn on_gpu(fleet: &Fleet, links: &[&str]) -> String {
    let kernels = fleet.dir().join("kernels");
    format!(
        "backend = \"cuda\"\ncuda_memory_bytes = 67108864\ncuda_cache_dir = \"{}\"\nlinks = {links:?}",
        kernels.display()
    )
}

/// A receiver of some workers over these links.
fn receiver(
    fleet: &mut Fleet,
    workers: &[usize],
    links: &[&str],
    device: &str,
    preset: &str,
) -> Receiver {
    let workers = workers.iter().map(|&worker| fleet.worker(worker).address.clone()).collect();
    let config = ReceiverConfig {
        workers,
        links: names(links),
        batch_samples: 8,
        device: DeviceConfig { device: device.into(), ..DeviceConfig::default() },
        samples: SampleConfig { verify_held: true, ..SampleConfig::default() },
        ..fleet.config()
    };
    open(config, preset)
}

fn open(config: ReceiverConfig, preset: &str) -> Receiver {
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    Receiver::open(config, recipe(preset), &[dataset]).expect("a receiver")
}

/// The next batch, of this epoch or of the one after it.
fn next(receiver: &Receiver) -> Batch {
    let ahead = || receiver.next_batch().expect("a batch");
    ahead().or_else(ahead).expect("an epoch with batches")
}

/// The digest of each batch, and the number of samples.
fn epoch(receiver: &Receiver) -> (Vec<Digest>, u64) {
    let (mut digests, mut samples) = (Vec::new(), 0);
    while let Some(batch) = receiver.next_batch().expect("a batch") {
        digests.push(batch.digest().expect("its bytes"));
        samples += batch.samples().len() as u64;
    }
    (digests, samples)
}

#[test]
fn batches_over_the_cuda_link_are_those_over_shm_and_no_row_of_a_view_touches_the_host() {
    let test = "cuda_link::batches_over_the_cuda_link_are_those_over_shm_and_no_row_of_a_view_touches_the_host";
    on_a_gpu(test, &[], || {
        let mut fleet = fleet();
        let cpu = fleet.add_worker("backend = \"cpu\"");
        let reference = epoch(&receiver(&mut fleet, &[cpu], &["shm"], "cpu", "dinov2"));
        assert!(reference.1 > 30, "an epoch of {} samples", reference.1);
        for more in ["", "cuda_decode = \"device\"\n"] {
            let settings = format!("{more}{}", on_gpu(&fleet, &["cuda"]));
            let gpu = fleet.add_worker(&settings);
            let taken = epoch(&receiver(&mut fleet, &[gpu], &["cuda"], "cuda:0", "dinov2"));
            let worker = fleet.worker(gpu);
            assert!(taken == reference, "{more}: other batches: {}", worker.log());
            let counter = |name| worker.counter(name, "");
            let on_device = counter("headwater_augment_samples_on_device_total");
            let written = counter("headwater_augment_samples_written_by_device_total");
            assert!(on_device >= reference.1 && written == on_device, "{written} of {on_device}");
        }
    });
}

/// Each falls back to the next link, and says why.
#[test]
fn a_worker_that_does_not_reach_the_receivers_gpu_takes_the_next_link_and_says_why() {
    let test = "cuda_link::a_worker_that_does_not_reach_the_receivers_gpu_takes_the_next_link_and_says_why";
    on_a_gpu(test, &[], || {
        let mut fleet = fleet();
        let links = ["cuda", "shm"];
        let cpu = fleet.add_worker("backend = \"cpu\"\nlinks = [\"cuda\", \"shm\"]");
        let over = |fleet: &mut Fleet, worker, device| {
            epoch(&receiver(fleet, &[worker], &links, device, "imagenet-eval"))
        };
        let reference = over(&mut fleet, cpu, "cpu");
        assert!(over(&mut fleet, cpu, "cuda:0") == reference, "other batches");
        let log = fleet.worker(cpu).log();
        assert!(log.contains("this worker renders on no GPU: set augment.backend"), "{log}");
        fleet.surround(&[("EMULATED_CUDA_UUID", "emulated GPU 1..")]);
        let settings = on_gpu(&fleet, &links);
        let other = fleet.add_worker(&settings);
        assert!(over(&mut fleet, other, "cuda:0") == reference, "other batches");
        let log = fleet.worker(other).log();
        assert!(log.contains("and this worker has GPU-656d756c-"), "{log}");
    });
}

/// kill -9, while a GPU has copies to a slot queued that it makes seconds later: they hit no other batch.
#[test]
#[ignore = "it waits for the time of a late GPU: make soak runs it"]
fn a_killed_workers_late_gpu_changes_no_byte_of_a_later_batch() {
    const GHOST_MS: u64 = 15_000;
    let test = "cuda_link::a_killed_workers_late_gpu_changes_no_byte_of_a_later_batch";
    if !emulation::is_emulated() {
        return emulation::run_again(test, &[emulation::cuda()], &[]);
    }
    let mut fleet = fleet();
    let cpu = fleet.add_worker("backend = \"cpu\"");
    let settings = on_gpu(&fleet, &["cuda"]);
    // Its parts are read from where a late copy would hit them: in the GPU's memory.
    let stays = fleet.add_worker(&settings);
    let ghost = GHOST_MS.to_string();
    // The proof's write comes first, then whole parts.
    fleet.surround(&[("EMULATED_CUDA_GHOST_MS", &ghost), ("EMULATED_CUDA_STANDS_STILL_AT", "6")]);
    let lost = fleet.add_worker(&settings);
    let window = WindowConfig {
        window_batches: 2,
        slots_max: 5,
        part_samples: 4,
        ..WindowConfig::default()
    };
    let base = ReceiverConfig { batch_samples: 8, epochs: 100, window, ..fleet.config() };
    let config =
        |fleet: &mut Fleet, workers: &[usize], links: &[&str], device: &str| ReceiverConfig {
            workers: workers.iter().map(|&worker| fleet.worker(worker).address.clone()).collect(),
            links: names(links),
            device: DeviceConfig { device: device.into(), ..DeviceConfig::default() },
            ..base.clone()
        };
    let plain = open(config(&mut fleet, &[cpu], &["shm"], "cpu"), "imagenet-eval");
    let reference: Vec<_> = (0..250).map(|_| next(&plain).digest().expect("its bytes")).collect();
    drop(plain);
    let config = config(&mut fleet, &[stays, lost], &["cuda"], "cuda:0");
    let receiver = open(config, "imagenet-eval");
    let mut digests = Vec::new();
    let next = || next(&receiver);
    let end = Instant::now() + LIMIT;
    while !fleet.worker(lost).log().contains("the GPU stands still") {
        assert!(Instant::now() < end, "it goes on: {}", fleet.worker(lost).log());
        // Others make its parts meanwhile.
        if digests.len() + 20 < reference.len() {
            digests.push(next().digest().expect("its bytes"));
        } else {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    fleet.worker(lost).kill();
    let killed = Instant::now();
    // The slot that it had is let go of, and whoever may have it next does.
    for _ in 0..6 {
        digests.push(next().digest().expect("its bytes"));
    }
    // All slots hold batches when its GPU writes.
    let held: Vec<_> = (0..4).map(|_| next()).collect();
    if killed.elapsed() >= Duration::from_millis(GHOST_MS) {
        eprintln!("SKIP: this machine is too slow to hold batches when the copy comes");
    }
    std::thread::sleep(Duration::from_millis(GHOST_MS + 1500).saturating_sub(killed.elapsed()));
    digests.extend(held.iter().map(|batch| batch.digest().expect("its bytes")));
    let equal = digests.iter().zip(&reference).filter(|(found, wanted)| found == wanted).count();
    assert_eq!(equal, digests.len(), "batches changed");
}
