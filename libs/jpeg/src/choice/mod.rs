//! Which way is the fastest for segments on this processor.
//!
//! Flags do not tell how fast a processor looks up the entries of a table for all lanes of a vector, or how many chains
//! of scalar look-ups it keeps under way. So all ways decode a small image, once per process and set of instructions.
//! What comes of it changes no pixel.

#[cfg(test)]
mod tests;
mod way;

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use headwater_simd::Simd;

use crate::declined::Declined;
use crate::entries::Entries;
#[cfg(target_arch = "x86_64")]
use crate::entropy::Lanes;
use crate::entropy::{End, Interleaved, Job, Lookups, Nothing, One, STREAMS_MAX, Segment};
use crate::header::Frame;
use crate::stream::Stream;

pub use way::Way;

/// What is decoded: 304 x 208 pixels, 4:4:4, more symbols than a processor's branch prediction learns by heart.
const SAMPLE: &[u8] = include_bytes!("sample.jpg");
/// Number of turns of each way; the shortest time counts.
const ROUNDS: usize = 7;
/// What one segment after the other must take of the time of interleaved ones to be chosen. Its branches are predicted
/// better in a sample that is decoded again and again than in photographs.
const ONE_AT_MOST: f64 = 0.9;
/// Numbers of segments for which lanes are measured. With less, most of a vector is idle.
const LANES: [usize; 3] = [8, 16, 32];
/// What falling into step takes of the time of full lanes in photographs: lanes run on into each other's parts, and some of
/// them end before the others.
const LANES_IN_STEP: f64 = 1.25;
/// MCUs from which on falling into step is faster than one stream, where it is so at all.
const IN_STEP_FROM: u32 = 256;

/// How segments are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Segments that take turns in scalar code, up to 4; with 1 they come one after the other.
    pub streams: usize,
    /// Segments from which on they are decoded in the lanes of vectors. It counts only where the processor has
    /// AVX-512 VBMI2.
    pub lanes_from: Option<usize>,
    /// MCUs from which on an image without segments is decoded by lanes that fall into step. It counts only where the
    /// processor has AVX-512 VBMI2.
    pub speculates_from: Option<u32>,
    /// MCUs from which on scalar code does so, with `streams` streams, where lanes do not.
    pub windows_from: Option<u32>,
}

/// What a way took.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The way.
    pub way: Way,
    /// Segments at a time.
    pub segments: usize,
    /// The least time of a symbol, in nanoseconds.
    pub ns_per_symbol: f64,
}

/// What was measured and what was chosen.
#[derive(Clone, Debug)]
pub struct Speeds {
    /// The fastest of them.
    pub choice: Choice,
    /// All that was measured.
    pub measured: Vec<Measured>,
    /// How long it took to find out.
    pub took: Duration,
}

/// The sample and memory to decode it.
struct Bench {
    simd: Simd,
    frame: Frame,
    stream: Stream,
    lookups: Lookups,
    one: One,
    interleaved: Interleaved,
    #[cfg(target_arch = "x86_64")]
    lanes: Lanes,
    symbols: u32,
    /// The sample, cut into each of the numbers of segments in [`LANES`].
    segments: [Vec<Segment>; LANES.len()],
}

// === impl Choice ===

impl Choice {
    /// Where nothing is measured.
    const ONE_AFTER_THE_OTHER: Self =
        Self { streams: 1, lanes_from: None, speculates_from: None, windows_from: None };

    fn among(measured: &[Measured]) -> Self {
        let least = |way| {
            let of_way = measured.iter().filter(move |of| of.way == way);
            of_way.min_by(|a, b| a.ns_per_symbol.total_cmp(&b.ns_per_symbol))
        };
        let (Some(one), Some(turns)) = (least(Way::One), least(Way::Interleaved)) else {
            return Self::ONE_AFTER_THE_OTHER;
        };
        let one_is_faster = one.ns_per_symbol < ONE_AT_MOST * turns.ns_per_symbol;
        let scalar = if one_is_faster { one } else { turns };
        let is_faster =
            |of: &&Measured| of.way == Way::Lanes && of.ns_per_symbol < scalar.ns_per_symbol;
        let lanes_from = measured.iter().filter(is_faster).map(|of| of.segments).min();
        let in_step = least(Way::Lanes).map(|lanes| LANES_IN_STEP * lanes.ns_per_symbol);
        let lanes_are_faster = in_step.is_some_and(|lanes| lanes < scalar.ns_per_symbol);
        let speculates_from = lanes_are_faster.then_some(IN_STEP_FROM);
        let windows_from = (!one_is_faster).then_some(IN_STEP_FROM);
        Self { streams: scalar.segments, lanes_from, speculates_from, windows_from }
    }
}

// === impl Speeds ===

