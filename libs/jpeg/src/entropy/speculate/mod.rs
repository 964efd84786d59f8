//! Entry points of a scan that nobody has decoded before, by falling into step.
//!
//! Lanes begin at equally spaced bits, with the guess that an MCU begins there. A wrong guess decodes garbage, but Huffman
//! codes fall into step by themselves: after some symbols the lane meets a true start of a symbol, of a block, of an MCU,
//! and from there on it is right. Each lane runs on into the next one's part until both have begun an MCU at the same
//! bit. Then the MCUs and the sums of DC differences of all lanes add up to entry points.
//!
//! Nothing but lengths is decoded for that, several symbols a step. What comes out is a guess still: decoding with the
//! entry points proves it, or the image is decoded as one stream.

mod avx512;
mod joints;
mod tables;

use headwater_simd::Vbmi2;

use crate::entries::{Entry, segments_of};
use crate::entropy::{Lanes, Predictors, Segment, Sink};
use crate::header::Frame;
use joints::Joints;
use tables::Tables;

/// Lanes of one vector, and of two.
const LANES_MAX: usize = 32;
/// Steps between two looks at the log.
const STEPS: usize = 256;
/// Words that are read beyond the one of the next bit.
const WORDS_AHEAD: usize = 4;
/// MCUs of a lane at least: with fewer, few lanes fall into step.
const LANE_MCUS_MIN: u32 = 8;
/// Maximum number of starts of a lane's MCUs for which room is kept for the next image.
const RETAINED_STARTS_MAX: usize = 2048;
/// MCUs that a lane runs on into the next one's part at first.
const MARGIN_MCUS: u32 = 4;
/// Of the first MCUs of each lane all are remembered.
const FIRST_MCUS: u32 = 128;
/// Starts of MCUs that are remembered of an image at most.
const STARTS_MAX: usize = 1 << 16;

/// Tables of one image and what its lanes have met.
#[derive(Debug, Default)]
pub(crate) struct Speculator {
    tables: Tables,
    track: Box<Track>,
    /// The lanes of it that have something to do, side by side.
    work: Box<Track>,
    log: Log,
    lanes: [Lane; LANES_MAX],
    entries: Vec<Entry>,
    segments: Vec<Segment>,
}

/// Where each lane is.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Track {
    /// Next bit of the stream.
    bit: [u32; LANES_MAX],
    /// A lane stops at the word of this bit.
    limit: [u32; LANES_MAX],
    /// Place of the next coefficient in its block.
    at: [u32; LANES_MAX],
    /// Number of the block in the MCU.
    phase: [u32; LANES_MAX],
    /// Sums of the DC differences of the first component, and above them of the second one.
    first: [u32; LANES_MAX],
    /// Sums of the DC differences of the third component, and above them the number of the lane.
    second: [u32; LANES_MAX],
    step: u32,
    /// Lanes that have not stopped.
    active: u32,
}

/// Starts of MCUs in the order in which lanes came to them.
#[derive(Debug)]
struct Log {
    len: usize,
    bit: Box<[u32]>,
    first: Box<[u32]>,
    second: Box<[u32]>,
    step: Box<[u32]>,
}

/// What a lane has met.
#[derive(Debug, Default)]
struct Lane {
    /// Where its part of the bits begins, and the next one's.
    start: u32,
    next: u32,
    starts: Vec<Start>,
    /// MCUs that it has begun.
    mcus: u32,
    /// Bits that it has run on into the next lane's part.
    margin: u32,
}

/// Where a lane has begun an MCU: its number and sums are counted from the lane's own begin.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    bit: u32,
    mcu: u32,
    sums: Predictors,
    step: u32,
}

/// The lanes whose bits are set.
fn lanes_of(bits: u32) -> impl Iterator<Item = usize> {
    (0..LANES_MAX).filter(move |lane| bits >> lane & 1 == 1)
}

// === impl Track ===

impl Track {
    /// Takes the `chosen` lanes of `all`; how many vectors they are.
    fn gather(&mut self, all: &Self, chosen: u32) -> usize {
        *self = Self { step: all.step, ..Self::default() };
        for (to, from) in lanes_of(chosen).enumerate() {
            self.bit[to] = all.bit[from];
            self.limit[to] = all.limit[from];
            self.at[to] = all.at[from];
            self.phase[to] = all.phase[from];
            self.first[to] = all.first[from];
            self.second[to] = all.second[from];
        }
        if chosen.count_ones() <= LANES_MAX as u32 / 2 { 1 } else { 2 }
    }

    /// Takes the `chosen` lanes back from where they were brought together; whether one of them has not stopped.
    fn take_back(&mut self, work: &Self, chosen: u32) -> bool {
        self.step = work.step;
        for (from, to) in lanes_of(chosen).enumerate() {
            self.bit[to] = work.bit[from];
            self.at[to] = work.at[from];
            self.phase[to] = work.phase[from];
            self.first[to] = work.first[from];
            self.second[to] = work.second[from];
        }
        work.active != 0
    }
}

// === impl Log ===

impl Default for Log {
    fn default() -> Self {
        let room = || vec![0; (STEPS + 1) * LANES_MAX].into_boxed_slice();
        Self { len: 0, bit: room(), first: room(), second: room(), step: room() }
    }
}

