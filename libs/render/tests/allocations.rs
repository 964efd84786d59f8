//! A warm renderer takes no memory for a sample.
//!
//! What is counted is what Rust code asks its allocator for, on the thread that renders. The JPEG
//! library's own few blocks per image come from C's `malloc` and are not seen here; that the
//! memory of the whole process stays bounded is the matter of `resident_memory`.

#[path = "support/photos.rs"]
mod photos;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use headwater_core::recipe::PRESETS;
use headwater_core::{Dtype, Layout as BatchLayout, Recipe, SampleId};
use headwater_part_rows::SliceRow;
use headwater_render::part::{PartPlan, PartScales};
use headwater_render::{PartSample, RenderKey, Renderer};
use headwater_simd::Simd;

/// The system's allocator; counts what each thread asks for.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came; counting touches a thread-local
// number without a destructor, for which no memory is taken.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the block came from the system's allocator, as all of them do.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator, as all of them do.
        unsafe { System.dealloc(block, layout) }
    }
}

fn count() {
    ASKED.set(ASKED.get() + 1);
}

/// Allocations of each sample in the second of two rounds over the same photographs.
fn warm_allocations(recipe: Recipe, simd: Simd, photos: &[Vec<u8>]) -> Vec<u64> {
    let layout = BatchLayout::new(&recipe, 1);
    let regions = layout.part_regions(0, 1);
    let mut memory: Vec<Vec<u8>> = regions.iter().map(|r| vec![0; r.len_bytes as usize]).collect();
    let plan = PartPlan::new(Arc::new(recipe));
    let scales = PartScales::of(plan.recipe());
    let mut renderer = Renderer::with_simd(simd).expect("a renderer");
    let mut counts = Vec::with_capacity(2 * photos.len());
    let mut rows: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
    for _ in 0..2 {
        for (number, encoded) in photos.iter().enumerate() {
            let key = RenderKey { seed: 3, epoch: 1, pass: 0, sample: SampleId(number as u64) };
            let sample = PartSample::of_image(key, encoded, number as i64);
            let before = ASKED.get();
            let mut row = SliceRow::new(&mut rows, 0, 1);
            plan.render_sample(&mut renderer, &sample, &scales, &mut row).expect("a photograph");
            counts.push(ASKED.get() - before);
        }
    }
    counts.split_off(photos.len())
}

#[test]
fn a_warm_renderer_allocates_nothing_for_a_jpeg() {
    // Some of each size; each preset renders them twice.
    let photos: Vec<Vec<u8>> = photos::all().into_iter().step_by(4).collect();
    for (name, _) in PRESETS {
        let recipe = Recipe::preset(name, Dtype::Bf16).expect("a preset");
        let counts = warm_allocations(recipe, Simd::best(), &photos);
        assert_eq!(counts, vec![0; photos.len()], "{name}: allocations by sample");
    }
}

#[test]
fn nor_does_a_slower_twin() {
    let photos = &photos::all()[..12];
    for &simd in Simd::available() {
        for dtype in [Dtype::Fp8E4m3, Dtype::Mxfp8E4m3] {
            let recipe = Recipe::preset("dinov2", dtype).expect("a preset");
            let counts = warm_allocations(recipe, simd, photos);
            assert_eq!(counts, vec![0; photos.len()], "{}: allocations by sample", simd.name());
        }
    }
}
