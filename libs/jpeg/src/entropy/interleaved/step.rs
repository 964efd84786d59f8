//! The loop over all streams.

use super::{BATCH_BLOCKS, BLOCK, ROOM_BLOCKS, ROOMS, Rooms, STREAMS_MAX, TABLES, Turns};
use crate::header::Frame;
use crate::huffman::{
    Code, ENDS_BLOCK, Found, LONG_CODE, LONG_VALUE, LOOKUP_BITS, LOOKUP_LEN, STOP, extend,
};

/// The first table of AC coefficients.
pub(super) const AC_TABLES: usize = 4;
/// The table that ends a batch.
const STOP_TABLE: usize = TABLES - 1;

/// Lookups of a turn: as many as the bits of a window are good for.
const LOOKUPS: usize = 56 / LOOKUP_BITS as usize;
/// What the place of a coefficient is cut to, so that no bound is checked.
const PLACE_MASK: usize = ROOMS * ROOM_BLOCKS * BLOCK - 1;

/// The stream of an image, and the tables of each block of a batch.
pub(super) struct Layout<'a> {
    bytes: &'a [u8],
    tables: &'a Turns,
    /// Where the tables begin that follow on a symbol of a block: in the lower half that of the block's AC coefficients,
    /// in the upper half what follows on its end, which is that of the next one's DC or the one that ends the batch.
    follows: [u64; ROOM_BLOCKS],
    /// Codes of DC and AC coefficients, and where the table of DC begins.
    blocks: [(&'a Code, &'a Code, u32); ROOM_BLOCKS],
    mcu_blocks: usize,
    /// Blocks of the longest batch. Shorter ones begin later, so that all end at the same place.
    len: usize,
}

/// Where a segment is.
#[derive(Clone, Copy, Default)]
pub(super) struct Stream {
    /// The next bit.
    bit: u64,
    /// Place of the next coefficient in all rooms.
    at: usize,
    /// Where the table of the next symbol begins.
    table: u32,
}

/// Why a stream stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Its batch is at its end.
    Full,
    /// There is no such code, or a coefficient is beyond its block.
    Damage,
}

// === impl Layout ===

impl<'a> Layout<'a> {
    pub(super) fn new(frame: &'a Frame, tables: &'a Turns, bytes: &'a [u8]) -> Self {
        let mcu_blocks = frame.mcu_blocks();
        let len = BATCH_BLOCKS / mcu_blocks * mcu_blocks;
        let start = |table: usize| (table * LOOKUP_LEN) as u32;
        let mut follows = [0; ROOM_BLOCKS];
        let mut blocks = [(Code::EMPTY, Code::EMPTY, 0); ROOM_BLOCKS];
        let mut next_dc = start(STOP_TABLE);
        for n in (0..len).rev() {
            let component = frame.block_components().nth(n % mcu_blocks).unwrap_or_default();
            let component = &frame.components()[component];
            let (dc, ac) = (start(component.dc), start(AC_TABLES + component.ac));
            follows[n] = u64::from(ac) | u64::from(next_dc) << 32;
            blocks[n] = (frame.dc_code(component), frame.ac_code(component), dc);
            next_dc = dc;
        }
        Self { bytes, tables, follows, blocks, mcu_blocks, len }
    }

    /// MCUs of the longest batch.
    pub(super) fn batch_mcus(&self) -> u32 {
        (self.len / self.mcu_blocks) as u32
    }

    /// Where a batch of `mcus` MCUs begins in its room.
    pub(super) fn start(&self, mcus: u32) -> usize {
        (self.len - mcus as usize * self.mcu_blocks) * BLOCK
    }

    /// Where all batches end in their rooms.
    pub(super) fn end(&self) -> usize {
        self.len * BLOCK
    }

    /// 57 bits at least, from `bit` on; 64 with what comes after them.
    #[inline(always)]
    fn window(&self, bit: u64) -> u64 {
        let bytes = self.bytes.get((bit / 8) as usize..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes)) << (bit % 8)
    }

    #[inline(always)]
    fn follows(&self, at: usize) -> u64 {
        self.follows[at / BLOCK % ROOM_BLOCKS]
    }
}

// === impl Stream ===

impl Stream {
    /// Goes to the first bit of a segment.
    pub(super) fn begin(&mut self, bit: u32) {
        self.bit = u64::from(bit);
    }

    /// Begins a batch at a place in all rooms.
    pub(super) fn begin_batch(&mut self, at: usize, layout: &Layout<'_>) {
        self.at = at;
        self.table = layout.blocks[at / BLOCK % ROOM_BLOCKS].2;
    }

    /// The next bit.
    pub(super) fn bit(&self) -> u32 {
        u32::try_from(self.bit).unwrap_or(u32::MAX)
    }

    #[inline(always)]
    fn symbol(
        &mut self,
        window: &mut u64,
        layout: &Layout<'_>,
        rooms: &mut Rooms,
    ) -> Option<Stopped> {
        let index = (*window >> (64 - LOOKUP_BITS)) as usize;
        let entry = layout.tables[self.table as usize + index];
        let at = self.at & PLACE_MASK;
        let place = at + (entry >> 8 & 255) as usize;
        let last = at | (BLOCK - 1);
        if place >= last {
            // A copy, so that this one can be registers.
            let mut stream = *self;
            stream.bit += u64::from(window.trailing_zeros());
            let stopped = stream.special(entry, layout, rooms);
            *self = stream;
            *window = if stopped.is_none() { layout.window(stream.bit) | 1 } else { 1 };
            return stopped;
        }
        rooms[place] = (entry >> 16) as i16;
        *window <<= entry & 63;
        let ends = entry & ENDS_BLOCK;
        self.at = 1 + if ends != 0 { last } else { place };
        self.table = (layout.follows(at) >> (ends >> 1)) as u32;
        None
    }

