//! One stream, one lookup for run, value and length of a coefficient.

use crate::declined::Declined;
use crate::entropy::lookups::{Lookups, Tables};
use crate::entropy::{Block, Mcu, Place, Segment, Sink};
use crate::header::Frame;
use crate::huffman::{Code, END_OF_BLOCK, Found, LONG_CODE, LONG_VALUE, LOOKUP_BITS, extend};

/// Lookups between two looks at the stream: as many as fit the 56 bits that there are at least.
const LOOKUPS: usize = 56 / LOOKUP_BITS as usize;

/// A segment and what it takes to decode it.
pub(crate) struct Job<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) lookups: &'a Lookups,
    /// Padded with zeros beyond `bits`.
    pub(crate) bytes: &'a [u8],
    pub(crate) bits: u32,
    pub(crate) segment: &'a Segment,
    /// Gets one place for every group of MCUs; the number is the size of a group.
    pub(crate) places: Option<(&'a mut Vec<Place>, u32)>,
}

/// Memory for the blocks of a stream.
#[derive(Debug, Default)]
pub(crate) struct One {
    blocks: Vec<Block>,
    symbols: u32,
}

/// Bits still to be read: those at the left of `window`, and then the bytes from `at` on. Handed on by value, so that
/// they stay in registers.
#[derive(Clone, Copy)]
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    window: u64,
    /// How many of the window's bits are of the stream; only the lowest six bits count.
    have: u64,
}

// === impl Bits ===

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8], bit: u32) -> Self {
        let mut bits = Self { bytes, at: bit as usize / 8, window: 0, have: 0 };
        bits.fill();
        bits.take(u64::from(bit % 8));
        bits
    }

    /// Afterwards there are 56 bits at least.
    #[inline(always)]
    fn fill(&mut self) {
        let Some(bytes) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) else { return };
        let have = self.have & 63;
        self.window |= u64::from_be_bytes(*bytes) >> have;
        self.at += ((63 - have) / 8) as usize;
        self.have = have | 56;
    }

    #[inline(always)]
    fn take(&mut self, bits: u64) {
        self.window <<= bits & 63;
        self.have = self.have.wrapping_sub(bits);
    }

    /// Takes the value that the next `size` bits stand for.
    #[inline(always)]
    fn value(&mut self, size: u32) -> i16 {
        let value = extend(self.window, size) as i16;
        self.take(u64::from(size));
        value
    }

    /// The number of the next bit.
    #[inline(always)]
    fn position(&self) -> u32 {
        (self.at * 8) as u32 - (self.have & 63) as u32
    }
}

// === impl One ===

impl One {
    /// Symbols of the last segment.
    pub(crate) fn symbols(&self) -> u32 {
        self.symbols
    }

    #[inline(always)]
    pub(super) fn decode_scalar(
        &mut self,
        job: Job<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let Job { frame, lookups, bytes, bits, segment, mut places } = job;
        let Self { blocks, symbols: total } = self;
        let mcu = Mcu::new(frame);
        let tables = lookups.tables(frame);
        let batch = mcu.batch();
        // What was left when an image was given up is of no use.
        blocks.clear();
        blocks.resize(batch * mcu.components().len(), [0; 64]);
        let mut from = Bits::new(bytes, segment.bit);
        let mut predictors = segment.predictors;
        let mut symbols = 0;
        let end = segment.mcu + segment.mcus;
        let mut number = segment.mcu;
        while number < end {
            let mcus = (end - number).min(batch as u32);
            let blocks = &mut blocks[..mcus as usize * mcu.components().len()];
            let before = predictors;
            let places_before = places.as_ref().map_or(0, |(places, _)| places.len());
            for (number, mcu_blocks) in
                (number..).zip(blocks.chunks_exact_mut(mcu.components().len()))
            {
                if let Some((places, every)) = &mut places
                    && number.is_multiple_of(*every)
                {
                    places.push(Place { bit: from.position(), mcu: number, predictors, symbols });
                }
                for (block, &component) in mcu_blocks.iter_mut().zip(mcu.components()) {
                    let more;
                    (from, more) = tables[usize::from(component)].block(from, block)?;
                    symbols += more;
                }
            }
            if from.position() > bits {
                return Err(Declined::Damage);
            }
            mcu.predict(blocks, &mut predictors)?;
            if let Some((places, _)) = &mut places {
                for place in &mut places[places_before..] {
                    place.predictors = mcu.predictors_at(before, blocks, place.mcu - number);
                }
            }
            sink.take(number, blocks)?;
            number += mcus;
        }
        *total = symbols;
        segment.end.check(from.position(), &predictors)
    }
}

