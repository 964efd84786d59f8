//! Epochs through three tiers of real processes over the rdma link, on emulated verbs
//! (`tests/emulated_verbs`): workers of four queue pairs, some of them killed and stopped. Says nothing of
//! RDMA itself, which `make test-rdma` is for.

use std::path::Path;
use std::time::{Duration, Instant};

use headwater_core::{Digest, Dtype, Recipe};
use headwater_receiver::{DatasetUse, DeviceConfig, GpuDirect, Receiver, ReceiverConfig};
use rustix::process::{Resource, Signal, getrlimit};

use crate::emulation;
use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::{HEARTBEAT_MS, Ranks};

/// Longest time until a receiver knows what became of a worker.
const LIMIT: Duration = Duration::from_secs(60);
/// Configuration of a worker.
const WORKER: &str =
    "links = [\"rdma\", \"tcp\"]\nbackend = \"cpu\"\n[links]\nrdma_queue_pairs = 4";
/// More than the slots of these tests and a worker's buffers together.
const LOCKED_BYTES: u64 = 256 << 20;
/// At which something happens: the window is short, so parts of later batches are on their way.
const STEP: u64 = 3;

/// Whether this process has the emulated libraries. If not, the test of this name is run by one that has
/// them, with these variables besides, and has passed there.
fn is_emulated(test: &str, libraries: &[&Path], variables: &[(&str, &str)]) -> bool {
    if emulation::is_emulated() {
        return true;
    }
    if may_lock_memory() {
        emulation::run_again(test, libraries, variables);
    } else {
        eprintln!("SKIP: the limit of locked memory lets nobody take the rdma link: ulimit -l");
    }
    false
}

/// Whether both ends take the link by what this process may lock, which they look at as before a card.
fn may_lock_memory() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("a mask");
    let capabilities = u64::from_str_radix(line.trim(), 16).expect("a mask");
    let has_ipc_lock = capabilities >> 14 & 1 == 1;
    let limit = getrlimit(Resource::Memlock).current;
    has_ipc_lock || limit.is_none_or(|bytes| bytes >= LOCKED_BYTES)
}

fn is_on_emulated_verbs(test: &str) -> bool {
    is_emulated(test, &[emulation::verbs()], &[])
}

fn fleet() -> (Fleet, ReceiverConfig) {
    let mut fleet = Fleet::without_workers(support::data("photos/photos-000000.tar"));
    (0..2).for_each(|_| {
        fleet.add_worker(WORKER);
    });
    let mut config =
        ReceiverConfig { links: vec!["rdma".into()], batch_samples: 8, ..fleet.config() };
    (config.window.part_samples, config.window.window_batches) = (2, 2);
    (fleet, config)
}

/// One epoch; `at_step` is called before each step.
fn epoch(config: &ReceiverConfig, mut at_step: impl FnMut(u64, &Receiver)) -> Vec<Digest> {
    let recipe = Recipe::preset("imagenet-train", Dtype::Bf16).expect("a preset");
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    let receiver = Receiver::open(config.clone(), recipe, &[dataset]).expect("a receiver");
    let mut digests = Vec::new();
    loop {
        at_step(receiver.position().step, &receiver);
        match receiver.next_batch().expect("a batch") {
            Some(batch) => digests.push(batch.digest().expect("its bytes")),
            None => break,
        }
    }
    let stats = receiver.stats();
    let used: Vec<&str> = stats.link_bytes.keys().copied().collect();
    assert_eq!(used, config.links, "links used");
    let on_device = if config.device.device == "cpu" { 0 } else { stats.parts };
    assert_eq!(stats.parts_on_device, on_device, "of {} parts", stats.parts);
    assert!(digests.len() as u64 > 2 * STEP, "an epoch of {} batches", digests.len());
    digests
}

fn over_tcp(config: &ReceiverConfig) -> Vec<Digest> {
    epoch(&ReceiverConfig { links: vec!["tcp".into()], ..config.clone() }, |_, _| {})
}

