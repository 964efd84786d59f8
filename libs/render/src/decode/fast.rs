//! Baseline JPEG by the decoder of our own, where it declines nothing.

use std::ops::Range;
use std::sync::Arc;

use headwater_core::draw::{CropBox, Extent};
use headwater_jpeg::{Entries, Layout, Output, Request, Window};
use headwater_pixels::image::RgbImage;
use headwater_simd::Simd;

use crate::decode::entry_table::{EntryTable, ImageHash};
use crate::decode::left::Left;
use crate::decode::{DecodeLimits, Wanted, admit};
use crate::metrics;

/// Larger images are left to libjpeg-turbo, which keeps a few rows where our decoder keeps all samples.
const PIXELS_MAX: u64 = 16 << 20;

/// Our decoder and what it knows of images that were there before.
#[derive(Debug)]
pub(super) struct FastJpeg {
    decoder: headwater_jpeg::Decoder,
    table: Option<Arc<EntryTable>>,
}

// === impl FastJpeg ===

impl FastJpeg {
    pub(super) fn new(simd: Simd) -> Self {
        Self { decoder: headwater_jpeg::Decoder::new(simd), table: None }
    }

    /// Keeps what it learns of images there.
    pub(super) fn share(&mut self, table: Arc<EntryTable>) {
        self.table = Some(table);
    }

    pub(super) fn samples(&mut self) -> Option<(Layout, impl Iterator<Item = &[u8]>)> {
        self.decoder.samples()
    }

    pub(super) fn forget_samples(&mut self) {
        self.decoder.forget_samples();
    }

    /// Makes a window of an image out of samples; whether `read` has set all of them.
    pub(super) fn convert(
        &mut self,
        layout: &Layout,
        window: CropBox,
        image: &mut RgbImage,
        read: impl FnMut(usize, Range<usize>, &mut [u8]) -> bool,
    ) -> bool {
        let extent = Extent { width: layout.width(), height: layout.height() };
        let (window, output) = place(image, extent, window);
        self.decoder.convert(layout, window, output, read)
    }

    /// Decodes an image; whether it did. `delivered` are entries from elsewhere, none where it is empty.
    pub(super) fn decode(
        &mut self,
        limits: &DecodeLimits,
        encoded: &[u8],
        delivered: &[u8],
        choose: &mut dyn FnMut(Extent) -> Wanted,
        image: &mut RgbImage,
    ) -> bool {
        match self.try_decode(limits, encoded, delivered, choose, image) {
            Ok(()) => true,
            Err(left) => {
                metrics::jpeg_left(&left);
                false
            }
        }
    }

    fn try_decode(
        &mut self,
        limits: &DecodeLimits,
        encoded: &[u8],
        delivered: &[u8],
        choose: &mut dyn FnMut(Extent) -> Wanted,
        image: &mut RgbImage,
    ) -> Result<(), Left> {
        let file = self.decoder.read(encoded)?;
        let (width, height) = (u64::from(file.width()), u64::from(file.height()));
        let extent = admit(limits, width, height).ok().filter(|_| width * height <= PIXELS_MAX);
        let extent = extent.ok_or(Left::TooLarge)?;
        let Wanted { reduction: 1, window } = choose(extent) else { return Err(Left::Reduced) };
        let hash = self.table.as_ref().map(|table| (table, ImageHash::of(encoded)));
        let known = hash.and_then(|(table, hash)| table.get(hash));
        // Restart markers are followed in place of entries, which would not be proven.
        let reads = known.is_none() && !file.has_restarts();
        let delivered = if reads { Entries::read(delivered) } else { None };
        let entries = known.as_deref().or(delivered.as_ref().filter(|entries| !entries.is_empty()));
        let (window, output) = place(image, extent, window);
        let request = Request { window, entries, record: hash.is_some() && entries.is_none() };
        let decoded = match file.decode(&request, output) {
            Ok(decoded) => decoded,
            Err(doubt) => {
                // Entries that were wrong show as any other reason, whichever lane comes to one first.
                if let (Some((table, hash)), Some(_)) = (hash, &known) {
                    table.forget(hash);
                }
                return Err(doubt.into());
            }
        };
        if let Some((table, hash)) = hash {
            let proven = delivered.filter(|_| decoded.whole).map(Entries::proven);
            if let Some(entries) = decoded.entries.or(proven) {
                table.keep(hash, entries);
            }
        }
        metrics::jpeg_decoded(decoded.way);
        Ok(())
    }
}

/// Where a window of an image of a size goes.
fn place(image: &mut RgbImage, extent: Extent, window: CropBox) -> (Window, Output<'_>) {
    let (planes, stride) = image.reset(extent);
    let CropBox { left, top, width, height } = window;
    let [left, top, width, height] = [left, top, width, height].map(|pixels| pixels as usize);
    let [red, green, blue] = planes.map(|plane| &mut plane[top * stride + left..]);
    (Window { left, top, width, height }, Output::Planes { red, green, blue, stride })
}
