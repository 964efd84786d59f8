//! Images per second of one core for only decoding and for whole recipes, and the share of each
//! stage, over the JPEG files of a folder of tars.
//!
//! usage: `HEADWATER_BENCH_PHOTOS=/folder cargo bench -p headwater-render --bench recipe [rounds] [set] [preset]
//! [entries] [decoded]` where the set is one of `plain`, `avx2` and `avx512`, all that the processor has without it;
//! the preset names the recipe, `dinov2` without it; and with `entries` JPEGs decode from the entry points that
//! the first round has made; with `decoded` the recipe is measured through the decoded cache too, in turns, in the
//! folder that `HEADWATER_BENCH_CACHE` names, `/dev/shm` without it.
//!
//! Each photo's stages are timed on their own, every round; the least time of all rounds counts,
//! so that what else the machine does is left out.

#[path = "../support/photos.rs"]
mod photos;
mod stages;
#[path = "../support/turbo.rs"]
mod turbo;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headwater_cache::CacheLevel;
use headwater_core::recipe::PRESETS;
use headwater_core::{Dtype, Recipe};
use headwater_render::decode::{DecodedCache, EntryTable};
use headwater_simd::Simd;

fn main() {
    let Some(photos) = photos::read() else { return };
    let rounds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(5);
    println!("{} photos, {rounds} rounds", photos.len());
    let wanted = |simd: &&Simd| {
        let named =
            Simd::available().iter().filter(|s| std::env::args().any(|arg| arg == s.name()));
        named.clone().count() == 0 || named.clone().any(|s| s == *simd)
    };
    let named = PRESETS.iter().find(|(name, _)| std::env::args().any(|arg| arg == *name));
    let (name, _) = named.unwrap_or(&PRESETS[0]);
    let has_entries = std::env::args().any(|arg| arg == "entries");
    let recipe = Recipe::preset(name, Dtype::Bf16).expect("a preset");
    for simd in Simd::available().iter().filter(wanted) {
        let entries = EntryTable::new(if has_entries { 1 << 30 } else { 0 });
        let folder = decoded_folder();
        let cache = folder.as_ref().map(|folder| open(folder.path().to_owned()));
        stages::measure(&photos, &recipe, *simd, rounds, &stages::Known { entries, cache });
        if let Some(folder) = folder {
            println!(
                "  {} KB an image in the decoded cache",
                bytes(folder.path()) / 1000 / photos.len() as u64
            );
        }
    }
}

/// A folder for decoded images, which is removed at the end; `None` where they are not asked for.
fn decoded_folder() -> Option<tempfile::TempDir> {
    if std::env::args().all(|arg| arg != "decoded") {
        return None;
    }
    let parent = std::env::var("HEADWATER_BENCH_CACHE").unwrap_or("/dev/shm".to_owned());
    Some(tempfile::tempdir_in(parent).expect("a folder"))
}

fn bytes(folder: &Path) -> u64 {
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let bytes = entries.map(|entry| match entry.metadata().expect("an entry") {
        metadata if metadata.is_dir() => bytes(&entry.path()),
        metadata => metadata.len(),
    });
    bytes.sum()
}

fn open(dir: PathBuf) -> Arc<DecodedCache> {
    let level = CacheLevel { dir, bytes: 4 << 30 };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let opened = DecodedCache::open(&[level], Duration::from_secs(3600), threads);
    opened.expect("a cache").expect("one level")
}
