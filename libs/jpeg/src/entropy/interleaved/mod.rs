//! A few segments at a time, by scalar code: each in turn goes on by a few symbols.
//!
//! The next symbol of a segment waits for the look-up of the one before. Those of other segments do not, so a
//! processor is at work on several at once. This is for processors without vectors that look up many entries, and for
//! those on which these look-ups are slow. `step` has the loop, `x86` the same with more instructions.

mod step;
mod windows;
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

/// Blocks of a room: as many as a batch has, and more, so that no bound is checked.
const ROOM_BLOCKS: usize = 32;
/// Coefficients of a room.
const ROOM: usize = ROOM_BLOCKS * BLOCK;
/// Rooms of a stream: more than one only where it falls into step.
const STREAM_ROOMS: usize = 64;
/// Rooms of all streams.
const ROOMS: usize = STREAMS_MAX * STREAM_ROOMS;

/// The coefficients of one batch in each room.
type Rooms = [i16; ROOMS * ROOM];

/// Tables of one image and memory for the blocks of all segments that take turns.
#[derive(Debug)]
pub(crate) struct Interleaved {
    turns: Box<Turns>,
    /// All zero between two images.
    rooms: Box<Rooms>,
}

/// What a stream is at work on.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    segment: usize,
    /// Where its room begins.
    room: usize,
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
    rooms: &'a mut Rooms,
    /// The first segment that has failed, and why.
    failed: Option<(usize, Declined)>,
}

// === impl Interleaved ===

impl Interleaved {
    pub(crate) fn new() -> Self {
        Self {
            turns: Box::new([STOP; TABLES * LOOKUP_LEN]),
            // Memory that nobody writes to is not taken.
            rooms: vec![0; ROOMS * ROOM].try_into().expect("as many"),
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
        self.run((simd, streams), frame, (bytes, bits), segments, sink)
    }

    /// The same with tables that have been made.
    fn run(
        &mut self,
        (simd, streams): (Simd, usize),
        frame: &Frame,
        (bytes, bits): (&[u8], u32),
        segments: &[Segment],
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let layout = Layout::new(frame, &self.turns, bytes);
        let mut run = Run {
            simd,
            mcu: Mcu::new(frame),
            bits,
            segments,
            next: 0,
            live: 0,
            streams: [Stream::default(); STREAMS_MAX],
            works: std::array::from_fn(|n| Work {
                room: n * STREAM_ROOMS * ROOM,
                ..Work::default()
            }),
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
            let (turn, stopped) =
                turns(self.simd, self.live, &mut self.streams, &self.layout, self.rooms);
            match self.end_batch(turn, stopped, sink) {
                Ok(true) => {}
                Ok(false) => self.remove(turn),
                Err(doubt) => self.fail(turn, doubt),
            }
        }
        self.failed.map_or(Ok(()), |(_, doubt)| Err(doubt))
    }

    /// Gives a stream the next segment; whether there was one.
    fn begin(&mut self, turn: usize) -> bool {
        let Some(segment) = self.segments.get(self.next) else { return false };
        let work = &mut self.works[turn];
        (work.segment, work.mcu) = (self.next, segment.mcu);
        work.predictors = segment.predictors;
        self.streams[turn].begin(segment.bit);
        self.next += 1;
        self.begin_batch(turn);
        true
    }

    fn begin_batch(&mut self, turn: usize) {
        let work = &mut self.works[turn];
        let segment = &self.segments[work.segment];
        let most = self.layout.batch_mcus();
        work.batch = (segment.mcu + segment.mcus - work.mcu).min(most);
        self.streams[turn].begin_batch(work.room + self.layout.start(work.batch), &self.layout);
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
        let (blocks, _) = self.rooms[work.room..][from..to].as_chunks_mut::<BLOCK>();
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
    }

    /// Ends all segments from that of a stream on: what they come to is of no use.
    fn fail(&mut self, turn: usize, doubt: Declined) {
        let first = self.works[turn].segment;
        self.failed = Some((first, doubt));
        self.next = self.segments.len();
        for turn in (0..self.live).rev() {
            if self.works[turn].segment >= first {
                self.rooms[self.works[turn].room..][..ROOM].fill(0);
                self.remove(turn);
            }
        }
    }
}

/// Lets the first `live` streams take turns until one of them stops: which one, and why.
fn turns(
    simd: Simd,
    live: usize,
    streams: &mut [Stream; STREAMS_MAX],
    layout: &Layout<'_>,
    rooms: &mut Rooms,
) -> (usize, Stopped) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) => x86::run(proof, live, streams, layout, rooms),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => x86::run(proof.avx2(), live, streams, layout, rooms),
        _ => step::run(live, streams, layout, rooms),
    }
}

/// Whatever its bits are, a batch ends within the padding: a symbol has 31 bits at most.
const _: () = assert!(BATCH_BLOCKS >= MCU_BLOCKS_MAX && BATCH_BLOCKS * BLOCK * 4 <= PADDING_BYTES);
