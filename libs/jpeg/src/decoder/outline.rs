//! What a decoder elsewhere, on a GPU, needs to know of an image to give the same pixels.

use super::{Image, restarts};
use crate::declined::Declined;
use crate::entries::Entries;
use crate::entropy::{End, Segment};
use crate::header::{Colour, Frame};
use crate::huffman::Code;
use crate::pixels::{MAX_STEP, NATURAL};
use crate::stream::Stream;

/// A scan without its stuffing, cut into segments that can be decoded side by side, and all tables.
///
/// Nothing has been decoded. Whoever decodes it must find each segment's [`End`] as it says, coefficients and samples
/// in range and no bits that are no code; where that is not so, [`Image::decode`] or libjpeg-turbo must decode the
/// image.
#[derive(Debug)]
pub struct Outline<'a> {
    frame: Frame,
    stream: &'a Stream,
    segments: &'a [Segment],
}

/// One component of an image.
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    /// Blocks of an MCU across.
    pub h: u32,
    /// Blocks of an MCU down.
    pub v: u32,
    /// Samples of a row, without those that only fill blocks.
    pub width: u32,
    /// Rows, likewise.
    pub height: u32,
    /// Quantisation steps, row by row.
    pub steps: [u16; 64],
    /// Code of differences of DC.
    pub dc: &'a Code,
    /// Code of the other coefficients.
    pub ac: &'a Code,
}

// === impl Image ===

impl<'a> Image<'a> {
    /// Whether the header announces restart markers, which are places where decoding can begin.
    #[must_use]
    pub fn has_restarts(&self) -> bool {
        self.frame.restart_interval > 0
    }

    /// Outlines the whole image. Its segments begin at its restart markers, or at the entries; it has one
    /// segment where it has neither.
    ///
    /// # Errors
    /// It must be left to libjpeg-turbo, or an entry cannot be right.
    pub fn outline(self, entries: Option<&Entries>) -> Result<Outline<'a>, Declined> {
        let Self { decoder, file, frame } = self;
        let quants = frame.components().iter().map(|component| frame.quant(component));
        if quants.flatten().any(|step| *step > MAX_STEP) {
            return Err(Declined::Range);
        }
        let mcus = frame.mcus_across() * frame.mcus_down();
        let (stream, segments) = (&mut decoder.stream, &mut decoder.segments);
        stream.fill(decoder.simd, &file[frame.scan..], frame.restarts())?;
        segments.clear();
        let bits = stream.bits();
        if frame.restart_interval > 0 {
            restarts(&frame, stream, (0, mcus), segments)?;
        } else if !stream.restarts().is_empty() {
            return Err(Declined::Markers);
        } else if let Some(entries) = entries {
            entries.segments(&frame, bits, (0, mcus), segments)?;
        } else {
            let end = End::Padded { bit: bits };
            segments.push(Segment { bit: 0, mcu: 0, mcus, predictors: [0; 3], end });
        }
        Ok(Outline { frame, stream, segments })
    }
}

// === impl Outline ===

impl Outline<'_> {
    /// The coded pixels without stuffing and markers.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.stream.padded()[..self.stream.bits() as usize / 8]
    }

    /// Segments in order, which hold all MCUs.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.segments
    }

    /// What the components mean.
    #[must_use]
    pub fn colour(&self) -> Colour {
        self.frame.colour
    }

    /// Pixels of a row, and rows.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (self.frame.width, self.frame.height)
    }

    /// MCUs across and down.
    #[must_use]
    pub fn mcus(&self) -> (u32, u32) {
        (self.frame.mcus_across(), self.frame.mcus_down())
    }

    /// The components, one or three, in the order in which an MCU has their blocks.
    pub fn layers(&self) -> impl Iterator<Item = Layer<'_>> {
        let frame = &self.frame;
        let (h_max, v_max) = (frame.h_max(), frame.v_max());
        frame.components().iter().map(move |component| {
            let mut steps = [0; 64];
            for (at, step) in NATURAL.iter().zip(frame.quant(component)) {
                steps[usize::from(*at)] = *step;
            }
            Layer {
                h: component.h,
                v: component.v,
                width: (frame.width * component.h).div_ceil(h_max),
                height: (frame.height * component.v).div_ceil(v_max),
                steps,
                dc: frame.dc_code(component),
                ac: frame.ac_code(component),
            }
        })
    }
}
