//! Scans that nobody has decoded before, by streams that fall into step.
//!
//! One stream goes on from where it is known that an MCU begins. Others begin further on, with the guess that an MCU
//! begins there. Huffman codes fall into step by themselves: mostly after a few MCUs such a stream has come to where an
//! MCU does begin, and from there on it is right. That is known when the stream before begins an MCU at the same bit: then
//! what follows is what that one would find. So nothing is proven later, and nothing is decoded twice but what lies before
//! those bits. Which MCUs the others have decoded, and what their DC differences are added to, is known only then, so
//! coefficients wait until then. The streams share a window of the scan that is small enough for them to stay in a cache.

use std::ops::Range;

use headwater_simd::Simd;

use super::step::{Layout, Stopped, Stream};
use super::{BLOCK, Interleaved, ROOM, Rooms, STREAM_ROOMS, STREAMS_MAX, turns};
use crate::declined::Declined;
use crate::entropy::{Known, Lookups, Mcu, Place, Scan, Segment, Sink};

/// Blocks that a stream decodes in a window, about: those of all streams stay in the second nearest cache.
const LANE_BLOCKS: u32 = 480;
/// MCUs of a stream in a window at least: with fewer, falling into step costs more than it gains.
const LANE_MCUS_MIN: u32 = 16;
/// Of the first MCUs of each guess all beginnings are remembered.
const FIRST_MCUS: usize = 12;
/// Guesses of a stream in a window at most, one after the other.
const GUESSES_MAX: u32 = 32;
/// Windows in which no guess comes true, until the rest is decoded as one stream.
const MISSES_MAX: u32 = 2;
/// What one stream has decoded of a window: a batch in each room.
#[derive(Clone, Copy)]
struct Lane {
    /// Where each batch begins, and the last one ends.
    bits: [u32; STREAM_ROOMS + 1],
    /// MCUs of each batch.
    mcus: [u32; STREAM_ROOMS],
    /// Batches.
    len: usize,
    /// Where the next stream has begun.
    limit: u32,
    /// Times that it has begun anew.
    guesses: u32,
    /// The batch from which on all are right, if that is known.
    right_from: Option<usize>,
}

/// A part of the scan that streams share.
struct Window<'a> {
    simd: Simd,
    layout: Layout<'a>,
    mcu: Mcu,
    bits: u32,
    rooms: &'a mut Rooms,
    lanes: [Lane; STREAMS_MAX],
    count: usize,
}

// === impl Interleaved ===

impl Interleaved {
    /// Decodes the rest of a scan by `streams` streams, which fall into step if they are two or more. `bytes` are padded
    /// with zeros beyond those of the scan.
    ///
    /// # Errors
    /// The scan must be decoded as one stream, which tells what is amiss; what `sink` has taken is of no use.
    pub(crate) fn fall_into_step(
        &mut self,
        (simd, streams): (Simd, usize),
        lookups: &Lookups,
        (scan, bytes): (&Scan<'_>, &[u8]),
        known: &mut Known<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let &Scan { frame, bits, to, end } = scan;
        self.prepare(frame, lookups);
        let mut window = Window {
            simd,
            layout: Layout::new(frame, &self.turns, bytes),
            mcu: Mcu::new(frame),
            bits,
            rooms: &mut self.rooms,
            lanes: [Lane::NEW; STREAMS_MAX],
            count: streams.clamp(2, STREAMS_MAX),
        };
        let count = window.count as u32;
        let most = count * LANE_BLOCKS / frame.mcu_blocks() as u32;
        let mut mcu_bits = bits / (frame.mcus_across() * frame.mcus_down());
        let mut misses = 0;
        while streams > 1 && misses <= MISSES_MAX {
            let before = known.place();
            let left = to - before.mcu;
            let mcus = left / left.div_ceil(most).max(1) / count;
            if mcus < LANE_MCUS_MIN {
                break;
            }
            let most = (bits - before.bit) / count;
            window.begin(before.bit, mcus.saturating_mul(mcu_bits).min(most));
            window.decode();
            misses += u32::from(!window.take(known, to, sink)?);
            let Place { bit, mcu, .. } = known.place();
            mcu_bits = (bit - before.bit) / (mcu - before.mcu);
        }
        let Place { bit, mcu, predictors, .. } = known.place();
        if mcu == to {
            return end.check(bit, &predictors);
        }
        known.keep();
        let rest = Segment { bit, mcu, mcus: to - mcu, predictors, end };
        self.run((simd, 1), frame, (bytes, bits), &[rest], sink)
    }
}

// === impl Lane ===

impl Lane {
    const NEW: Self = Self {
        bits: [0; STREAM_ROOMS + 1],
        mcus: [0; STREAM_ROOMS],
        len: 0,
        limit: 0,
        guesses: 0,
        right_from: None,
    };
}

// === impl Window ===

impl Window<'_> {
    /// Streams begin at `bit` and each `apart` bits further on.
    fn begin(&mut self, bit: u32, apart: u32) {
        for (lane, n) in self.lanes[..self.count].iter_mut().zip(0..) {
            *lane = Lane { limit: bit + (n + 1) * apart, ..Lane::NEW };
            lane.bits[0] = bit + n * apart;
        }
        self.lanes[0].right_from = Some(0);
    }

