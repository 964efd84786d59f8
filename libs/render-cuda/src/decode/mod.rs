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

use headwater_core::draw::Extent;
use headwater_jpeg::{Entries, Segment};

pub(super) use batch::{Batch, Orders};
use headwater_render::decode::{DecodeLimits, EntryTable, ImageHash, Wanted, admit};
use headwater_simd::Simd;
pub use measure::{CodedImage, entries_of};
pub(super) use staged::Staged;

/// Bits of a segment at most: a thread takes its time, and all others of the part would wait for it.
const SEGMENT_BITS_MAX: u32 = 1 << 18;

/// Reads JPEGs for the kernels.
pub(super) struct Coder {
    decoder: headwater_jpeg::Decoder,
    table: Option<Arc<EntryTable>>,
    /// What is copied to the device of the image that was read last.
    pub(super) bytes: Vec<u8>,
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

    /// Reads an image and calls `choose` with its size; none where the processor must decode it.
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
