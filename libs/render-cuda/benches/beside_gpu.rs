//! The processor's work for a part that a GPU renders, with a device that does nothing: microseconds a photo on one core.
//!
//! `HEADWATER_BENCH_PHOTOS` names a folder of tars; the argument is a preset, `dinov2` by default. Photos come with their
//! entry points, and the device "decodes" them. What is left is what bounds a worker whose GPU is fast enough:
//! headers and stuffing, draws, taps and records, copies to pinned memory. Checksums of the rows are in it too, which a GPU
//! computes where it writes rows directly.

#[path = "../../render/benches/support/photos.rs"]
mod photos;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use headwater_core::{Dtype, Layout, Recipe, Region, SampleId};
use headwater_part_rows::Pins;
use headwater_render::part::{PartPlan, PartScales};
use headwater_render::{PartSample, RenderKey};
use headwater_render_cuda::{CudaRenderer, Device, DeviceError, DirectRows, Launch, entries_of};
use headwater_transport::{PartBuffer, PartMemory, RowDraft, RowMemory};

const PART_SAMPLES: usize = 32;
const STAGING_BYTES: usize = 16 << 20;
const ROUNDS: usize = 100;

/// Takes what it is given and does nothing; says that nothing is amiss.
struct Idle {
    staging: Vec<u8>,
    staged: usize,
    statuses: Vec<u8>,
    pins: Everything,
}

struct Everything;

impl Pins for Everything {
    #[allow(unsafe_code)] // The trait's own word; nothing is done with the memory.
    unsafe fn pin(&self, _: NonNull<[u8]>) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(()))
    }

    fn reaches_windows(&self) -> bool {
        false
    }
}

impl Device for Idle {
    fn name(&self) -> String {
        "idle".to_owned()
    }

    fn arena_bytes(&self) -> u64 {
        1 << 30
    }

    fn shared_bytes_max(&self) -> u32 {
        227 << 10
    }

    fn upload(&mut self, _: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        for piece in bytes.chunks(STAGING_BYTES) {
            if self.staged + piece.len() > STAGING_BYTES {
                self.staged = 0;
            }
            self.staging[self.staged..][..piece.len()].copy_from_slice(piece);
            self.staged += piece.len();
        }
        Ok(())
    }

    fn launch(&mut self, _: &Launch) -> Result<(), DeviceError> {
        Ok(())
    }

    fn pins(&self) -> Option<&dyn Pins> {
        Some(&self.pins)
    }

    fn download_rows(
        &mut self,
        _: &DirectRows,
        offset: u64,
        bytes: u64,
    ) -> Result<&[u8], DeviceError> {
        self.download(offset, bytes)
    }

    fn download(&mut self, _: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        self.statuses.resize(bytes as usize, 0);
        Ok(&self.statuses)
    }
}

fn main() {
    let Some(photos) = photos::read() else { return };
    assert!(photos.len() >= PART_SAMPLES, "{} photos: give {PART_SAMPLES} or more", photos.len());
    let preset = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let preset = preset.unwrap_or_else(|| "dinov2".to_owned());
    let entries: Vec<Vec<u8>> = photos.iter().map(|photo| entries_of(photo)).collect();
    let recipe = Arc::new(Recipe::preset(&preset, Dtype::Bf16).expect("a preset"));
    let plan = PartPlan::new(Arc::clone(&recipe));
    let scales = PartScales::of(&recipe);
    let samples = PART_SAMPLES as u32;
    let regions: Arc<[Region]> = Layout::new(&recipe, samples).part_regions(0, samples).into();
    let memory = PartMemory::new(PartMemory::bytes_for(&regions)).expect("memory");
    let part = PartBuffer::in_memory(regions, memory, drop).expect("a part");
    let rows = part.into_rows(PART_SAMPLES);
    let mut rows: Vec<RowDraft> =
        rows.into_iter().map(|row| row.draft(RowMemory::default)).collect();
    let idle =
        Idle { staging: vec![0; STAGING_BYTES], staged: 0, statuses: Vec::new(), pins: Everything };
    let mut renderer = CudaRenderer::new(idle).expect("a renderer").decoding(true);
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let (mut rendering, mut summing, mut done) = (0.0, 0.0, 0);
        for first in (0..=photos.len() - PART_SAMPLES).step_by(PART_SAMPLES) {
            let sample = |number: usize| PartSample {
                key: RenderKey {
                    seed: 0,
                    epoch: round as u32,
                    pass: 0,
                    sample: SampleId(number as u64),
                },
                encoded: &photos[number],
                entries: &entries[number],
                extra_fields: &[],
                label: -1,
            };
            let samples: Vec<PartSample<'_>> = (first..first + PART_SAMPLES).map(sample).collect();
            let mut lent: Vec<&mut RowDraft> = rows.iter_mut().collect();
            let started = Instant::now();
            let ends = plan.render_samples(&mut renderer, &scales, &samples, &mut lent);
            rendering += started.elapsed().as_secs_f64();
            assert!(ends.iter().all(Result::is_ok), "{ends:?}");
            let started = Instant::now();
            lent.into_iter().for_each(|row| _ = row.checksum());
            summing += started.elapsed().as_secs_f64();
            done += PART_SAMPLES;
        }
        let each = |seconds: f64| seconds * 1e6 / done as f64;
        rounds.push((each(rendering), each(summing)));
    }
    // The first ones take memory.
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (rendering, summing) = rounds[ROUNDS / 2];
    let decoded = renderer.counts().decoded;
    println!(
        "{preset}: {rendering:.0} us a photo, and {summing:.0} for checksums, the median of {ROUNDS} rounds; \
         {decoded} decoded by the device"
    );
}
