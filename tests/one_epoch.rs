//! One epoch through three tiers of real processes.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use headwater_core::sampler::{Sampler, SamplerConfig};
use headwater_core::{Digest, SampleRef};
use headwater_receiver::{Batch, Position, Receiver, ReceiverConfig, Verify};
use headwater_transport::links::ucx;

use crate::support;
use crate::support::fleet::Fleet;

const WORLD: u32 = 2;

/// What an epoch brought, per (step, rank).
type Epoch = BTreeMap<(u64, u32), Delivered>;

#[derive(Debug, PartialEq)]
struct Delivered {
    digest: Digest,
    samples: Vec<SampleRef>,
    keys: Vec<String>,
    labels: Vec<i64>,
}

fn delivered(batch: &Batch) -> Delivered {
    let labels = batch.tensor("labels").expect("labels");
    let bytes = batch.tensor_bytes(labels).expect("on the host");
    Delivered {
        digest: batch.digest().expect("on the host"),
        samples: batch.samples().to_vec(),
        keys: batch.provenance().iter().map(|p| p.key.clone()).collect(),
        labels: bytes
            .chunks_exact(8)
            .map(|eight| i64::from_le_bytes(eight.try_into().expect("eight bytes")))
            .collect(),
    }
}

/// Runs one epoch on `WORLD` receivers at once; `at_step` is called by rank 0 before each step.
fn epoch(config: &ReceiverConfig, at_step: impl Fn(u64) + Sync) -> Epoch {
    let one_rank = |rank: u32| {
        let receiver = Fleet::open(ReceiverConfig { rank, world_size: WORLD, ..config.clone() });
        let mut got = Vec::new();
        loop {
            if rank == 0 {
                at_step(receiver.position().step);
            }
            match receiver.next_batch().expect("a batch") {
                Some(batch) => got.push(((batch.step(), rank), delivered(&batch))),
                None => break,
            }
        }
        check_links(&receiver, config);
        got
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..WORLD).map(|rank| scope.spawn(move || one_rank(rank))).collect();
        ranks.into_iter().flat_map(|rank| rank.join().expect("a rank")).collect()
    })
}

/// All bytes came by the one link that was offered.
fn check_links(receiver: &Receiver, config: &ReceiverConfig) {
    let used: Vec<&str> = receiver.stats().link_bytes.keys().copied().collect();
    assert_eq!(used, config.links, "links used");
}

fn with_links(config: &ReceiverConfig, link: &str) -> ReceiverConfig {
    ReceiverConfig { links: vec![link.into()], ..config.clone() }
}

/// Configuration of a worker that may use every link of these tests.
const ALL_LINKS: &str = r#"links = ["shm", "ucx", "tcp"]"#;

/// So many workers.
fn fleet(workers: usize) -> Fleet {
    let mut fleet = Fleet::without_workers(support::data("photos/photos-*.tar"));
    (0..workers).for_each(|_| {
        fleet.add_worker(ALL_LINKS);
    });
    fleet
}

const LINKS: [&str; 2] = ["shm", "tcp"];

#[test]
fn an_epoch_is_the_same_for_one_worker_and_three_over_every_link() {
    let mut fleet = fleet(3);
    let three = fleet.config();
    let one = ReceiverConfig { workers: three.workers[..1].to_vec(), ..three.clone() };

    let reference = epoch(&with_links(&one, "tcp"), |_| {});
    check_order_and_coverage(&three, &reference);
    for (workers, config) in [("one", &one), ("three", &three)] {
        for link in LINKS {
            let again = epoch(&with_links(config, link), |_| {});
            assert!(again == reference, "{workers} worker(s) over {link} brought other batches");
        }
    }
}

/// Of UCX's sockets, which nobody gets without asking for them by `UCX_TLS`: in a process of its own
/// that asks.
#[test]
fn an_epoch_over_ucx_is_the_same_as_over_tcp() {
    const ASKS: &str = "HEADWATER_TEST_UCX_SOCKETS";
    if let Err(error) = ucx::detect(false) {
        return eprintln!("SKIP: {error}");
    }
    if std::env::var_os(ASKS).is_some() {
        let mut fleet = fleet(2);
        let over_tcp = epoch(&with_links(&fleet.config(), "tcp"), |_| {});
        let over_ucx = epoch(&with_links(&fleet.config(), "ucx"), |_| {});
        assert!(over_ucx == over_tcp, "the epoch over ucx differs");
        return;
    }
    let this_test = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "one_epoch::an_epoch_over_ucx_is_the_same_as_over_tcp", "--nocapture"])
        .env(ASKS, "1")
        .env("UCX_TLS", "tcp")
        .output()
        .expect("this program, once more");
    let said = String::from_utf8_lossy(&this_test.stdout);
    assert!(this_test.status.success() && said.contains("1 passed"), "{this_test:?}");
}

