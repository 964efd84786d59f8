//! Scans that nobody has decoded before, in lanes that fall into step.
//!
//! The first lane goes on from where it is known that an MCU begins. The others begin further on at equal distances, with
//! the guess that an MCU begins there. A wrong guess decodes garbage, but Huffman codes fall into step by themselves:
//! after some symbols the lane meets a true start of a symbol, of a block, of an MCU, and from there on it is right. That
//! is known when the lane before begins an MCU at the same bit: then what follows is what that one would find. So nothing
//! is proven later, and nothing is decoded twice but what lies before those bits. Which MCUs the others have decoded, and
//! what their DC differences are added to, is known only then, so coefficients wait until then. The lanes share a window
//! of the scan that is small enough for them to stay in the second nearest cache.

use headwater_simd::Vbmi2;

use super::{BLOCK, LANES_MAX, Lanes, Run, State, avx512, lanes_of};
use crate::declined::Declined;
use crate::entropy::{Known, Place, Scan, Sink};
use crate::huffman::{NO_VALUE, UNKNOWN, extend, step_at};

/// Blocks that a lane decodes in a window, about.
const LANE_BLOCKS: u32 = 160;
/// Blocks that a lane has room for, garbage included: an odd number, so that lanes lie in different sets of a cache.
const ROOM_BLOCKS: usize = 3 * LANE_BLOCKS as usize + 1;
/// Coefficients of a lane's room.
const ROOM: usize = ROOM_BLOCKS * BLOCK;
/// Where a lane that begins at 0 ends: one block less, so that what begins or is written there is not the next lane's.
const END: usize = ROOM - BLOCK;
/// MCUs of a lane at least: with fewer, falling into step costs more than it gains.
const LANE_MCUS_MIN: u32 = 8;
/// Lanes of a window at least: with fewer, most of a vector is idle.
const WINDOW_LANES_MIN: u32 = 8;
/// Vectors stop when few lanes are left: a window begins with more.
const _: () = assert!(WINDOW_LANES_MIN > avx512::FEW);
/// MCUs that a lane runs on into the next one's part at first.
const MARGIN_MCUS: u32 = 3;
/// Windows in which no guess comes true, until something else decodes the rest.
const MISSES_MAX: u32 = 1;

/// MCUs that lanes have begun, in the order in which they came to them.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) len: usize,
    /// Where each MCU begins, counted from the word that is read next: three words more.
    pub(super) bit: Box<[u32]>,
    /// The place of its first coefficient, which tells the lane.
    pub(super) at: Box<[u32]>,
}

/// Memory of windows, kept for the next image.
#[derive(Debug, Default)]
pub(super) struct Memory {
    log: Log,
    /// Where each lane's MCUs begin, and the last one ends.
    starts: [Vec<u32>; LANES_MAX],
}

/// A part of the scan that lanes share.
struct Window<'a> {
    proof: Vbmi2,
    run: Run<'a>,
    tables: &'a [u32],
    blocks: &'a mut [i16],
    state: &'a mut State,
    memory: &'a mut Memory,
    /// Lanes.
    count: usize,
    /// Where each lane has begun, and where the last one should end.
    begun: [u32; LANES_MAX + 1],
    /// Of the starts of each lane the one from which on it is right, and the one at which the next lane takes over.
    right_from: [Option<usize>; LANES_MAX + 1],
    met: [Option<usize>; LANES_MAX],
}

// === impl Log ===

impl Log {
    /// The log counts bits from the word that is read next.
    const AHEAD: u32 = 3 * 32;

    /// Makes room for all MCUs that all rooms hold, and more.
    fn clear(&mut self) {
        let room = LANES_MAX * (ROOM_BLOCKS + 2) + LANES_MAX;
        if self.bit.len() < room {
            (self.bit, self.at) = (vec![0; room].into(), vec![0; room].into());
        }
        self.len = 0;
    }

    fn push(&mut self, bit: u32, at: u32) {
        (self.bit[self.len], self.at[self.len]) = (bit + Self::AHEAD, at);
        self.len += 1;
    }

