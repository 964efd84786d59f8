//! Whether the coded pixels of a baseline JPEG are whole, without decoding them.
//!
//! Every code must be in its table, and there must be as many blocks as the header says. A decoder that
//! stops at the first damage leaves the rest of its memory as it was: only from a whole image do
//! all decoders make pixels that follow from its bytes alone.
//!
//! Source: ITU-T T.81, annexes B and F.

mod bits;
mod codes;
mod header;

use bits::{Bits, Stretch};
use header::{Header, Part, Tables};

/// Marker that ends the image.
const END_OF_IMAGE: u8 = 0xd9;
/// The first of the eight restart markers, which take turns.
const FIRST_RESTART: u8 = 0xd0;

/// Looks at image after image, in memory that it keeps.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    tables: Tables,
    stretch: Stretch,
}

// === impl Checker ===

impl Checker {
    /// Whether a file is a baseline JPEG of 8 bits with a single scan of all its colours, whose coded
    /// pixels are undamaged and complete. `false` for all other kinds of JPEG too.
    pub(crate) fn is_whole(&mut self, encoded: &[u8]) -> bool {
        self.walk(encoded).is_some()
    }

    /// Passes over each block of the scan; `None` where one is damaged or missing.
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
                    pass_blocks(part, tables, &mut bits)?;
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

/// Passes over the blocks that one colour has in a unit of the scan.
fn pass_blocks(part: &Part, tables: &Tables, bits: &mut Bits<'_>) -> Option<()> {
    let (first, others) = (tables.first(part), tables.others(part));
    for _ in 0..part.blocks {
        first.pass_first(bits)?;
        others.pass_others(bits)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
