//! Workers that share decoded images: the same bytes in the batch, whoever decoded them and however it ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use headwater_core::{Digest, Dtype, Recipe};
use headwater_receiver::{DatasetUse, Receiver, ReceiverConfig};

use crate::support;
use crate::support::fleet::{Fleet, Node};

const EPOCHS: u32 = 2;
/// Batches of the first epoch after which the worker is killed.
const BEFORE_KILL: usize = 2;
const CACHE: &str = "cache=\"decoded\"";

/// The `dinov2` recipe in small.
fn recipe() -> Recipe {
    let mut recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
    for tensor in &mut recipe.tensors {
        (tensor.height, tensor.width) = (tensor.height / 4, tensor.width / 4);
    }
    recipe
}

/// What two epochs bring.
#[derive(Default)]
struct Taken {
    /// Of each batch.
    digests: Vec<Digest>,
    samples: u64,
    /// The images of these samples: each epoch leaves some out.
    images: BTreeSet<String>,
}

/// Two epochs from one worker; `after` is called after each batch with their number.
fn epochs(fleet: &mut Fleet, worker: usize, mut after: impl FnMut(&mut Fleet, usize)) -> Taken {
    let workers = vec![fleet.worker(worker).address.clone()];
    let config = ReceiverConfig { workers, batch_samples: 8, epochs: EPOCHS, ..fleet.config() };
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    let receiver = Receiver::open(config, recipe(), &[dataset]).expect("a receiver");
    let mut taken = Taken::default();
    for _ in 0..EPOCHS {
        while let Some(batch) = receiver.next_batch().expect("a batch") {
            taken.digests.push(batch.digest().expect("on the host"));
            taken.samples += batch.samples().len() as u64;
            taken.images.extend(batch.provenance().iter().map(|p| p.key.clone()));
            drop(batch);
            after(fleet, taken.digests.len());
        }
    }
    taken
}

/// Lines of `[augment]` with a cache in a folder.
fn cached(dir: &Path) -> String {
    format!(
        "backend = \"cpu\"\ndecoded_cache = [{{ dir = \"{}\", bytes = 268435456 }}]",
        dir.display()
    )
}

fn hits(node: &Node) -> u64 {
    node.counter("headwater_cache_hits_total", CACHE)
}

fn misses(node: &Node) -> u64 {
    node.counter("headwater_cache_misses_total", CACHE)
}

/// A folder for a cache, and the lines that name it.
fn folder(fleet: &Fleet, name: &str) -> (PathBuf, String) {
    let dir = fleet.dir().join(name);
    std::fs::create_dir(&dir).expect("a folder");
    let lines = cached(&dir);
    (dir, lines)
}

fn fleet() -> Fleet {
    Fleet::start(support::data("photos/photos-000003.tar"), 1)
}

/// All photographs are JPEGs.
fn decodes(node: &Node) -> u64 {
    node.counter("headwater_augment_jpeg_images_total", "")
}

#[test]
fn the_second_epoch_decodes_nothing_and_has_the_same_bytes() {
    let mut fleet = fleet();
    let alone = epochs(&mut fleet, 0, |_, _| ());
    let (samples, images) = (alone.samples, alone.images.len() as u64);
    assert!(images > 30 && samples > images + 30, "{samples} samples of {images} images");
    assert_eq!(misses(fleet.worker(0)), 0, "a worker without a cache");
    let (_, lines) = folder(&fleet, "decoded");
    let worker = fleet.add_worker(&lines);
    let with = epochs(&mut fleet, worker, |_, _| ());
    assert!(with.digests == alone.digests, "other bytes");
    let node = fleet.worker(worker);
    assert_eq!((misses(node), decodes(node)), (images, images));
    assert!(hits(node) >= samples - images, "{} hits", hits(node));
}

/// The worker is killed in the middle of an epoch, and after it.
#[test]
fn workers_share_what_one_that_was_killed_has_decoded() {
    let mut fleet = fleet();
    let alone = epochs(&mut fleet, 0, |_, _| ());
    let (dir, lines) = folder(&fleet, "decoded");
    let killed = fleet.add_worker(&lines);
    let with = epochs(&mut fleet, killed, |fleet, batches| {
        if batches == BEFORE_KILL {
            fleet.restart_worker(killed, &lines);
        }
    });
    assert!(with.digests == alone.digests, "other bytes");
    fleet.restart_worker(killed, &lines);
    let other = fleet.add_worker(&lines);
    for worker in [killed, other] {
        let again = epochs(&mut fleet, worker, |_, _| ());
        assert!(again.digests == alone.digests, "other bytes");
        let node = fleet.worker(worker);
        assert_eq!((misses(node), decodes(node)), (0, 0), "of {} images", hits(node));
        assert!(hits(node) >= alone.samples, "{} hits", hits(node));
    }
    let users = std::fs::read_dir(&dir).expect("the folder").flatten().next();
    let filling = users.expect("the user's folder").path().join("filling");
    assert_eq!(std::fs::read_dir(filling).expect("a folder").count(), 0, "files that are left");
}

#[test]
fn a_folder_that_is_not_there_stops_the_start_and_is_named() {
    let mut fleet = fleet();
    let absent = fleet.dir().join("absent");
    assert!(!fleet.try_restart_worker(0, &cached(&absent)));
}