    /// Where MCUs begin, and the places of their first coefficients.
    fn starts(&self) -> impl Iterator<Item = (u32, u32)> {
        let bits = self.bit[..self.len].iter().map(|bit| bit - Self::AHEAD);
        bits.zip(self.at[..self.len].iter().copied())
    }
}

// === impl State ===

impl State {
    /// Whether a lane is where an MCU begins.
    fn begins_mcu(&self, lane: usize) -> bool {
        self.phase[lane] == 0 && self.at[lane].is_multiple_of(BLOCK as u32)
    }

    /// Whether a lane that falls into step is before its limit and has room.
    fn may_go_on(&self, lane: usize) -> bool {
        self.at[lane] < self.end[lane] && self.bit[lane] / 32 < self.limit[lane] / 32
    }
}

// === impl Run ===

impl Run<'_> {
    /// Lets a lane go on by itself until it meets the next one, begins at bit `last` or beyond, or has begun `starts_max` MCUs
    /// after its first one: the numbers of the starts at which they meet.
    fn alone(
        &self,
        (state, lane): (&mut State, usize),
        (blocks, tables): (&mut [i16], &[u32]),
        starts: &mut Vec<u32>,
        (last, starts_max): (u32, usize),
        next: &[u32],
    ) -> Option<(usize, usize)> {
        let end = state.end[lane];
        let mut there = 0;
        // In variables of their own, so that they can be registers.
        let (mut bit, mut at) = (state.bit[lane], state.at[lane]);
        let (mut phase, mut table) = (state.phase[lane] as usize % 16, state.table[lane]);
        let mut found = None;
        while at < end && bit < last && starts.len() <= starts_max {
            let window = self.window(bit);
            let entry = step_at(tables, table, window);
            let is_end = if entry & UNKNOWN != 0 {
                (state.bit[lane], state.at[lane]) = (bit, at);
                (state.phase[lane], state.table[lane]) = (phase as u32, table);
                self.guess(state, lane, blocks);
                (bit, at) = (state.bit[lane], state.at[lane]);
                (phase, table) = (state.phase[lane] as usize % 16, state.table[lane]);
                at.is_multiple_of(BLOCK as u32)
            } else {
                let place = at + (entry >> 24);
                if (place ^ at) & BLOCK as u32 == 0 {
                    let size = 32 - (entry >> 16 & 63);
                    blocks[place as usize] = extend(window << (entry >> 8 & 63), size) as i16;
                } else if entry & NO_VALUE == 0 {
                    state.doubt[lane] = at;
                }
                bit += entry & 255;
                let is_end = ((place + 1) ^ at) & BLOCK as u32 != 0;
                (at, table) = (place + 1, self.phases.ac[phase]);
                if is_end {
                    at &= !(BLOCK as u32 - 1);
                    phase = self.phases.next[phase] as usize % 16;
                    table = self.phases.dc[phase];
                }
                is_end
            };
            if is_end && phase == 0 {
                starts.push(bit);
                there += next[there..].partition_point(|&start| start < bit);
                if next.get(there) == Some(&bit) {
                    found = Some((starts.len() - 1, there));
                    break;
                }
            }
        }
        (state.bit[lane], state.at[lane]) = (bit, at);
        (state.phase[lane], state.table[lane]) = (phase as u32, table);
        found
    }

    /// Takes one symbol that the tables do not know: one that is no code ends the block, as garbage does.
    fn guess(&self, state: &mut State, lane: usize, blocks: &mut [i16]) {
        let at = state.at[lane];
        if self.rare(state, lane, blocks).is_err() {
            state.bit[lane] += 1;
            state.doubt[lane] = at | 1;
            self.end_block(state, lane);
        }
    }
}

// === impl Lanes ===