impl Log {
    fn clear(&mut self) {
        self.len = 0;
        let all = [&self.bit, &self.first, &self.second, &self.step];
        assert!(all.iter().all(|all| all.len() >= (STEPS + 1) * LANES_MAX), "room for all starts");
    }

    /// All starts, with the lane that each is of. Positions are counted from the word that is read next.
    fn starts(&self) -> impl Iterator<Item = (usize, Start)> {
        let Self { len, bit, first, second, step } = self;
        let bits = bit[..*len].iter();
        bits.zip(&first[..*len]).zip(&second[..*len]).zip(&step[..*len]).map(
            |(((&bit, &first), &second), &step)| {
                let sums = [first as i16, (first >> 16) as i16, second as i16];
                let lane = (second >> 16) as usize % LANES_MAX;
                (lane, Start { bit: bit - 3 * 32, mcu: 0, sums, step })
            },
        )
    }
}

// === impl Start ===

impl Start {
    /// Where a lane has come to that began with what is in `self` when it was at `first`.
    fn plus(&self, start: &Self, first: &Self) -> Self {
        let sum = |c: usize| self.sums[c].wrapping_add(start.sums[c]).wrapping_sub(first.sums[c]);
        Self {
            bit: start.bit,
            mcu: self.mcu + (start.mcu - first.mcu),
            sums: std::array::from_fn(sum),
            step: self.step + (start.step - first.step),
        }
    }
}

// === impl Lane ===

impl Lane {
    fn begin(&mut self, start: u32, next: u32) {
        (self.start, self.next, self.mcus, self.margin) = (start, next, 0, 0);
        self.starts.clear();
        self.starts.push(Start { bit: start, mcu: 0, sums: [0; 3], step: 0 });
    }

    /// Remembers a start if it may be of use: to meet the lane before, to meet the next one, or as an entry point.
    #[inline(always)]
    fn push(&mut self, start: Start, every: u32) -> usize {
        self.mcus += 1;
        let mcu = self.mcus;
        if mcu > FIRST_MCUS && !mcu.is_multiple_of(every) && start.bit < self.next {
            return 0;
        }
        self.starts.push(Start { mcu, ..start });
        1
    }
}

// === impl Speculator ===

impl Speculator {
    /// Decodes the MCUs before number `to` of a scan without restart markers; the entry points that were found, right up to
    /// there. Where there are none, what `sink` has taken is of no use.
    pub(crate) fn decode(
        &mut self,
        proof: Vbmi2,
        frame: &Frame,
        (words, bits): (&[u32], u32),
        to: u32,
        lanes: &mut Lanes,
        sink: &mut dyn Sink,
    ) -> Option<&[Entry]> {
        let found = self.find(proof, frame, (words, bits));
        self.lanes.iter_mut().for_each(|lane| lane.starts.shrink_to(RETAINED_STARTS_MAX));
        found?;
        self.segments.clear();
        segments_of(&self.entries, frame, bits, (0, to), &mut self.segments).ok()?;
        lanes.decode(proof, frame, (words, bits), &self.segments, sink).ok()?;
        Some(&self.entries)
    }

    /// Finds entry points of a scan without restart markers, to be proven; `None` where lanes do not fall into step soon.
    fn find(&mut self, proof: Vbmi2, frame: &Frame, (words, bits): (&[u32], u32)) -> Option<()> {
        let phases = self.tables.prepare(proof, frame)?;
        let mcus = frame.mcus_across() * frame.mcus_down();
        let every = (mcus / 1024).max(1).next_power_of_two();
        let count = (mcus / LANE_MCUS_MIN).clamp(2, LANES_MAX as u32) as usize;
        self.begin(count, bits);
        let mcu_bits = bits / mcus;
        let mut late = u32::MAX >> (LANES_MAX - count);
        let mut joints = Joints::default();
        let mut remembered = 0;
        loop {
            self.extend(late, MARGIN_MCUS.saturating_mul(mcu_bits).saturating_add(64), bits)?;
            loop {
                let Self { tables, track, work, log, lanes, .. } = self;
                let vectors = work.gather(track, late);
                avx512::run(proof, vectors, work, &phases, words, tables.entries(), log);
                let active = track.take_back(work, late);
                for (lane, start) in log.starts() {
                    remembered += lanes[lane].push(start, every);
                }
                if remembered > STARTS_MAX {
                    return None;
                }
                if !active {
                    break;
                }
            }
            late = joints.join(&self.lanes[..count]);
            if late == 0 {
                joints.entries(&self.lanes[..count], mcus, &mut self.entries);
                return Some(());
            }
        }
    }

    fn begin(&mut self, count: usize, bits: u32) {
        *self.track = Track::default();
        let start = |n: usize| (u64::from(bits) * n as u64 / count as u64) as u32;
        for (n, lane) in self.lanes[..count].iter_mut().enumerate() {
            lane.begin(start(n), start(n + 1));
            (self.track.bit[n], self.track.second[n]) = (lane.start, (n as u32) << 16);
        }
    }

    /// Lets lanes run on into the next one's part; `None` where that is all theirs already.
    fn extend(&mut self, late: u32, by: u32, bits: u32) -> Option<()> {
        for n in lanes_of(late) {
            let lane = &mut self.lanes[n];
            let most = lane.next - lane.start;
            if lane.margin >= most {
                return None;
            }
            lane.margin = (2 * lane.margin).max(by).min(most);
            self.track.limit[n] = (lane.next + lane.margin).min(bits + 32);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