fn wait_for_workers(receiver: &Receiver, wanted: usize) {
    let end = Instant::now() + LIMIT;
    while receiver.stats().workers.len() != wanted {
        assert!(Instant::now() < end, "not {wanted}: {:?}", receiver.stats().workers);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_epoch_over_rdma_is_the_same_as_over_tcp() {
    if !is_on_emulated_verbs("rdma_epochs::an_epoch_over_rdma_is_the_same_as_over_tcp") {
        return;
    }
    let (_fleet, config) = fleet();
    let over_rdma = epoch(&config, |_, _| {});
    assert!(over_rdma == over_tcp(&config), "the epoch over rdma differs");
}

#[test]
fn a_worker_killed_in_mid_write_changes_no_byte() {
    if !is_on_emulated_verbs("rdma_epochs::a_worker_killed_in_mid_write_changes_no_byte") {
        return;
    }
    let (mut fleet, config) = fleet();
    let reference = over_tcp(&config);
    let hurt = epoch(&config, |step, receiver| {
        if step == STEP {
            fleet.worker(0).kill();
            wait_for_workers(receiver, 1);
            fleet.restart_worker(0, WORKER);
            wait_for_workers(receiver, 2);
        }
    });
    assert!(hurt == reference, "the epoch in which a worker died differs");
}

/// Its queue pairs are destroyed while it may still write, its leases go to the other; when it goes on it
/// finds its session gone and begins anew.
#[test]
fn a_worker_that_stops_in_mid_write_changes_no_byte() {
    if !is_on_emulated_verbs("rdma_epochs::a_worker_that_stops_in_mid_write_changes_no_byte") {
        return;
    }
    let (mut fleet, mut config) = fleet();
    config.leases.heartbeat_ms = HEARTBEAT_MS;
    let reference = over_tcp(&config);
    let hurt = epoch(&config, |step, receiver| {
        if step == STEP {
            fleet.worker(0).signal(Signal::STOP);
            wait_for_workers(receiver, 1);
        }
        if step == 2 * STEP {
            fleet.worker(0).signal(Signal::CONT);
            wait_for_workers(receiver, 2);
        }
    });
    assert!(hurt == reference, "the epoch in which a worker stopped differs");
}

#[test]
fn workers_serve_the_receiver_after_one_that_was_killed() {
    if !is_on_emulated_verbs("rdma_epochs::workers_serve_the_receiver_after_one_that_was_killed") {
        return;
    }
    let (fleet, config) = fleet();
    let reference = over_tcp(&config);
    let endless = ReceiverConfig { epochs: 1000, ..config.clone() };
    let mut killed = Ranks::start(&endless, fleet.dir(), "killed", &[]);
    killed.wait_for(0, STEP as usize);
    killed.kill();
    assert!(epoch(&config, |_, _| {}) == reference, "the receiver after it got other batches");
}

/// An epoch whose parts the emulated card writes to the memory of the emulated GPU.
fn an_epoch_into_a_gpu(test: &str, way: &str) {
    let libraries = [emulation::verbs(), emulation::cuda()];
    if !is_emulated(test, &libraries, &[(way, "1")]) {
        return;
    }
    let (_fleet, config) = fleet();
    let reference = over_tcp(&config);
    let gpudirect = GpuDirect::On;
    let device = DeviceConfig { device: "cuda:0".into(), gpudirect, ..config.device };
    let config = ReceiverConfig { device, ..config };
    assert!(epoch(&config, |_, _| {}) == reference, "the epoch into the GPU differs");
}

/// The driver hands its memory out as a descriptor; its addresses mean nothing to others.
#[test]
fn an_epoch_into_a_gpu_by_dmabuf_is_the_same_as_over_tcp() {
    an_epoch_into_a_gpu(
        "rdma_epochs::an_epoch_into_a_gpu_by_dmabuf_is_the_same_as_over_tcp",
        "EMULATED_CUDA_DMABUF",
    );
}

/// The driver hands no descriptors out; its addresses can be registered, as with nvidia-peermem.
#[test]
fn an_epoch_into_a_gpu_by_address_is_the_same_as_over_tcp() {
    an_epoch_into_a_gpu(
        "rdma_epochs::an_epoch_into_a_gpu_by_address_is_the_same_as_over_tcp",
        "EMULATED_CUDA_PEERMEM",
    );
}
