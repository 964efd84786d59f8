//! The definition: bit by bit, by the standard's own procedures.

use crate::declined::Declined;
use crate::entropy::{Block, Mcu, Segment, Sink};
use crate::header::Frame;
use crate::huffman::{Code, Found, extend};

/// Decodes by the codes themselves.
pub(crate) struct Plain<'a> {
    frame: &'a Frame,
    bytes: &'a [u8],
    bits: u32,
}

// === impl Plain ===

impl<'a> Plain<'a> {
    /// `bytes` are padded with zeros beyond `bits`.
    pub(crate) fn new(frame: &'a Frame, bytes: &'a [u8], bits: u32) -> Self {
        Self { frame, bytes, bits }
    }

    pub(crate) fn decode(&self, segment: &Segment, sink: &mut dyn Sink) -> Result<(), Declined> {
        let mcu = Mcu::new(self.frame);
        let (mut bit, mut predictors) = (segment.bit, segment.predictors);
        let mut blocks = [[0; 64]; crate::header::MCU_BLOCKS_MAX];
        let blocks = &mut blocks[..mcu.components().len()];
        for number in segment.mcu..segment.mcu + segment.mcus {
            for (block, &component) in blocks.iter_mut().zip(mcu.components()) {
                self.block(usize::from(component), &mut bit, block)?;
            }
            if bit > self.bits {
                return Err(Declined::Damage);
            }
            mcu.predict(blocks, &mut predictors)?;
            sink.take(number, blocks)?;
        }
        segment.end.check(bit, &predictors)
    }

    fn block(&self, component: usize, bit: &mut u32, block: &mut Block) -> Result<(), Declined> {
        let component = &self.frame.components()[component];
        let (_, size) = self.symbol(self.frame.dc_code(component), bit)?;
        block[0] = self.value(size, bit);
        let mut at = 1;
        while at < 64 {
            let (run, size) = self.symbol(self.frame.ac_code(component), bit)?;
            match (run, size) {
                (15, 0) => at += 16,
                (_, 0) => break,
                _ => {
                    at += run as usize;
                    let value = self.value(size, bit);
                    // libjpeg puts what goes beyond a block on its last place.
                    *block.get_mut(at).ok_or(Declined::Damage)? = value;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Run and size.
    fn symbol(&self, code: &Code, bit: &mut u32) -> Result<(u32, u32), Declined> {
        let found = code.find(self.window(*bit));
        let Found { symbol, bits } = found.ok_or(Declined::Damage)?;
        *bit += bits;
        Ok((u32::from(symbol >> 4), u32::from(symbol & 15)))
    }

    fn value(&self, size: u32, bit: &mut u32) -> i16 {
        let value = extend(self.window(*bit), size);
        *bit += size;
        value as i16
    }

    /// 57 bits or more, from `bit` on.
    fn window(&self, bit: u32) -> u64 {
        let bytes = self.bytes.get((bit / 8) as usize..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes)) << (bit % 8)
    }
}
