//! JPEGs that kernels decode to the processor's own pixels: a segment of bits a thread.
//!
//! The processor reads the header, takes the stuffing out of the scan and looks for places at which decoding can
//! begin; the kernels do the rest (`bits.cu`, `samples.cu`, `pixels.cu`). They equal the plain versions in
//! `libs/jpeg`. An image in which a kernel finds anything amiss (damage, an entry point that does not fit,
//! coefficients out of range) is decoded by the processor instead, within the same part.
//!
//! Deliberately absent: windows. The whole image is decoded, whatever its views show.

mod batch;
mod measure;
mod proof;
mod record;
mod staged;

use std::sync::Arc;
use std::time::Instant;

use headwater_core::draw::Extent;
use headwater_jpeg::{Entries, Segment};

pub(super) use batch::{Batch, Orders};
use headwater_render::decode::{DecodeLimits, EntryTable, ImageHash, Wanted, admit};
use headwater_render::{PartSample, Rendered};
use headwater_simd::Simd;
pub use measure::{CodedImage, entries_of};
pub(super) use staged::Staged;

use super::device::{Device, DeviceError};
use super::job::{Decoded, Job};
use super::renderer::CudaRenderer;

/// Bits of a segment at most: a thread takes its time, and all others of the part would wait for it.
const SEGMENT_BITS_MAX: u32 = 1 << 18;

/// Reads JPEGs for the kernels.
pub(super) struct Coder {
    decoder: headwater_jpeg::Decoder,
    table: Option<Arc<EntryTable>>,
    /// What is copied to the device of the image that was read last.
    bytes: Vec<u8>,
    /// Those that are on the device.
    pub(super) batch: Batch,
    /// Whether there are to be any.
    pub(super) is_on: bool,
}

// === impl Coder ===

impl Coder {
    pub(super) fn new() -> Self {
        let decoder = headwater_jpeg::Decoder::new(Simd::best());
        Self { decoder, table: None, bytes: Vec::new(), batch: Batch::default(), is_on: false }
    }

    pub(super) fn share(&mut self, table: Option<Arc<EntryTable>>) {
        self.table = table;
    }

    /// Reads an image, whose size `choose` is told; none where the processor is to decode it.
    pub(super) fn read(
        &mut self,
        limits: &DecodeLimits,
        (encoded, delivered): (&[u8], &[u8]),
        choose: impl FnOnce(Extent) -> Wanted,
    ) -> Option<Staged> {
        let image = self.decoder.read(encoded).ok()?;
        let extent = admit(limits, image.width().into(), image.height().into()).ok()?;
        let known = match &self.table {
            Some(table) if !image.has_restarts() => table.get(ImageHash::of(encoded)),
            _ => None,
        };
        let delivered = if known.is_none() { Entries::read(delivered) } else { None };
        let entries = known.as_deref().or(delivered.as_ref().filter(|entries| !entries.is_empty()));
        if (entries.is_none() && !image.has_restarts()) || choose(extent).reduction != 1 {
            return None;
        }
        let outline = image.outline(entries).ok()?;
        let starts = outline.segments().iter().map(|segment: &Segment| segment.bit);
        let ends = starts.clone().skip(1).chain([outline.bytes().len() as u32 * 8]);
        let longest = starts.zip(ends).map(|(start, end)| end - start).max();
        let is_short = longest.is_some_and(|bits| bits <= SEGMENT_BITS_MAX);
        is_short.then(|| Staged::lay_out(&outline, &mut self.bytes))
    }
}

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// Puts a JPEG on the device to be decoded there; none where the processor is to decode it.
    pub(super) fn stage_coded(
        &mut self,
        job: &mut Job<'_, '_>,
        number: usize,
    ) -> Result<Option<()>, DeviceError> {
        let started = Instant::now();
        let PartSample { encoded, entries, .. } = job.samples[number];
        let Some(staged) = self.read_coded(job, number, (encoded, entries)) else {
            return Ok(None);
        };
        let (source, took) = (staged.extent, started.elapsed());
        let image = Decoded { source, extent: source, reduction: 1 };
        let Ok(room) = self.make_room(job, number, image, staged.room)? else { return Ok(None) };
        let Coder { batch, bytes, .. } = &mut self.coder;
        batch.push(number, &staged, bytes, room);
        job.sinks[number].decoded(took);
        job.note(number, Ok(Rendered { source }));
        Ok(Some(()))
    }

    fn read_coded(
        &mut self,
        job: &Job<'_, '_>,
        number: usize,
        image: (&[u8], &[u8]),
    ) -> Option<Staged> {
        let Self { coder, draws, .. } = self;
        let limits = &job.recipe.decode_limits;
        coder.read(limits, image, |extent| draws.draw(job.recipe, job.samples[number].key, extent))
    }

    /// Has the processor decode images in which kernels have found something amiss; they stay where they are.
    pub(super) fn decode_amiss(
        &mut self,
        job: &mut Job<'_, '_>,
        amiss: &[(usize, u64)],
    ) -> Result<(), DeviceError> {
        for &(number, place) in amiss {
            let PartSample { encoded, entries, .. } = job.samples[number];
            match self.judge.decode_from(encoded, entries, Wanted::all) {
                Ok(image) => {
                    let pixels = image.pixels_in(&mut self.pixels);
                    let Some(device) = &mut self.device else { return Ok(()) };
                    device.upload(place, pixels)?;
                }
                Err(error) => job.note(number, Err(error.into())),
            }
        }
        Ok(())
    }
}