    /// What a lookup does not tell, and what reaches the last place of a block.
    #[inline(always)]
    fn special(&mut self, entry: u32, layout: &Layout<'_>, rooms: &mut Rooms) -> Option<Stopped> {
        if entry >> 8 & 255 != LONG_VALUE {
            return self.rare(entry, layout, rooms);
        }
        self.bit += u64::from(entry & 63);
        let (run, size) = (entry >> 16 & 15, entry >> 20);
        let value = extend(layout.window(self.bit), size) as i16;
        self.bit += u64::from(size);
        self.coefficient(run as usize, value, layout, rooms)
    }

    /// Puts a coefficient after `run` zeros.
    #[inline(always)]
    fn coefficient(
        &mut self,
        run: usize,
        value: i16,
        layout: &Layout<'_>,
        rooms: &mut Rooms,
    ) -> Option<Stopped> {
        let at = self.at & PLACE_MASK;
        let (place, last) = (at + run, at | (BLOCK - 1));
        if place > last {
            return Some(Stopped::Damage);
        }
        rooms[place] = value;
        if place == last {
            self.end_block(layout);
        } else {
            self.at = place + 1;
            self.table = layout.follows(at) as u32;
        }
        None
    }

    fn end_block(&mut self, layout: &Layout<'_>) {
        self.table = (layout.follows(self.at) >> 32) as u32;
        self.at = (self.at | (BLOCK - 1)) + 1;
    }

    #[inline(never)]
    fn rare(&mut self, entry: u32, layout: &Layout<'_>, rooms: &mut Rooms) -> Option<Stopped> {
        if entry == STOP {
            return Some(Stopped::Full);
        }
        if entry & ENDS_BLOCK != 0 {
            self.bit += u64::from(entry & 63);
            self.end_block(layout);
            return None;
        }
        let (value, run, bits) = match entry >> 8 & 255 {
            LONG_CODE => {
                let window = layout.window(self.bit);
                let (dc_code, ac_code, _) = layout.blocks[self.at / BLOCK % ROOM_BLOCKS];
                let is_dc = self.at.is_multiple_of(BLOCK);
                let code = if is_dc { dc_code } else { ac_code };
                let Some(Found { symbol, bits }) = code.find(window) else {
                    return Some(Stopped::Damage);
                };
                let (run, size) =
                    if is_dc { (0, symbol) } else { (usize::from(symbol >> 4), symbol & 15) };
                if size == 0 && !is_dc && run != 15 {
                    self.bit += u64::from(bits);
                    self.end_block(layout);
                    return None;
                }
                let size = u32::from(size);
                (extend(window << bits, size) as i16, run, bits + size)
            }
            run => ((entry >> 16) as i16, run as usize, entry & 63),
        };
        self.bit += u64::from(bits);
        if value == 0 && self.at + run >= self.at | (BLOCK - 1) {
            // A run of sixteen zeros that ends the block.
            self.end_block(layout);
            return None;
        }
        self.coefficient(run, value, layout, rooms)
    }
}

/// Lets the first `live` streams take turns until one of them stops.
#[inline(always)]
pub(super) fn run(
    live: usize,
    streams: &mut [Stream; STREAMS_MAX],
    layout: &Layout<'_>,
    rooms: &mut Rooms,
) -> (usize, Stopped) {
    match live {
        1 => turns::<1>(streams, layout, rooms),
        2 => turns::<2>(streams, layout, rooms),
        3 => turns::<3>(streams, layout, rooms),
        _ => turns::<4>(streams, layout, rooms),
    }
}

#[inline(always)]
fn turns<const K: usize>(
    streams: &mut [Stream; STREAMS_MAX],
    layout: &Layout<'_>,
    rooms: &mut Rooms,
) -> (usize, Stopped) {
    // In variables of their own, so that they can be registers.
    let mut now: [Stream; STREAMS_MAX] = *streams;
    // The lowest bit that is set tells how many bits were taken.
    let mut windows = [1_u64; STREAMS_MAX];
    let (turn, stopped) = 'turns: loop {
        macro_rules! of_all {
            ($act:ident) => {
                $act!(0);
                if K > 1 {
                    $act!(1);
                }
                if K > 2 {
                    $act!(2);
                }
                if K > 3 {
                    $act!(3);
                }
            };
        }
        macro_rules! fill {
            ($k:literal) => {
                now[$k].bit += u64::from(windows[$k].trailing_zeros());
                windows[$k] = layout.window(now[$k].bit) | 1;
            };
        }
        macro_rules! symbol {
            ($k:literal) => {
                if let Some(stopped) = now[$k].symbol(&mut windows[$k], layout, rooms) {
                    break 'turns ($k, stopped);
                }
            };
        }
        of_all!(fill);
        for _ in 0..LOOKUPS {
            of_all!(symbol);
        }
    };
    for ((stream, now), window) in streams.iter_mut().zip(now).zip(windows) {
        *stream = Stream { bit: now.bit + u64::from(window.trailing_zeros()), ..now };
    }
    (turn, stopped)
}