impl Lanes {
    /// Decodes a scan from its start on, as far as lanes fall into step: what is known there.
    ///
    /// # Errors
    /// The scan must be decoded as one stream, which tells what is amiss; what `sink` has taken is of no use.
    pub(crate) fn fall_into_step(
        &mut self,
        proof: Vbmi2,
        scan: &Scan<'_>,
        words: &[u32],
        known: &mut Known<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let &Scan { frame, bits, to, .. } = scan;
        self.prepare(frame);
        let mcu_blocks = frame.mcu_blocks();
        let blocks = self.blocks.first(LANES_MAX * ROOM);
        let mut window = Window {
            proof,
            run: Run::new(frame, (words, bits), &[]),
            tables: &self.tables,
            blocks,
            state: &mut self.state,
            memory: &mut self.windows,
            count: 0,
            begun: [0; LANES_MAX + 1],
            right_from: [None; LANES_MAX + 1],
            met: [None; LANES_MAX],
        };
        let all = frame.mcus_across() * frame.mcus_down();
        let most = LANES_MAX as u32 * LANE_BLOCKS / mcu_blocks as u32;
        let mut mcu_bits = bits / all;
        let mut misses = 0;
        while misses <= MISSES_MAX {
            let before = known.place();
            let left = to - before.mcu;
            let mcus = left / left.div_ceil(most).max(1);
            let count = (mcus / LANE_MCUS_MIN).min(LANES_MAX as u32);
            if count < WINDOW_LANES_MIN {
                break;
            }
            let rest = bits - before.bit;
            let is_rest = mcus == left && to == all;
            let len = if is_rest { rest } else { mcus.saturating_mul(mcu_bits).min(rest) };
            window.begin(before.bit, len, count as usize);
            window.decode(MARGIN_MCUS * mcu_bits + 32, left as usize);
            let outcome = window.take(known, to, sink);
            if outcome.is_err() {
                window.blocks.fill(0);
            }
            misses += u32::from(!outcome?);
            let Place { bit, mcu, .. } = known.place();
            mcu_bits = (bit - before.bit) / (mcu - before.mcu);
        }
        Ok(())
    }
}

// === impl Window ===

