//! JPEGs that kernels decode to the processor's own pixels: a segment of bits a thread.
//!
//! The processor reads the header and takes the stuffing out of the scan; the kernels do the rest (`find.cu`, `bits.cu`,
//! `samples.cu`, `pixels.cu`). They equal the plain versions in `libs/jpeg`. An image in which a kernel finds anything
//! amiss (damage, an entry point that does not fit, coefficients out of range, no place at which decoding could begin) is
//! decoded by the processor instead, within the same part.
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
pub use measure::{CodedImage, Ways, entries_of};
use record::{FOUND_MCUS_MIN, LANES, SEGMENT_BITS_MAX, SEGMENT_BLOCKS_MAX};
pub(super) use staged::Staged;

/// Bytes of an image's Huffman tables at most: three times those of photos. They are in shared memory, which an image
/// with many long codes would need more of than a GPU has.
const TABLES_BYTES_MAX: u32 = 24 << 10;

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
        let hashed = self.table.as_ref().filter(|_| !image.has_restarts());
        let hashed = hashed.map(|table| (table, ImageHash::of(encoded)));
        let known = hashed.and_then(|(table, hash)| table.get(hash));
        let delivered = if known.is_none() { Entries::read(delivered) } else { None };
        let entries = known.as_deref().or(delivered.as_ref().filter(|entries| !entries.is_empty()));
        let has_segments = entries.is_some() || image.has_restarts();
        if choose(extent).reduction != 1 {
            return None;
        }
        let outline = image.outline(entries).ok().filter(|outline| !outline.bytes().is_empty())?;
        let (across, down) = outline.mcus();
        let finds = !has_segments && across * down >= FOUND_MCUS_MIN;
        let are_short = if finds {
            outline.bytes().len() as u32 * 8 / LANES <= SEGMENT_BITS_MAX
        } else {
            let blocks = outline.layers().map(|layer| layer.h * layer.v).sum::<u32>();
            let starts = outline.segments().iter().map(|segment: &Segment| segment.bit);
            let ends = starts.clone().skip(1).chain([outline.bytes().len() as u32 * 8]);
            let are_few = |segment: &Segment| segment.mcus * blocks <= SEGMENT_BLOCKS_MAX;
            starts.zip(ends).all(|(start, end)| end - start <= SEGMENT_BITS_MAX)
                && outline.segments().iter().all(are_few)
        };
        let hash = hashed.map(|(_, hash)| hash);
        let staged =
            are_short.then(|| Staged { hash, ..Staged::lay_out(&outline, finds, &mut self.bytes) });
        staged.filter(|staged| staged.table_bytes() <= TABLES_BYTES_MAX)
    }

    /// Keeps what kernels have found out about images: see [`Batch::learnt`].
    pub(super) fn keep(&self, results: &[u8]) {
        let Some(table) = &self.table else { return };
        self.batch.learnt(results).for_each(|(hash, entries)| table.keep(hash, entries));
    }
}
