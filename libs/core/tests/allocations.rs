//! The sampler's memory depends on the number of shards, never on the number of samples.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use headwater_core::sampler::{BatchPlan, Sampler, SamplerConfig};
use headwater_core::{Digest, Manifest, ShardEntry};

const DATASETS: u64 = 20;
const SHARDS: u64 = 1_000;
const STEPS: u64 = 400;
const BATCH: u32 = 512;
/// What the sampler says of itself: 36 bytes a shard, and 2048 snapshots of all cursors at most.
const SHARD_BYTES: i64 = 36;
const SNAPSHOTS_BYTES: i64 = 2048 * (DATASETS as i64 * 16 + 64);

/// The system's allocator; counts what each thread asks for and holds.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<i64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came; counting touches thread-local
// numbers without destructors, for which no memory is taken.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as i64 - layout.size() as i64);
        // SAFETY: the block came from the system's allocator, as all of them do.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get() - layout.size() as i64);
        // SAFETY: the block came from the system's allocator, as all of them do.
        unsafe { System.dealloc(block, layout) }
    }
}

fn count(bytes: i64) {
    ASKED.set(ASKED.get() + 1);
    HELD_BYTES.set(HELD_BYTES.get() + bytes);
    PEAK_BYTES.set(PEAK_BYTES.get().max(HELD_BYTES.get()));
}

fn datasets(shard_samples: u32) -> Vec<Arc<Manifest>> {
    let shard = |i: u64| ShardEntry {
        name: format!("{i:06}.tar"),
        samples: shard_samples,
        bytes: 1 << 30,
        digest: Digest(i.into()),
    };
    let dataset = |d| Manifest::new(format!("d{d}"), Vec::new(), (0..SHARDS).map(shard).collect());
    (0..DATASETS).map(|d| Arc::new(dataset(d).expect("a manifest"))).collect()
}

/// Bytes held at most while a sampler is made, walks, and jumps to the end of an epoch and back;
/// and allocations of the walk.
fn cost(shard_samples: u32) -> (i64, u64) {
    let manifests = datasets(shard_samples);
    let before = HELD_BYTES.get();
    PEAK_BYTES.set(before);
    let config = SamplerConfig::new(1, 1, 0, BATCH);
    let mut sampler = Sampler::new(config, manifests).expect("a sampler");
    let mut plan = BatchPlan::default();
    let mut walk = |from: u64, steps: u64| {
        (from..from + steps).for_each(|s| sampler.batch_into(0, s, 0, &mut plan).expect("a batch"));
    };
    walk(0, 1);
    let asked = ASKED.get();
    walk(1, STEPS);
    let asked = ASKED.get() - asked;
    walk(3 * STEPS, 1);
    walk(0, 1);
    (PEAK_BYTES.get() - before, asked)
}

#[test]
fn a_thousand_million_samples_cost_no_more_memory_than_forty_million() {
    let (few_bytes, few_asked) = cost(2_000);
    let (many_bytes, many_asked) = cost(50_000);
    let most = (DATASETS * SHARDS) as i64 * SHARD_BYTES + SNAPSHOTS_BYTES;
    println!("{many_bytes} bytes of {most}, {many_asked} allocations in {STEPS} batches");
    assert!(many_bytes <= most, "{many_bytes} bytes, {most} are promised");
    assert!(many_bytes <= few_bytes + few_bytes / 50, "{many_bytes} instead of {few_bytes} bytes");
    // Weights and cursors of a step, one number for each dataset; never something for a sample.
    assert!(many_asked < 4 * STEPS, "{many_asked} allocations in {STEPS} batches");
    assert!(many_asked <= few_asked + STEPS / 10, "{many_asked} instead of {few_asked}");
}
