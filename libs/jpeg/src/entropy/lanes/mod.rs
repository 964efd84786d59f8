//! Many segments at a time, one in each lane of vectors.
//!
//! A step takes one symbol of every lane: the next eleven bits of each choose an entry of its table, which tells
//! how long the code is, how many bits its value has and how many places it goes on. What a table does not know is
//! done by hand (`rare`). `avx512` has the step.

mod avx512;
mod windows;

use headwater_simd::{Aligned, Vbmi2};

use crate::declined::Declined;
use crate::entropy::{Mcu, Predictors, Segment, Sink};
use crate::header::{Frame, MCU_BLOCKS_MAX};
use crate::huffman::{Found, LOOKUP_LEN, extend, push_steps};
use crate::stream::PADDING_BYTES;

/// Lanes of one vector, and of two.
pub(crate) const LANES_MAX: usize = 32;
/// Tables of one image: four of DC and four of AC coefficients.
const TABLES: usize = 8;
/// MCUs that a lane decodes before their pixels are made.
const BATCH_BLOCKS: usize = 24;
/// Words that are read beyond the one of the next bit.
const WORDS_AHEAD: usize = 4;
/// Coefficients of a block.
const BLOCK: usize = 64;

/// Tables of one image and memory for the blocks of all lanes.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    tables: Vec<u32>,
    /// A batch of each lane and one block more, into which the end of the last one is written. All zero between
    /// two images.
    blocks: Aligned<i16>,
    state: Box<State>,
    windows: windows::Memory,
}

/// Where each lane is.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct State {
    /// Next bit of the stream.
    bit: [u32; LANES_MAX],
    /// Place of the next coefficient in the blocks of all lanes.
    at: [u32; LANES_MAX],
    /// Where the batch ends.
    end: [u32; LANES_MAX],
    /// Number of the block in the MCU.
    phase: [u32; LANES_MAX],
    /// Where the table of the next symbol begins.
    table: [u32; LANES_MAX],
    /// Where lanes stop that fall into step: at the word of this bit.
    limit: [u32; LANES_MAX],
    /// Where such a lane has last met what is no code, or gone beyond a block; 0 where it has not.
    doubt: [u32; LANES_MAX],
    /// Lanes that have something to do.
    active: u32,
}

/// What follows on each block of an MCU.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Phases {
    next: [u32; 16],
    dc: [u32; 16],
    ac: [u32; 16],
}

/// Why a run of steps came to an end: bits of lanes.
#[derive(Clone, Copy, Debug)]
struct Stopped {
    /// The table does not know the next symbol.
    rare: u32,
    /// The batch is at its end.
    full: u32,
    /// A coefficient was beyond its block.
    beyond: u32,
}

/// What a lane is at work on.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// First MCU of the batch, and its MCUs.
    mcu: u32,
    batch: u32,
    predictors: Predictors,
    segment: usize,
}

/// The lanes whose bits are set.
fn lanes_of(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (lane < LANES_MAX as u32).then_some(lane as usize)
    })
}

// === impl State ===

impl State {
    /// Begins a batch of `len` coefficients at `at`, in blocks of `blocks_len` coefficients in all. Steps rely on
    /// what is checked here.
    fn set_batch(
        &mut self,
        lane: usize,
        at: usize,
        len: usize,
        words_len: usize,
        blocks_len: usize,
    ) {
        assert!(len > 0 && at + len + BLOCK <= blocks_len, "room for the blocks of a lane");
        // A symbol has 31 bits at most: less than a word.
        let words = self.bit[lane] as usize / 32 + len + WORDS_AHEAD;
        assert!(words <= words_len, "padding after the stream");
        (self.at[lane], self.end[lane]) = (at as u32, (at + len) as u32);
    }
}

// === impl Phases ===

impl Phases {
    fn new(frame: &Frame) -> Self {
        let mut phases = Self::default();
        let len = frame.mcu_blocks();
        for (phase, component) in frame.block_components().enumerate() {
            let component = &frame.components()[component];
            phases.next[phase] = ((phase + 1) % len) as u32;
            phases.dc[phase] = (component.dc * LOOKUP_LEN) as u32;
            phases.ac[phase] = ((4 + component.ac) * LOOKUP_LEN) as u32;
        }
        phases
    }
}