impl Speeds {
    /// Measures what these instructions can do, the first time that it is asked for: a few milliseconds.
    #[must_use]
    pub fn of(simd: Simd) -> &'static Self {
        static SPEEDS: [OnceLock<Speeds>; 4] = [const { OnceLock::new() }; 4];
        let level = Simd::available().iter().position(|of| *of == simd).unwrap_or_default();
        SPEEDS[level.min(SPEEDS.len() - 1)].get_or_init(|| Self::measure(simd))
    }

    fn measure(simd: Simd) -> Self {
        let started = Instant::now();
        let measured = match simd {
            // The definitions have one way only.
            Simd::Plain => Vec::new(),
            _ => Bench::new(simd).and_then(|mut bench| bench.run()).unwrap_or_default(),
        };
        Self { choice: Choice::among(&measured), measured, took: started.elapsed() }
    }
}

impl fmt::Display for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Measured { way, segments, ns_per_symbol }) in self.measured.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}{} by {segments}: {ns_per_symbol:.2} ns", way.name())?;
        }
        Ok(())
    }
}

// === impl Bench ===

impl Bench {
    fn new(simd: Simd) -> Result<Self, Declined> {
        let frame = Frame::read(SAMPLE)?;
        let mut stream = Stream::default();
        stream.fill(simd, &SAMPLE[frame.scan..], frame.restarts())?;
        let mut lookups = Lookups::new();
        lookups.prepare(&frame);
        let mut bench = Self {
            simd,
            frame,
            stream,
            lookups,
            one: One::default(),
            interleaved: Interleaved::new(),
            #[cfg(target_arch = "x86_64")]
            lanes: Lanes::default(),
            symbols: 0,
            segments: [const { Vec::new() }; LANES.len()],
        };
        bench.cut()?;
        Ok(bench)
    }

    /// Finds the segments.
    fn cut(&mut self) -> Result<(), Declined> {
        let Self { frame, stream, lookups, .. } = self;
        let mcus = frame.mcus_across() * frame.mcus_down();
        let bits = stream.bits();
        let end = End::Padded { bit: bits };
        let segment = &Segment { bit: 0, mcu: 0, mcus, predictors: [0; 3], end };
        let mut places = Vec::new();
        let recorded = Some((&mut places, 1));
        let bytes = stream.padded();
        let job = Job { frame, lookups, bytes, bits, segment, places: recorded };
        self.one.decode(self.simd, job, &mut Nothing)?;
        self.symbols = self.one.symbols();
        for (count, segments) in LANES.into_iter().zip(&mut self.segments) {
            let entries = Entries::cut(&places, self.symbols, count as u32);
            entries.segments(frame, bits, (0, mcus), segments)?;
        }
        Ok(())
    }

    /// The ways that these instructions have, each with no time.
    fn ways(&self) -> Vec<Measured> {
        let none = |way, segments| Measured { way, segments, ns_per_symbol: f64::MAX };
        let mut ways = vec![none(Way::One, 1)];
        ways.extend((2..=STREAMS_MAX).map(|streams| none(Way::Interleaved, streams)));
        #[cfg(target_arch = "x86_64")]
        if let Simd::Avx512(proof) = self.simd
            && proof.vbmi2().is_some()
        {
            ways.extend(LANES.map(|segments| none(Way::Lanes, segments)));
        }
        ways
    }

    fn run(&mut self) -> Result<Vec<Measured>, Declined> {
        let mut ways = self.ways();
        for _ in 0..ROUNDS {
            for measured in &mut ways {
                let started = Instant::now();
                self.decode(measured.way, measured.segments)?;
                let ns = started.elapsed().as_secs_f64() * 1e9 / f64::from(self.symbols);
                measured.ns_per_symbol = measured.ns_per_symbol.min(ns);
            }
        }
        Ok(ways)
    }

    /// Decodes the sample. Lanes decode it in `segments` segments; scalar code takes `segments` of
    /// them at a time.
    fn decode(&mut self, way: Way, segments: usize) -> Result<(), Declined> {
        let Self { simd, frame, lookups, .. } = self;
        let bits = self.stream.bits();
        match way {
            #[cfg(target_arch = "x86_64")]
            Way::Lanes => {
                let Simd::Avx512(proof) = *simd else { return Ok(()) };
                let Some(proof) = proof.vbmi2() else { return Ok(()) };
                let split = LANES.iter().position(|count| *count == segments).unwrap_or_default();
                let words = (self.stream.words(), bits);
                self.lanes.decode(proof, frame, words, &self.segments[split], &mut Nothing)
            }
            Way::Interleaved => {
                let (ways, tables) = ((*simd, segments), (&*frame, &*lookups));
                let from = (self.stream.padded(), bits);
                let all = &self.segments[LANES.len() - 1];
                self.interleaved.decode(ways, tables, from, all, &mut Nothing)
            }
            _ => self.segments[LANES.len() - 1].iter().try_for_each(|segment| {
                let bytes = self.stream.padded();
                let job = Job { frame, lookups, bytes, bits, segment, places: None };
                self.one.decode(*simd, job, &mut Nothing)
            }),
        }
    }
}
