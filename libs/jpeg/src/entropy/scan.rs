//! A scan that is decoded by guesses, and how far it is known to be right.

use super::{Block, End, Mcu, Place, Sink};
use crate::declined::Declined;
use crate::header::Frame;

/// Bits of a symbol in photographs, about.
const SYMBOL_BITS: u32 = 6;

/// A scan without restart markers, or its first part.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) bits: u32,
    /// The MCU before which to stop, and what must be so there.
    pub(crate) to: u32,
    pub(crate) end: End,
}

/// What precedes a place has been handed over.
pub(crate) struct Known<'a> {
    place: Place,
    /// Where MCUs begin, in groups of some: one place of each.
    places: Option<(&'a mut Vec<Place>, u32)>,
    /// Whether a guess has come true.
    pub(crate) is_in_step: bool,
}

// === impl Scan ===

impl Scan<'_> {
    /// About how many symbols it has.
    pub(crate) fn symbols(&self) -> u32 {
        self.bits / SYMBOL_BITS
    }
}

// === impl Known ===

impl<'a> Known<'a> {
    /// The start of a scan. Of each group of `places.1` MCUs one place is kept.
    pub(crate) fn start(places: Option<(&'a mut Vec<Place>, u32)>) -> Self {
        Self {
            place: Place { bit: 0, mcu: 0, predictors: [0; 3], symbols: 0 },
            places,
            is_in_step: false,
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Keeps the place, whichever group it is of.
    pub(super) fn keep(&mut self) {
        if let Some((places, _)) = &mut self.places {
            places.push(self.place);
        }
    }

    /// Hands over whole MCUs, which begin at the place and end at `bit`.
    pub(super) fn take(
        &mut self,
        mcu: &Mcu,
        bit: u32,
        blocks: &mut [Block],
        sink: &mut dyn Sink,
    ) -> Result<(), Declined> {
        let Self { place, places, .. } = self;
        if let Some((places, every)) = places
            && places.last().is_none_or(|last| place.mcu / *every > last.mcu / *every)
        {
            places.push(*place);
        }
        mcu.predict(blocks, &mut place.predictors)?;
        sink.take(place.mcu, blocks)?;
        place.mcu += (blocks.len() / mcu.components().len()) as u32;
        (place.bit, place.symbols) = (bit, bit / SYMBOL_BITS);
        Ok(())
    }
}