// === impl Lanes ===

impl Lanes {
    /// Makes the tables of an image.
    fn prepare(&mut self, frame: &Frame) {
        self.tables.resize(TABLES * LOOKUP_LEN, 0);
        let mut made = [false; TABLES];
        for component in frame.components() {
            let places = [component.dc, 4 + component.ac];
            let codes = [frame.dc_code(component), frame.ac_code(component)];
            for ((place, code), is_dc) in places.into_iter().zip(codes).zip([true, false]) {
                if !std::mem::replace(&mut made[place], true) {
                    push_steps(code, is_dc, place * LOOKUP_LEN, &mut self.tables);
                }
            }
        }
    }

    /// Decodes all `segments`, in any order. `words` are the stream and its padding.
    pub(crate) fn decode(
        &mut self,
        proof: Vbmi2,
        frame: &Frame,
        (words, bits): (&[u32], u32),
        segments: &[Segment],
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        self.prepare(frame);
        let mut run = Run::new(frame, (words, bits), segments);
        let blocks = self.blocks.first(LANES_MAX * run.lane_len);
        let outcome = run.decode(proof, &mut self.state, &self.tables, blocks, sink);
        if outcome.is_err() {
            blocks.fill(0);
        }
        outcome
    }
}

/// One image.
struct Run<'a> {
    frame: &'a Frame,
    mcu: Mcu,
    phases: Phases,
    /// MCUs of a batch.
    batch: u32,
    /// Coefficients that a lane has room for.
    lane_len: usize,
    words: &'a [u32],
    bits: u32,
    segments: &'a [Segment],
    /// The next segment that no lane has begun.
    next: usize,
    works: [Work; LANES_MAX],
}

// === impl Run ===