impl Window<'_> {
    /// `count` lanes begin at equal distances in `len` bits from `bit` on.
    fn begin(&mut self, bit: u32, len: u32, count: usize) {
        let Self { state, memory, run, .. } = self;
        **state = State::default();
        let start = |n: usize| bit + (u64::from(len) * n as u64 / count as u64) as u32;
        for n in 0..count {
            (state.bit[n], state.table[n]) = (start(n), run.phases.dc[0]);
            state.at[n] = (n * ROOM) as u32;
            state.end[n] = (n * ROOM + END) as u32;
            memory.starts[n].clear();
            memory.starts[n].push(start(n));
            self.begun[n] = start(n);
        }
        self.begun[count] = start(count);
        self.count = count;
        (self.right_from, self.met) = ([None; LANES_MAX + 1], [None; LANES_MAX]);
        self.right_from[0] = Some(0);
    }

    /// Lets lanes run on into each other's parts, all of them by `margin` bits, and then each by itself until it meets the next
    /// one. No more than `mcus` are left.
    fn decode(&mut self, margin: u32, mcus: usize) {
        // What pads the last byte is no code: the last lane takes its last symbols by itself, and no more than there are.
        let most = self.run.bits.saturating_sub(32);
        for n in 0..self.count {
            self.state.limit[n] = (self.begun[n + 1] + margin).min(most);
            self.state.active |= u32::from(self.state.may_go_on(n)) << n;
        }
        self.run();
        let mut left = mcus;
        for n in 0..self.count {
            let Some(from) = self.right_from[n] else { break };
            let (lanes, later) = self.memory.starts.split_at_mut(n + 1);
            let next = if n + 1 < self.count { &later[0][..] } else { &[] };
            let found = meet(&lanes[n], from, next).or_else(|| {
                let last = next.last().map_or(self.begun[n + 1], |&last| last);
                let memory = (&mut *self.blocks, self.tables);
                self.run.alone((self.state, n), memory, &mut lanes[n], (last, from + left), next)
            });
            let Some((here, there)) = found else { break };
            left = left.saturating_sub(here.saturating_sub(from));
            (self.met[n], self.right_from[n + 1]) = (Some(here), Some(there));
        }
    }

    /// Runs all lanes to their limits.
    fn run(&mut self) {
        let Self { proof, run, tables, blocks, state, memory, .. } = self;
        let Memory { log, starts } = &mut **memory;
        log.clear();
        let vectors = if self.count <= LANES_MAX / 2 { 1 } else { 2 };
        while state.active.count_ones() > avx512::FEW {
            let code = (run.words, *tables);
            let stopped =
                avx512::run_freely(*proof, vectors, state, &run.phases, code, blocks, log);
            for lane in lanes_of(stopped.rare) {
                run.guess(state, lane, blocks);
                if state.begins_mcu(lane) {
                    log.push(state.bit[lane], state.at[lane]);
                }
                state.active &= !(u32::from(!state.may_go_on(lane)) << lane);
            }
        }
        for (bit, at) in log.starts() {
            starts[at as usize / ROOM].push(bit);
        }
    }

    /// Hands over what is right, from `known` on and before MCU number `to`, and goes there; whether a guess came true.
    fn take(
        &mut self,
        known: &mut Known<'_>,
        to: u32,
        sink: &mut dyn Sink,
    ) -> Result<bool, Declined> {
        let before = known.place().mcu;
        let (mut is_right, mut came_true) = (true, false);
        let mcu_len = self.run.mcu.components().len() * BLOCK;
        for n in 0..self.count {
            let room = n * ROOM;
            // The place after the block that it was at.
            let end = (self.state.at[n] as usize).next_multiple_of(BLOCK);
            let Some(from) = self.right_from[n].filter(|_| is_right) else {
                self.blocks[room..end].fill(0);
                continue;
            };
            let starts = &self.memory.starts[n];
            let ends = self.met[n].unwrap_or(starts.len() - 1);
            let mcus = (ends.saturating_sub(from) as u32).min(to - known.place().mcu) as usize;
            let (first, last) = (room + from * mcu_len, room + (from + mcus) * mcu_len);
            if mcus > 0 && self.state.doubt[n] as usize > first {
                return Err(Declined::Damage);
            }
            if starts[from + mcus] > self.run.bits {
                return Err(Declined::Damage);
            }
            self.blocks[room..first].fill(0);
            let batch = self.run.batch as usize;
            let batches = self.blocks[first..last].chunks_mut(batch * mcu_len);
            for (blocks, at) in batches.zip((from..from + mcus).step_by(batch)) {
                let bit = starts[(at + batch).min(from + mcus)];
                let (blocks, _) = blocks.as_chunks_mut::<BLOCK>();
                known.take(&self.run.mcu, bit, blocks, sink)?;
            }
            self.blocks[last..end].fill(0);
            came_true |= n > 0 && mcus > 0;
            // What comes next belongs to the end of this lane.
            is_right = self.met[n] == Some(from + mcus);
        }
        // What ends a scan too early is no guess.
        known.is_in_step |= came_true;
        // A first lane without room says nothing about guesses.
        let is_full = self.state.at[0] >= self.state.end[0];
        if known.place().mcu > before { Ok(came_true || is_full) } else { Err(Declined::Damage) }
    }
}

/// Where `lane`, from its start number `right_from` on, begins an MCU where `next` has begun one.
fn meet(lane: &[u32], right_from: usize, next: &[u32]) -> Option<(usize, usize)> {
    let begun = *next.first()?;
    let mut here = lane.partition_point(|&bit| bit < begun).max(right_from);
    let mut there = 0;
    loop {
        match lane.get(here)?.cmp(next.get(there)?) {
            std::cmp::Ordering::Less => here += 1,
            std::cmp::Ordering::Equal => return Some((here, there)),
            std::cmp::Ordering::Greater => there += 1,
        }
    }
}

#[cfg(test)]
mod tests;