    /// Lets streams take turns until each has met the next one, or given up.
    fn decode(&mut self) {
        let mut streams = [Stream::default(); STREAMS_MAX];
        let mut lanes: [usize; STREAMS_MAX] = std::array::from_fn(|n| n);
        for (n, stream) in streams[..self.count].iter_mut().enumerate() {
            stream.begin(self.lanes[n].bits[0]);
            self.begin_batch(n, stream);
        }
        let mut live = self.count;
        while live > 0 {
            let (turn, stopped) = turns(self.simd, live, &mut streams, &self.layout, self.rooms);
            if !self.end_batch(lanes[turn], &mut streams[turn], stopped) {
                live -= 1;
                streams.swap(turn, live);
                lanes.swap(turn, live);
            }
        }
    }

    fn begin_batch(&mut self, n: usize, stream: &mut Stream) {
        let lane = &mut self.lanes[n];
        // Near the begin of the next stream, and of this one, any MCU may be the one to meet at.
        let is_near = n > 0 && lane.len < FIRST_MCUS
            || n + 1 < self.count && lane.bits[lane.len] >= lane.limit;
        let mcus = if is_near { 1 } else { self.layout.batch_mcus() };
        lane.mcus[lane.len] = mcus;
        stream.begin_batch(room(n, lane.len) + self.layout.start(mcus), &self.layout);
    }

    /// Keeps the batch of a stream and begins the next one; whether there is one.
    fn end_batch(&mut self, n: usize, stream: &mut Stream, stopped: Stopped) -> bool {
        let bit = stream.bit();
        let lane = &mut self.lanes[n];
        if stopped == Stopped::Damage || bit > self.bits {
            let (len, begun) = (lane.len, lane.bits[0]);
            let is_guess = lane.right_from.is_none() && len <= FIRST_MCUS;
            self.clear(n, len..len + 1);
            if stopped == Stopped::Full || !is_guess {
                return false;
            }
            // Garbage has come to where it is no code: another guess.
            self.clear(n, 0..len);
            let lane = &mut self.lanes[n];
            (lane.len, lane.bits[0]) = (0, bit.max(begun + 1));
            lane.guesses += 1;
            if lane.bits[0] >= lane.limit || lane.guesses == GUESSES_MAX {
                return false;
            }
            stream.begin(lane.bits[0]);
            self.begin_batch(n, stream);
            return true;
        }
        lane.len += 1;
        lane.bits[lane.len] = bit;
        let goes_on = lane.len < STREAM_ROOMS
            && (bit < lane.limit || n + 1 < self.count && !self.meets_next(n));
        if goes_on {
            self.begin_batch(n, stream);
        }
        goes_on
    }

    /// Whether a stream has come to where the next one has begun an MCU.
    fn meets_next(&mut self, n: usize) -> bool {
        let bit = self.lanes[n].bits[self.lanes[n].len];
        let next = &mut self.lanes[n + 1];
        next.right_from = next.bits[..=next.len].binary_search(&bit).ok();
        next.right_from.is_some()
    }

    /// Hands over what is right, from `known` on and before MCU number `to`, and goes there; whether a guess came true.
    fn take(
        &mut self,
        known: &mut Known<'_>,
        to: u32,
        sink: &mut dyn Sink,
    ) -> Result<bool, Declined> {
        let before = known.place().mcu;
        let (mut is_right, mut met) = (true, 0);
        let mut outcome = Ok(());
        for n in 0..self.count {
            let Lane { len, right_from, .. } = self.lanes[n];
            let from = right_from.filter(|_| is_right).unwrap_or(len);
            let mut at = from;
            while at < len && known.place().mcu + self.lanes[n].mcus[at] <= to && outcome.is_ok() {
                outcome = self.take_batch(n, at, known, sink);
                at += 1;
            }
            met += u32::from(from < len);
            // What comes next belongs to the end of this stream.
            is_right &= right_from.is_some() && at == len && outcome.is_ok();
            self.clear(n, 0..from);
            self.clear(n, at..len);
        }
        if outcome.is_err() {
            self.rooms.fill(0);
        }
        outcome?;
        // What ends a scan too early is no guess.
        known.is_in_step |= met > 1;
        if known.place().mcu > before { Ok(met > 1) } else { Err(Declined::Damage) }
    }

    fn take_batch(
        &mut self,
        n: usize,
        at: usize,
        known: &mut Known<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let lane = &self.lanes[n];
        let (start, end) = (self.layout.start(lane.mcus[at]), self.layout.end());
        let (blocks, _) = self.rooms[room(n, at)..][start..end].as_chunks_mut::<BLOCK>();
        known.take(&self.mcu, lane.bits[at + 1], blocks, sink)
    }

    /// Leaves zeros where batches of a stream were.
    fn clear(&mut self, n: usize, batches: Range<usize>) {
        for at in batches {
            let (start, end) = (self.layout.start(self.lanes[n].mcus[at]), self.layout.end());
            self.rooms[room(n, at)..][start..end].fill(0);
        }
    }
}

/// Where the room of a batch begins.
fn room(n: usize, batch: usize) -> usize {
    (n * STREAM_ROOMS + batch) * ROOM
}
