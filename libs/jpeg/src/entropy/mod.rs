//! From bits to coefficients: one definition, and faster ways to the same.

mod interleaved;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod lookups;
mod one;
mod plain;
mod scan;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use interleaved::{Interleaved, STREAMS_MAX};
#[cfg(target_arch = "x86_64")]
pub(crate) use lanes::Lanes;
pub(crate) use lookups::Lookups;
pub(crate) use one::{Job, One};
pub(crate) use plain::Plain;
pub(crate) use scan::{Known, Scan};

use headwater_simd::Simd;

use crate::declined::Declined;
use crate::header::{COMPONENTS_MAX, Frame, MCU_BLOCKS_MAX};

/// The coefficients of a block in the order of the file, not dequantised.
pub(crate) type Block = [i16; 64];

/// What each component's next difference of DC is added to.
pub(crate) type Predictors = [i16; COMPONENTS_MAX];

/// A part of a scan that can be decoded without the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first bit.
    pub bit: u32,
    /// Its first MCU.
    pub mcu: u32,
    /// How many MCUs it has.
    pub mcus: u32,
    /// What the first difference of DC of each component is added to.
    pub predictors: [i16; COMPONENTS_MAX],
    /// What must be so behind it.
    pub end: End,
}

/// What must be so when the last MCU of a segment is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Less than a byte is left before this bit: that of a restart marker or of the end.
    Padded {
        /// The bit.
        bit: u32,
    },
    /// The next segment begins here.
    At {
        /// Its first bit.
        bit: u32,
        /// Its predictors.
        predictors: [i16; COMPONENTS_MAX],
    },
    /// More of the segment follows that nobody looks at, up to this bit.
    Open {
        /// The bit.
        before: u32,
    },
}

/// Where blocks go.
pub(crate) trait Sink {
    /// Takes whole MCUs, from number `mcu` on, and leaves zeros.
    fn take(&mut self, mcu: u32, blocks: &mut [Block]) -> Result<(), Declined>;
}

/// Looks at no pixel.
pub(crate) struct Nothing;

/// A bit at which an MCU begins, and what is known there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bit: u32,
    pub(crate) mcu: u32,
    pub(crate) predictors: Predictors,
    /// Symbols before it: what decoding costs.
    pub(crate) symbols: u32,
}

/// What the blocks of an MCU are.
#[derive(Clone, Debug)]
pub(crate) struct Mcu {
    components: [u8; MCU_BLOCKS_MAX],
    len: usize,
}

// === impl Sink ===

impl Sink for Nothing {
    fn take(&mut self, _mcu: u32, blocks: &mut [Block]) -> Result<(), Declined> {
        blocks.as_flattened_mut().fill(0);
        Ok(())
    }
}

// === impl Mcu ===

impl Mcu {
    pub(crate) fn new(frame: &Frame) -> Self {
        let mut components = [0; MCU_BLOCKS_MAX];
        let mut len = 0;
        for (place, component) in components.iter_mut().zip(frame.block_components()) {
            *place = component as u8;
            len += 1;
        }
        Self { components, len }
    }

    /// Component of each block.
    pub(crate) fn components(&self) -> &[u8] {
        &self.components[..self.len]
    }

    /// MCUs that are decoded before their pixels are made: few enough to stay in the nearest cache, and a multiple of
    /// four blocks of each component where that is possible.
    pub(crate) fn batch(&self) -> usize {
        match self.len {
            1 => 16,
            2..=3 => 8,
            _ => 4,
        }
    }

    /// The predictors before MCU `n` of `blocks`, whose first one had those of `before`.
    fn predictors_at(&self, before: Predictors, blocks: &[Block], n: u32) -> Predictors {
        let mut predictors = before;
        let mcu = (n as usize).checked_sub(1).map(|last| &blocks[last * self.len..][..self.len]);
        for (block, &component) in mcu.into_iter().flatten().zip(self.components()) {
            predictors[usize::from(component)] = block[0];
        }
        predictors
    }

    /// Adds what came before to the differences of DC.
    pub(crate) fn predict(
        &self,
        blocks: &mut [Block],
        predictors: &mut Predictors,
    ) -> Result<(), Declined> {
        for mcu in blocks.chunks_exact_mut(self.len) {
            for (block, &component) in mcu.iter_mut().zip(self.components()) {
                let predictor = &mut predictors[usize::from(component)];
                // What leaves 16 bits is no image.
                *predictor = predictor.checked_add(block[0]).ok_or(Declined::Damage)?;
                block[0] = *predictor;
            }
        }
        Ok(())
    }
}

// === impl End ===

impl End {
    /// The end of the MCUs at the start of a scan of `bits` bits: of all of them, or of some.
    pub(crate) fn of_scan(bits: u32, is_whole: bool) -> Self {
        if is_whole { Self::Padded { bit: bits } } else { Self::Open { before: bits } }
    }

    /// Whether decoding has come to where it should.
    pub(crate) fn check(self, found_bit: u32, found: &Predictors) -> Result<(), Declined> {
        let is_right = match self {
            Self::Padded { bit } => found_bit <= bit && bit - found_bit < 8,
            Self::At { bit, predictors } => {
                if found_bit != bit || *found != predictors {
                    return Err(Declined::Entry);
                }
                true
            }
            // Beyond its end libjpeg goes on with zeros, not with the bits of the next segment.
            Self::Open { before } => found_bit <= before,
        };
        if is_right { Ok(()) } else { Err(Declined::Damage) }
    }
}

// === impl One ===

impl One {
    /// Decodes a segment.
    pub(crate) fn decode(
        &mut self,
        simd: Simd,
        job: Job<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        match simd {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(proof) => x86::decode(proof, self, job, sink),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(proof) => x86::decode(proof.avx2(), self, job, sink),
            _ => self.decode_scalar(job, sink),
        }
    }
}

#[cfg(test)]
mod tests;
