//! A few segments at a time, by scalar code: each in turn goes on by a few symbols.
//!
//! The next symbol of a segment waits for the look-up of the one before. Those of other segments do not, so a
//! processor is at work on several at once. This is for processors without vectors that look up many entries, and for
//! those on which these look-ups are slow. `step` has the loop, `x86` the same with more instructions.

mod step;
#[cfg(target_arch = "x86_64")]
mod x86;

use headwater_simd::Simd;

use crate::declined::Declined;
use crate::entropy::lookups::Lookups;
use crate::entropy::{Mcu, Predictors, Segment, Sink};
use crate::header::{Frame, MCU_BLOCKS_MAX};
use crate::huffman::{LOOKUP_LEN, STOP, set_turns};
use crate::stream::PADDING_BYTES;
use step::{Layout, Stopped, Stream};

/// Segments that take turns at most.
pub(crate) const STREAMS_MAX: usize = 4;
/// Blocks that a segment decodes before their pixels are made.
const BATCH_BLOCKS: usize = 24;
/// Coefficients of a block.
const BLOCK: usize = 64;

/// Tables of one image: four of DC and four of AC coefficients, and the one that ends a batch.
const TABLES: usize = 9;

/// All tables one after the other.
type Turns = [u32; TABLES * LOOKUP_LEN];

/// The coefficients of a batch.
type Room = [i16; BATCH_BLOCKS * BLOCK];

/// Tables of one image and memory for the blocks of all segments that take turns.
#[derive(Debug)]
pub(crate) struct Interleaved {
    turns: Box<Turns>,
    /// All zero between two images.
    rooms: Box<[Room; STREAMS_MAX]>,
}

/// What a stream is at work on.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    segment: usize,
    /// First MCU of the batch, and its MCUs.
    mcu: u32,
    batch: u32,
    predictors: Predictors,
}

/// One image.
struct Run<'a> {
    simd: Simd,
    mcu: Mcu,
    layout: Layout<'a>,
    bits: u32,
    segments: &'a [Segment],
    /// The next segment that has not been begun.
    next: usize,
    /// Segments that take turns.
    live: usize,
    streams: [Stream; STREAMS_MAX],
    works: [Work; STREAMS_MAX],
    rooms: &'a mut [Room; STREAMS_MAX],
    /// The first segment that has failed, and why.
    failed: Option<(usize, Declined)>,
}

// === impl Interleaved ===

impl Interleaved {
    pub(crate) fn new() -> Self {
        Self {
            turns: Box::new([STOP; TABLES * LOOKUP_LEN]),
            rooms: Box::new([[0; BATCH_BLOCKS * BLOCK]; STREAMS_MAX]),
        }
    }

    /// Makes the tables of an image from its lookups.
    fn prepare(&mut self, frame: &Frame, lookups: &Lookups) {
        let (tables, _) = self.turns.as_chunks_mut::<LOOKUP_LEN>();
        let mut made = [false; TABLES];
        for component in frame.components() {
            let places = [component.dc, step::AC_TABLES + component.ac];
            for (values, place) in lookups.values(component).into_iter().zip(places) {
                if !std::mem::replace(&mut made[place], true) {
                    set_turns(values, &mut tables[place]);
                }
            }
        }
    }

    /// Decodes all `segments`, `streams` of them at a time. `bytes` are padded with zeros beyond `bits`.
    ///
    /// # Errors
    /// Why the first segment is declined that is, as if they were decoded one after the other.
    pub(crate) fn decode(
        &mut self,
        (simd, streams): (Simd, usize),
        (frame, lookups): (&Frame, &Lookups),
        (bytes, bits): (&[u8], u32),
        segments: &[Segment],
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        self.prepare(frame, lookups);
        let layout = Layout::new(frame, &self.turns, bytes);
        let mut run = Run {
            simd,
            mcu: Mcu::new(frame),
            bits,
            segments,
            next: 0,
            live: 0,
            streams: [Stream::default(); STREAMS_MAX],
            works: [Work::default(); STREAMS_MAX],
            rooms: &mut self.rooms,
            failed: None,
            layout,
        };
        run.decode(streams.clamp(1, STREAMS_MAX), sink)
    }
}

