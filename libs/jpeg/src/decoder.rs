//! All together: from a file to the colours of a window.

mod outline;
mod samples;
mod ways;

use headwater_simd::Simd;

pub use self::outline::{Layer, Outline};
use crate::choice::{Choice, Way};
use crate::declined::Declined;
use crate::entries::Entries;
#[cfg(target_arch = "x86_64")]
use crate::entropy::Lanes;
use crate::entropy::{End, Interleaved, Job, Lookups, Nothing, One, Place, Plain, Segment};
pub use crate::header::Colour;
use crate::header::Frame;
use crate::layout::Layout;
use crate::pixels::{Output, Upsampler, Window};
use crate::planes::{Planes, Wanted};
use crate::stream::Stream;

/// Places among which the entries of an image are chosen, about.
const PLACES: u32 = 1024;

/// Decodes image after image into memory that it keeps. One per thread.
#[derive(Debug)]
pub struct Decoder {
    simd: Simd,
    /// The ways that are chosen, if not those that measure best.
    choice: Option<Choice>,
    stream: Stream,
    lookups: Lookups,
    one: One,
    interleaved: Interleaved,
    #[cfg(target_arch = "x86_64")]
    lanes: Lanes,
    planes: Planes,
    upsampler: Upsampler,
    /// Of the last image, where its samples are all there.
    sampled: Option<Layout>,
    segments: Vec<Segment>,
    places: Vec<Place>,
}

/// A file whose header has been read.
#[derive(Debug)]
pub struct Image<'a> {
    decoder: &'a mut Decoder,
    file: &'a [u8],
    frame: Frame,
}

/// What is wanted of an image.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The pixels that are looked at.
    pub window: Window,
    /// Where decoding can begin.
    pub entries: Option<&'a Entries>,
    /// Whether entries shall be made, if there are none: then all bits of the image are read.
    pub record: bool,
}

/// How an image was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The way that its bits were read.
    pub way: Way,
    /// Whether all bits were read, from the first to the last: entries that were used are right.
    pub whole: bool,
    /// The entries that were made.
    pub entries: Option<Entries>,
}

// === impl Decoder ===

impl Decoder {
    /// A decoder that uses these instructions. They change no byte.
    #[must_use]
    pub fn new(simd: Simd) -> Self {
        Self {
            simd,
            choice: None,
            stream: Stream::default(),
            lookups: Lookups::new(),
            one: One::default(),
            interleaved: Interleaved::new(),
            #[cfg(target_arch = "x86_64")]
            lanes: Lanes::default(),
            planes: Planes::default(),
            upsampler: Upsampler::new(simd),
            sampled: None,
            segments: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The same, which decodes in these ways instead of those that measure best ([`Speeds`](crate::Speeds)). It changes
    /// no byte.
    #[must_use]
    pub fn choosing(self, choice: Choice) -> Self {
        Self { choice: Some(choice), ..self }
    }

    /// Reads the header of a file.
    ///
    /// # Errors
    /// It is not of the kind that is decoded here.
    pub fn read<'a>(&'a mut self, file: &'a [u8]) -> Result<Image<'a>, Declined> {
        self.sampled = None;
        let frame = Frame::read(file)?;
        Ok(Image { decoder: self, file, frame })
    }

    /// Decodes what `request` wants of the scan to the planes of components; the way, and whether all was read.
    fn scan(
        &mut self,
        file: &[u8],
        frame: &Frame,
        request: &Request<'_>,
        output: Output<'_>,
    ) -> Result<Decoded, Declined> {
        let wanted = Wanted::new(frame, request.window);
        let mcus = frame.mcus_across() * frame.mcus_down();
        self.stream.fill(self.simd, &file[frame.scan..], frame.restarts())?;
        self.segments.clear();
        let bits = self.stream.bits();
        let has_restarts = frame.restart_interval > 0;
        let record = request.record && request.entries.is_none() && !has_restarts;
        let (from, to) = if record { (0, mcus) } else { wanted.mcus() };
        match request.entries {
            _ if has_restarts => restarts(frame, &self.stream, (from, to), &mut self.segments)?,
            Some(entries) => entries.segments(frame, bits, (from, to), &mut self.segments)?,
            None => {
                let end = End::of_scan(bits, to == mcus);
                self.segments.push(Segment { bit: 0, mcu: 0, mcus: to, predictors: [0; 3], end });
            }
        }
        if !has_restarts && !self.stream.restarts().is_empty() {
            return Err(Declined::Markers);
        }
        if request.entries.is_none()
            && !has_restarts
            && let Ok((way, entries)) = self.speculate(frame, Some(wanted), to, record)
        {
            let painter = self.planes.painter(self.simd, frame, wanted);
            self.upsampler.convert(painter.components(), request.window, output);
            self.sampled = wanted.is_all(frame).then(|| Layout::of(frame));
            return Ok(Decoded { way, whole: to == mcus, entries });
        }
        self.places.clear();
        let whole = to == mcus && self.segments[0].mcu == 0;
        #[cfg(target_arch = "x86_64")]
        let lanes = self.lanes();
        let streams = self.streams();
        let mut painter = self.planes.painter(self.simd, frame, wanted);
        let segments = &self.segments[..];
        let way = match self.simd {
            #[cfg(target_arch = "x86_64")]
            _ if let Some(proof) = lanes => {
                let words = self.stream.words();
                self.lanes.decode(proof, frame, (words, bits), segments, &mut painter)?;
                Way::Lanes
            }
            Simd::Plain if !record => {
                let plain = Plain::new(frame, self.stream.padded(), bits);
                segments.iter().try_for_each(|segment| plain.decode(segment, &mut painter))?;
                if segments.len() > 1 { Way::Segments } else { Way::One }
            }
            simd if streams > 1 => {
                self.lookups.prepare(frame);
                let from = (self.stream.padded(), bits);
                let tables = (frame, &self.lookups);
                self.interleaved.decode((simd, streams), tables, from, segments, &mut painter)?;
                Way::Interleaved
            }
            simd => {
                self.lookups.prepare(frame);
                let mut places = record.then_some((&mut self.places, places_apart(mcus)));
                for segment in segments {
                    let places = places.as_mut().map(|(places, every)| (&mut **places, *every));
                    let (lookups, bytes) = (&self.lookups, self.stream.padded());
                    let job = Job { frame, lookups, bytes, bits, segment, places };
                    self.one.decode(simd, job, &mut painter)?;
                }
                if segments.len() > 1 { Way::Segments } else { Way::One }
            }
        };
        self.upsampler.convert(painter.components(), request.window, output);
        self.sampled = wanted.is_all(frame).then(|| Layout::of(frame));
        let entries = record.then(|| Entries::choose(&self.places, self.one.symbols()));
        Ok(Decoded { way, whole, entries })
    }
}

// === impl Image ===

impl Image<'_> {
    /// Pixels of a row.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.frame.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.frame.height
    }

