//! The doors through which bytes come in from outside. Each takes any bytes, and either refuses
//! them or holds to what it promised; a panic, an endless loop or memory without bound is a fault.
//!
//! Used by the fuzz targets, and by `tests/fuzz_corpora.rs`, which replays what they have found.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use headwater_augment::decode::{DecodeLimits, Decoder};
use headwater_core::sampler::{Sampler, SamplerConfig, State, Term};
use headwater_core::{Digest, Layout, Manifest, Recipe, ShardEntry};
use headwater_proto::augment::{FromWorker, ToWorker};
use headwater_proto::storage::{EncodedSample, ReadQuery, ShardPlace, ShardQuery, StorageWelcome};
use headwater_proto::v1::{self, Message as _};
use headwater_storage::{InspectedShard, count_samples};
use headwater_storage_client::FieldSelection;

/// Large images would make the fuzzer slow, not find more.
const PIXELS_MAX: u64 = 1 << 20;

/// A folder of this process that is removed with it.
fn folder(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = parent.join(format!("headwater-doors-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A tar archive as a shard: scanned, each sample read, its index written and read again.
pub(crate) fn shard(bytes: &[u8]) {
    let folder = folder("shard");
    let path = folder.join("a.tar");
    let _ = fs::remove_file(folder.join("a.idx"));
    fs::write(&path, bytes).expect("a file");
    if let Ok(inspected) = InspectedShard::open(&path) {
        let samples = inspected.shard().index().samples();
        for index in 0..samples {
            let read = inspected.shard().read(&[index], &FieldSelection::all());
            let read = read.expect("a sample that the scan found");
            assert!(read[0].bytes() <= bytes.len() as u64, "more bytes than there are");
        }
        if inspected.fault().is_none() && samples > 0 {
            fs::write(folder.join("a.idx"), inspected.dali_idx()).expect("a file");
            if inspected.check_idx().is_ok() {
                let counted = count_samples(&path).expect("a shard with its own index");
                assert_eq!(counted.samples, u64::from(samples), "the index counts otherwise");
            }
        }
    }
    let _ = fs::remove_dir_all(folder);
}

/// Any bytes as the index of a good shard.
pub(crate) fn idx(bytes: &[u8]) {
    let folder = folder("idx");
    let path = folder.join("a.tar");
    fs::write(&path, include_bytes!("corpus/shard/three-samples.tar")).expect("a shard");
    fs::write(folder.join("a.idx"), bytes).expect("an index");
    let inspected = InspectedShard::open(&path).expect("a good shard");
    let fits = inspected.check_idx();
    let counted = count_samples(&path).expect("a good shard");
    if fits.is_ok() {
        assert_eq!(counted.samples, 3, "an index that fits has the shard's samples");
    }
    let _ = fs::remove_dir_all(folder);
}

/// Messages of both protocols; the first byte says which.
pub(crate) fn message(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 7 {
        0 => drop(v1::ToWorker::decode(bytes).map(ToWorker::try_from)),
        1 => drop(v1::FromWorker::decode(bytes).map(FromWorker::try_from)),
        2 => drop(v1::ReadRequest::decode(bytes).map(ReadQuery::try_from)),
        3 => drop(v1::Sample::decode(bytes).map(EncodedSample::try_from)),
        4 => drop(v1::LocateRequest::decode(bytes).map(ShardQuery::try_from)),
        5 => drop(v1::LocateReply::decode(bytes).map(ShardPlace::try_from)),
        _ => drop(v1::StorageWelcome::decode(bytes).map(StorageWelcome::try_from)),
    }
}

/// A checkpoint: taken over by a sampler, whatever differs, and walked on from.
pub(crate) fn state(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<State>(bytes) else { return };
    let shard = |i: u32| ShardEntry {
        name: format!("{i}.tar"),
        samples: 7 + i,
        bytes: 1 << 20,
        digest: Digest(i.into()),
    };
    let manifest = |name: &str| Manifest::new(name.into(), Vec::new(), (0..5).map(shard).collect());
    let manifests = ["a", "b"].map(|name| Arc::new(manifest(name).expect("a manifest")));
    let config = SamplerConfig::new(1, 2, 0, 3);
    let mut sampler = Sampler::new(config, manifests.to_vec()).expect("a sampler");
    let allow = [
        Term::Seed,
        Term::Order,
        Term::ShuffleBlock,
        Term::GlobalBatch,
        Term::WorldSize,
        Term::EpochEnd,
        Term::Weights,
        Term::Manifest,
        Term::Recipe,
    ];
    let Ok(restored) = sampler.restore(&state, &allow) else { return };
    if let Ok(batch) = sampler.batch(restored.epoch, restored.step) {
        assert!(!batch.samples.is_empty() && batch.samples.len() <= 3, "{}", batch.samples.len());
        sampler.state(restored.epoch, restored.step).expect("the state of a batch that there is");
    }
}

/// JPEG, PNG and WebP, within small bounds.
pub(crate) fn image(bytes: &[u8]) {
    let limits = DecodeLimits { pixels_max: PIXELS_MAX, jpeg_scans_max: 20 };
    let mut decoder = Decoder::new(limits).expect("a decoder");
    // Twice: what is left of a broken image must not change the next.
    let first = decoder.decode(bytes).map(|image| (image.extent(), image.pixels().to_vec()));
    let again = decoder.decode(bytes).map(|image| (image.extent(), image.pixels().to_vec()));
    assert!(first == again, "the same bytes decode to other pixels the second time");
    if let Ok((extent, pixels)) = first {
        let area = u64::from(extent.width) * u64::from(extent.height);
        assert!(area <= PIXELS_MAX && pixels.len() as u64 == 3 * area, "{extent:?}");
    }
}

/// A recipe as it travels: refused, or one that a batch can be laid out for.
pub(crate) fn recipe(bytes: &[u8]) {
    let Ok(recipe) = serde_json::from_slice::<Recipe>(bytes) else { return };
    if recipe.validate().is_err() {
        return;
    }
    let layout = Layout::new(&recipe, 2);
    let regions = layout.part_regions(0, 2);
    assert!(regions.iter().all(|r| r.offset_bytes + r.len_bytes <= layout.len_bytes()));
    let json = serde_json::to_vec(&recipe).expect("plain data");
    let again: Recipe = serde_json::from_slice(&json).expect("what was written");
    assert_eq!(again.digest(), recipe.digest(), "another recipe after writing and reading");
}