impl<'a> Run<'a> {
    fn new(frame: &'a Frame, (words, bits): (&'a [u32], u32), segments: &'a [Segment]) -> Self {
        let mcu = Mcu::new(frame);
        let batch = (BATCH_BLOCKS / mcu.components().len()).max(1) as u32;
        Self {
            frame,
            phases: Phases::new(frame),
            batch,
            lane_len: (batch as usize * mcu.components().len() + 1) * BLOCK,
            mcu,
            words,
            bits,
            segments,
            next: 0,
            works: [Work::default(); LANES_MAX],
        }
    }

    fn decode(
        &mut self,
        proof: Vbmi2,
        state: &mut State,
        tables: &[u32],
        blocks: &mut [i16],
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let lanes = self.segments.len().min(LANES_MAX);
        *state = State::default();
        for lane in 0..lanes {
            self.begin(state, lane)?;
        }
        let vectors = if lanes <= LANES_MAX / 2 { 1 } else { 2 };
        while state.active != 0 {
            let stopped =
                avx512::run(proof, vectors, state, &self.phases, (self.words, tables), blocks);
            if stopped.beyond != 0 {
                return Err(Declined::Damage);
            }
            let mut full = stopped.full;
            for lane in lanes_of(stopped.rare) {
                self.rare(state, lane, blocks)?;
                full |= u32::from(state.at[lane] >= state.end[lane]) << lane;
            }
            for lane in lanes_of(full) {
                self.end_batch(state, lane, blocks, sink)?;
            }
        }
        Ok(())
    }

    /// Gives a lane the next segment, if there is one.
    fn begin(&mut self, state: &mut State, lane: usize) -> Result<(), Declined> {
        let Some(segment) = self.segments.get(self.next) else {
            state.active &= !(1 << lane);
            state.bit[lane] = 0;
            return Ok(());
        };
        state.active |= 1 << lane;
        state.bit[lane] = segment.bit;
        state.phase[lane] = 0;
        state.table[lane] = self.phases.dc[0];
        let predictors = segment.predictors;
        self.works[lane] = Work { mcu: segment.mcu, batch: 0, predictors, segment: self.next };
        self.next += 1;
        self.begin_batch(state, lane)
    }

    fn begin_batch(&mut self, state: &mut State, lane: usize) -> Result<(), Declined> {
        if state.bit[lane] > self.bits {
            return Err(Declined::Damage);
        }
        let work = &mut self.works[lane];
        let segment = &self.segments[work.segment];
        work.batch = (segment.mcu + segment.mcus - work.mcu).min(self.batch);
        let coefficients = work.batch as usize * self.mcu.components().len() * BLOCK;
        state.set_batch(
            lane,
            lane * self.lane_len,
            coefficients,
            self.words.len(),
            LANES_MAX * self.lane_len,
        );
        Ok(())
    }

    /// Hands the batch of a lane over and begins the next one.
    fn end_batch(
        &mut self,
        state: &mut State,
        lane: usize,
        blocks: &mut [i16],
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let work = &mut self.works[lane];
        let segment = &self.segments[work.segment];
        let start = lane * self.lane_len;
        let len = work.batch as usize * self.mcu.components().len() * BLOCK;
        let (blocks, _) = blocks[start..start + len].as_chunks_mut::<BLOCK>();
        if state.bit[lane] > self.bits {
            return Err(Declined::Damage);
        }
        self.mcu.predict(blocks, &mut work.predictors)?;
        sink.take(work.mcu, blocks)?;
        work.mcu += work.batch;
        if work.mcu < segment.mcu + segment.mcus {
            return self.begin_batch(state, lane);
        }
        segment.end.check(state.bit[lane], &work.predictors)?;
        self.begin(state, lane)
    }

    /// Takes one symbol that a table does not know.
    #[inline(never)]
    fn rare(&self, state: &mut State, lane: usize, blocks: &mut [i16]) -> Result<(), Declined> {
        let (phase, at) = (state.phase[lane] as usize, state.at[lane] as usize);
        let component = self.frame.block_components().nth(phase).unwrap_or_default();
        let component = &self.frame.components()[component];
        let is_dc = at % BLOCK == 0;
        let code =
            if is_dc { self.frame.dc_code(component) } else { self.frame.ac_code(component) };
        let window = self.window(state.bit[lane]);
        let Found { symbol, bits } = code.find(window).ok_or(Declined::Damage)?;
        let (run, size) = if is_dc { (0, symbol) } else { (symbol >> 4, symbol & 15) };
        state.bit[lane] += bits + u32::from(size);
        let place = at % BLOCK + usize::from(run);
        let block_ends = if size == 0 && !is_dc {
            run != 15 || place >= BLOCK - 1
        } else {
            if place >= BLOCK {
                return Err(Declined::Damage);
            }
            blocks[at - at % BLOCK + place] = extend(window << bits, u32::from(size)) as i16;
            place == BLOCK - 1
        };
        if block_ends {
            self.end_block(state, lane);
        } else {
            state.at[lane] = (at - at % BLOCK + place + 1) as u32;
            state.table[lane] = self.phases.ac[phase];
        }
        Ok(())
    }

    fn end_block(&self, state: &mut State, lane: usize) {
        let at = state.at[lane] as usize;
        state.at[lane] = (at - at % BLOCK + BLOCK) as u32;
        state.phase[lane] = self.phases.next[state.phase[lane] as usize];
        state.table[lane] = self.phases.dc[state.phase[lane] as usize];
    }

    /// 32 bits at least, from `bit` on.
    fn window(&self, bit: u32) -> u64 {
        let at = (bit / 32) as usize;
        let word = |n: usize| u64::from(self.words.get(at + n).copied().unwrap_or_default());
        (word(0) << 32 | word(1)) << (bit % 32)
    }
}

/// Whatever its bits are, a batch ends within the padding.
const _: () = {
    let blocks = if BATCH_BLOCKS > MCU_BLOCKS_MAX { BATCH_BLOCKS } else { MCU_BLOCKS_MAX };
    assert!(blocks * BLOCK * 4 + 64 <= PADDING_BYTES);
};