/// Each part is compared by a task of its own: a receiver that kept them would grow for weeks.
#[test]
fn a_receiver_keeps_nothing_of_what_it_has_compared() {
    let mut fleet = fleet(1);
    let mut config = fleet.config();
    (config.window.part_samples, config.samples.verify) = (1, Verify::All);
    let receiver = Fleet::open(config);
    while receiver.next_batch().expect("a batch").is_some() {}
    let parts = receiver.stats().parts;
    assert!(parts > 100, "{parts} parts");
    let limit = Instant::now() + Duration::from_secs(60);
    while receiver.stats().tasks > 3 {
        let left = receiver.stats().tasks;
        assert!(Instant::now() < limit, "{left} tasks are left after {parts} parts");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn sockets_of_ucx_are_refused_to_who_has_not_asked_for_them() {
    if std::env::var_os("UCX_TLS").is_some() {
        return eprintln!("SKIP: UCX_TLS is set");
    }
    let mut fleet = fleet(1);
    let reason =
        Fleet::try_open(with_links(&fleet.config(), "ucx")).err().expect("an error").to_string();
    assert!(reason.contains("no RDMA device") || reason.contains("no transport"), "{reason}");
    assert!(reason.contains("UCX_TLS=tcp"), "{reason}");
}

#[test]
fn a_worker_killed_in_mid_epoch_changes_no_byte() {
    // One dies for each link, and one more has to go on.
    let mut fleet = fleet(LINKS.len() + 1);
    for link in LINKS {
        let config = with_links(&fleet.config(), link);
        let reference = epoch(&config, |_| {});
        let victim = fleet.workers.iter().position(Option::is_some).expect("a worker");
        let pid = fleet.worker(victim).pid();
        let kill = |step| {
            if step == 3 {
                let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        };
        let hurt = epoch(&config, kill);
        assert!(hurt == reference, "the epoch in which a worker died over {link} differs");
        fleet.workers[victim] = None;
    }
}

/// The batches hold the sampler's samples in its order, each of the epoch's exactly once, with
/// the keys and labels of the shards.
fn check_order_and_coverage(config: &ReceiverConfig, epoch: &Epoch) {
    let config = ReceiverConfig { world_size: WORLD, ..config.clone() };
    let receiver = Fleet::open(config.clone());
    let manifests: Vec<Arc<_>> = receiver.manifests().to_vec();
    drop(receiver);
    let total = manifests[0].samples();
    let global = u64::from(WORLD) * u64::from(config.batch_samples);
    assert_eq!(epoch.len() as u64, total / global * u64::from(WORLD));

    let mut seen = BTreeSet::new();
    for rank in 0..WORLD {
        let mut wanted = SamplerConfig::new(config.seed, WORLD, rank, config.batch_samples);
        wanted.shuffle_block = config.order.shuffle_block;
        let mut sampler = Sampler::new(wanted, manifests.clone()).expect("a sampler");
        for step in 0..total / global {
            let batch = &epoch[&(step, rank)];
            assert_eq!(batch.samples, sampler.batch(0, step).expect("a plan").samples);
            for (sample, (key, label)) in
                batch.samples.iter().zip(batch.keys.iter().zip(&batch.labels))
            {
                assert!(seen.insert(*sample), "{sample:?} came twice");
                let (true_key, true_label) = truth(sample);
                assert_eq!((key, *label), (&true_key, true_label));
            }
        }
    }
    assert_eq!(seen.len() as u64, total / global * global);
}

/// Key and label of a sample, read from the shard by the `tar` crate.
fn truth(sample: &SampleRef) -> (String, i64) {
    let path = support::data(&format!("photos/photos-{:06}.tar", sample.shard));
    let mut archive = tar::Archive::new(std::fs::File::open(path).expect("a shard"));
    let mut labels = Vec::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").into_owned();
        if path.extension().is_some_and(|extension| extension == "cls") {
            let text = std::io::read_to_string(&mut entry).expect("text");
            let key = path.with_extension("").display().to_string();
            labels.push((key, text.trim().parse().expect("a class index")));
        }
    }
    labels[sample.index as usize].clone()
}

#[test]
fn the_last_epoch_that_has_a_number_comes_whole_and_its_end_is_an_error() {
    let mut fleet = Fleet::start(support::data("photos/photos-000003.tar"), 1);
    let receiver = Fleet::open(ReceiverConfig { epochs: 0, ..fleet.config() });
    let first = receiver.next_batch().expect("a batch").expect("a batch");
    let (epoch, steps) = (u32::MAX, receiver.steps_per_epoch(u32::MAX));
    let beyond = receiver.seek(Position { epoch, step: steps });
    assert!(beyond.is_err_and(|error| error.to_string().contains("there is no step 2")));
    receiver.set_epoch(epoch).expect("a place");
    for step in 0..steps {
        let batch = receiver.next_batch().expect("a batch").expect("a batch");
        assert_eq!((batch.epoch(), batch.step()), (epoch, step));
    }
    for _ in 0..2 {
        let said = receiver.next_batch().map(drop).expect_err("no batch").to_string();
        assert!(said.starts_with("the stream ends with epoch 4294967295"), "{said}");
        let said = receiver.state().map(drop).expect_err("no place").to_string();
        assert!(said.starts_with("the stream ends with epoch 4294967295"), "{said}");
    }
    receiver.set_epoch(0).expect("a place");
    let again = receiver.next_batch().expect("a batch").expect("a batch");
    assert_eq!(delivered(&again), delivered(&first));
}