// === impl Run ===

impl Run<'_> {
    fn decode(&mut self, streams: usize, sink: &mut dyn Sink) -> Result<(), Declined> {
        while self.live < streams && self.begin(self.live) {
            self.live += 1;
        }
        while self.live > 0 {
            let (turn, stopped) = self.turns();
            match self.end_batch(turn, stopped, sink) {
                Ok(true) => {}
                Ok(false) => self.remove(turn),
                Err(doubt) => self.fail(turn, doubt),
            }
        }
        self.failed.map_or(Ok(()), |(_, doubt)| Err(doubt))
    }

    /// Goes on until a stream stops: which one, and why.
    fn turns(&mut self) -> (usize, Stopped) {
        let Self { simd, live, streams, layout, rooms, .. } = self;
        match *simd {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(proof) => x86::run(proof, *live, streams, layout, rooms),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(proof) => x86::run(proof.avx2(), *live, streams, layout, rooms),
            _ => step::run(*live, streams, layout, rooms),
        }
    }

    /// Gives a stream the next segment; whether there was one.
    fn begin(&mut self, turn: usize) -> bool {
        let Some(segment) = self.segments.get(self.next) else { return false };
        let predictors = segment.predictors;
        self.works[turn] = Work { segment: self.next, mcu: segment.mcu, batch: 0, predictors };
        self.streams[turn].begin(segment.bit);
        self.next += 1;
        self.begin_batch(turn);
        true
    }

    fn begin_batch(&mut self, turn: usize) {
        let work = &mut self.works[turn];
        let segment = &self.segments[work.segment];
        let most = (BATCH_BLOCKS / self.mcu.components().len()) as u32;
        work.batch = (segment.mcu + segment.mcus - work.mcu).min(most);
        self.streams[turn].begin_batch(self.layout.start(work.batch), &self.layout);
    }

    /// Hands the batch of a stream over and begins the next one; whether there is one.
    fn end_batch(
        &mut self,
        turn: usize,
        stopped: Stopped,
        sink: &mut dyn Sink,
    ) -> Result<bool, Declined> {
        let bit = self.streams[turn].bit();
        if stopped == Stopped::Damage || bit > self.bits {
            return Err(Declined::Damage);
        }
        let work = &mut self.works[turn];
        let segment = &self.segments[work.segment];
        let (from, to) = (self.layout.start(work.batch), self.layout.end());
        let (blocks, _) = self.rooms[turn][from..to].as_chunks_mut::<BLOCK>();
        self.mcu.predict(blocks, &mut work.predictors)?;
        sink.take(work.mcu, blocks)?;
        work.mcu += work.batch;
        if work.mcu < segment.mcu + segment.mcus {
            self.begin_batch(turn);
            return Ok(true);
        }
        segment.end.check(bit, &work.predictors)?;
        Ok(self.begin(turn))
    }

    /// Takes a stream out of the turns.
    fn remove(&mut self, turn: usize) {
        self.live -= 1;
        self.streams.swap(turn, self.live);
        self.works.swap(turn, self.live);
        self.rooms.swap(turn, self.live);
    }

    /// Ends all segments from that of a stream on: what they come to is of no use.
    fn fail(&mut self, turn: usize, doubt: Declined) {
        let first = self.works[turn].segment;
        self.failed = Some((first, doubt));
        self.next = self.segments.len();
        for turn in (0..self.live).rev() {
            if self.works[turn].segment >= first {
                self.rooms[turn].fill(0);
                self.remove(turn);
            }
        }
    }
}

/// Whatever its bits are, a batch ends within the padding: a symbol has 31 bits at most.
const _: () = assert!(BATCH_BLOCKS >= MCU_BLOCKS_MAX && BATCH_BLOCKS * BLOCK * 4 <= PADDING_BYTES);