// === impl Tables ===

impl Tables<'_> {
    /// Decodes one block, which is zero; what follows it, and how many symbols it took.
    #[inline(always)]
    fn block<'b>(
        &self,
        mut from: Bits<'b>,
        block: &mut Block,
    ) -> Result<(Bits<'b>, u32), Declined> {
        from.fill();
        let entry = self.dc[(from.window >> (64 - LOOKUP_BITS)) as usize];
        if entry >> 8 & 255 == 0 {
            block[0] = (entry >> 16) as i16;
            from.take(u64::from(entry & 255));
        } else if entry >> 8 & 255 == LONG_VALUE {
            from.take(u64::from(entry & 255));
            from.fill();
            block[0] = from.value(entry >> 20);
        } else {
            (from, block[0]) = long_difference(self.dc_code, from)?;
        }
        let mut at = 1;
        let mut symbols = 1;
        loop {
            from.fill();
            for _ in 0..LOOKUPS {
                let entry = self.ac[(from.window >> (64 - LOOKUP_BITS)) as usize];
                let place = at + (entry >> 8 & 255) as usize;
                symbols += 1;
                if place < 63 {
                    block[place] = (entry >> 16) as i16;
                    at = place + 1;
                    from.window <<= entry & 63;
                    from.have = from.have.wrapping_sub(u64::from(entry));
                    continue;
                }
                if entry >> 8 & 255 == END_OF_BLOCK {
                    from.window <<= entry & 63;
                    from.have = from.have.wrapping_sub(u64::from(entry));
                    return Ok((from, symbols));
                }
                if entry >> 8 & 255 == LONG_VALUE {
                    from.take(u64::from(entry & 255));
                    from.fill();
                    at += (entry >> 16 & 15) as usize;
                    // libjpeg puts what goes beyond a block on its last place.
                    *block.get_mut(at).ok_or(Declined::Damage)? = from.value(entry >> 20);
                    at += 1;
                    if at == block.len() {
                        return Ok((from, symbols));
                    }
                    break;
                }
                (from, at) = self.rare(entry, at, from, block)?;
                if at == block.len() {
                    return Ok((from, symbols));
                }
                break;
            }
        }
    }

    /// A code that a lookup does not tell, and what reaches the last place of a block: what follows, and the
    /// next place, which is that after the last one where the block ends.
    #[inline(never)]
    fn rare<'b>(
        &self,
        entry: u32,
        at: usize,
        mut from: Bits<'b>,
        block: &mut Block,
    ) -> Result<(Bits<'b>, usize), Declined> {
        let value;
        let place;
        match entry >> 8 & 255 {
            LONG_CODE => {
                from.fill();
                let Found { symbol, bits } =
                    self.ac_code.find(from.window).ok_or(Declined::Damage)?;
                from.take(u64::from(bits));
                from.fill();
                let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
                value = from.value(size);
                if size == 0 && run != 15 {
                    return Ok((from, block.len()));
                }
                place = at + run;
                if size == 0 {
                    return Ok((from, (place + 1).min(block.len())));
                }
            }
            run => {
                value = (entry >> 16) as i16;
                from.take(u64::from(entry & 255));
                place = at + run as usize;
                if value == 0 {
                    // A run of sixteen zeros that ends the block.
                    return Ok((from, block.len()));
                }
            }
        }
        // libjpeg puts what goes beyond a block on its last place.
        *block.get_mut(place).ok_or(Declined::Damage)? = value;
        Ok((from, place + 1))
    }
}

/// A difference of DC whose bits are more than a lookup sees.
#[inline(never)]
fn long_difference<'b>(code: &Code, mut from: Bits<'b>) -> Result<(Bits<'b>, i16), Declined> {
    let Found { symbol, bits } = code.find(from.window).ok_or(Declined::Damage)?;
    from.take(u64::from(bits));
    from.fill();
    let value = from.value(u32::from(symbol));
    Ok((from, value))
}