    /// Makes entries without making pixels.
    ///
    /// # Errors
    /// The image must be left to libjpeg-turbo: it has no entries.
    pub fn entries(self) -> Result<Entries, Declined> {
        let Self { decoder, file, frame } = self;
        let mcus = frame.mcus_across() * frame.mcus_down();
        decoder.stream.fill(decoder.simd, &file[frame.scan..], frame.restarts())?;
        if frame.restart_interval > 0 || !decoder.stream.restarts().is_empty() {
            // Its restart markers are entries.
            return Ok(Entries::choose(&[], 0));
        }
        if let Ok((_, Some(entries))) = decoder.speculate(&frame, None, mcus, true) {
            return Ok(entries);
        }
        let Decoder { simd, stream, lookups, one, places, .. } = decoder;
        places.clear();
        lookups.prepare(&frame);
        let bits = stream.bits();
        let end = End::Padded { bit: bits };
        let all = Segment { bit: 0, mcu: 0, mcus, predictors: [0; 3], end };
        let recorded = Some((&mut *places, places_apart(mcus)));
        let (frame, bytes, segment) = (&frame, stream.padded(), &all);
        let job = Job { frame, lookups, bytes, bits, segment, places: recorded };
        one.decode(*simd, job, &mut Nothing)?;
        Ok(Entries::choose(places, one.symbols()))
    }

    /// Decodes the window. Its first pixel is the first of `output`.
    ///
    /// # Errors
    /// The image must be left to libjpeg-turbo. What has been written is of no use.
    ///
    /// # Panics
    /// The window is empty or not within the image, or the output has no room for it.
    pub fn decode(self, request: &Request<'_>, output: Output<'_>) -> Result<Decoded, Declined> {
        let Self { decoder, file, frame } = self;
        let Window { left, top, width, height } = request.window;
        assert!(width > 0 && height > 0, "an empty window");
        let is_inside =
            left + width <= frame.width as usize && top + height <= frame.height as usize;
        assert!(is_inside, "a window beyond the image");
        decoder.scan(file, &frame, request, output)
    }
}

/// MCUs between two places among which entries are chosen.
fn places_apart(mcus: u32) -> u32 {
    (mcus / PLACES).max(1).next_power_of_two()
}

/// The segments between restart markers that hold MCUs `from..to`.
fn restarts(
    frame: &Frame,
    stream: &Stream,
    (from, to): (u32, u32),
    segments: &mut Vec<Segment>,
) -> Result<(), Declined> {
    let mcus = frame.mcus_across() * frame.mcus_down();
    let interval = frame.restart_interval;
    let starts = stream.restarts();
    if starts.len() as u32 + 1 != mcus.div_ceil(interval) {
        return Err(Declined::Markers);
    }
    let bit = |n: usize| n.checked_sub(1).map_or(0, |n| starts[n] * 8);
    for n in 0..=starts.len() {
        let mcu = n as u32 * interval;
        let next = (mcu + interval).min(mcus);
        if next <= from || mcu >= to {
            continue;
        }
        let end = if n < starts.len() { bit(n + 1) } else { stream.bits() };
        let end = if next > to { End::Open { before: end } } else { End::Padded { bit: end } };
        segments.push(Segment {
            bit: bit(n),
            mcu,
            mcus: next.min(to) - mcu,
            predictors: [0; 3],
            end,
        });
    }
    Ok(())
}
