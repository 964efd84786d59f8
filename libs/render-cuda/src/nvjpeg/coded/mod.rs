//! Checks the coded pixels of a baseline JPEG without decoding them.
//!
//! A file is whole if every Huffman code is in its table and there are as many blocks as the header says.
//! Some decoders stop at the first damage and leave the rest of their memory as it was. Only for a whole
//! file do the pixels of every decoder follow from nothing but the file.
//!
//! Source: ITU-T T.81, annexes B and F.

mod bits;
mod codes;
mod header;

use bits::{Bits, Stretch};
use header::{Header, Part, Tables};

/// Marker that ends the image.
const END_OF_IMAGE: u8 = 0xd9;
/// The first of eight restart markers, which follow each other in a ring.
const FIRST_RESTART: u8 = 0xd0;

/// Checks file after file. Keeps its memory for the next one.
#[derive(Debug, Default)]
pub(super) struct Checker {
    tables: Tables,
    stretch: Stretch,
}

// === impl Checker ===

impl Checker {
    /// Whether a file is a baseline JPEG of 8 bits with one scan of all its colours, and that scan is
    /// whole. `false` for every other kind of JPEG.
    pub(super) fn is_whole(&mut self, encoded: &[u8]) -> bool {
        self.walk(encoded).is_some()
    }

    /// Skips each block of the scan; `None` if one is damaged or missing.
    fn walk(&mut self, encoded: &[u8]) -> Option<()> {
        let Self { tables, stretch } = self;
        let Header { units, restart_interval, parts, mut scan } = Header::read(encoded, tables)?;
        let interval = if restart_interval == 0 { u64::MAX } else { restart_interval };
        let mut left = units;
        for restart in 0.. {
            let (marker, rest) = stretch.take(scan)?;
            let mut bits = stretch.bits();
            for _ in 0..left.min(interval) {
                for part in &parts {
                    skip_blocks(part, tables, &mut bits)?;
                }
            }
            left = left.saturating_sub(interval);
            let expected = if left == 0 { END_OF_IMAGE } else { FIRST_RESTART + restart % 8 };
            if !bits.is_at_end() || marker != expected {
                return None;
            }
            if left == 0 {
                return Some(());
            }
            scan = rest;
        }
        None
    }
}

/// Skips the blocks of one colour in a unit of the scan.
fn skip_blocks(part: &Part, tables: &Tables, bits: &mut Bits<'_>) -> Option<()> {
    let (first, others) = (tables.first(part), tables.others(part));
    for _ in 0..part.blocks {
        first.skip_first(bits)?;
        others.skip_others(bits)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
