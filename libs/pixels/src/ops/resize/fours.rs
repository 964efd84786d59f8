//! The horizontal pass of sets whose vectors look 16 bytes up: four outputs of a row at a time.
//!
//! From the 16 bytes at a source position one lookup takes a quad of taps of each output; for the next
//! quad it is the same lookup four bytes further on. The quads of rows that the vertical pass wants come out as
//! they are.

use crate::ops::resize::Taps;
use crate::ops::resize::layout::{LANE_BLOCK, LOW_BITS, QUAD};

/// Bytes that are looked up.
const LOOKUP_BYTES: usize = 16;
/// Quads of an output, as many as there are where outputs are as far apart as a lookup allows: the last
/// one stays within the slack after the image.
const QUADS_MAX: usize = 5;
/// In place of a place: the lookup gives 0.
const NOTHING: u8 = 0x80;

/// The weights of an axis in groups of four outputs.
#[derive(Debug, Default)]
pub(super) struct Fours {
    groups: Vec<Four>,
    weights: Vec<Weights>,
    quads: usize,
}

/// Four outputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Four {
    /// The source position of the first lookup.
    pub(super) start: usize,
    /// Where the taps of a quad are in a lookup, for each output: each becomes 16 bits.
    pub(super) places: [u8; 2 * LOOKUP_BYTES],
}

/// The weights of a quad of taps of four outputs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Weights {
    /// The upper parts of the weights.
    pub(super) upper: [i16; QUAD * QUAD],
    /// The 12 lower bits.
    pub(super) lower: [i16; QUAD * QUAD],
}

// === impl Fours ===

impl Fours {
    /// Groups for all outputs, and for those that fill the last block of lanes. False: four outputs
    /// lie too far apart.
    pub(super) fn compute(&mut self, taps: &Taps, mirrored: bool) -> bool {
        let count = taps.len();
        let output = |n: usize| {
            let n = n.min(count - 1);
            taps.at(if mirrored { count - 1 - n } else { n })
        };
        self.groups.clear();
        self.quads = (0..count).map(|n| output(n).1.len().div_ceil(QUAD)).max().unwrap_or(0);
        for group in (0..count.next_multiple_of(LANE_BLOCK)).step_by(QUAD) {
            let firsts = [0, 1, 2, 3].map(|n| output(group + n).0);
            let start = firsts[0].min(firsts[3]);
            if self.quads > QUADS_MAX
                || firsts.iter().any(|first| first - start > LOOKUP_BYTES - QUAD)
            {
                return false;
            }
            let mut places = [NOTHING; 2 * LOOKUP_BYTES];
            for (n, place) in places.iter_mut().step_by(2).enumerate() {
                *place = (firsts[n / QUAD] - start + n % QUAD) as u8;
            }
            self.groups.push(Four { start, places });
        }
        self.weights.clear();
        self.weights.resize(self.groups.len() * self.quads, Weights::default());
        for (group, weights) in self.weights.chunks_exact_mut(self.quads).enumerate() {
            for n in 0..QUAD {
                for (tap, weight) in output(group * QUAD + n).1.iter().enumerate() {
                    let at = n * QUAD + tap % QUAD;
                    weights[tap / QUAD].upper[at] = (weight >> LOW_BITS) as i16;
                    weights[tap / QUAD].lower[at] = (weight & ((1 << LOW_BITS) - 1)) as i16;
                }
            }
        }
        true
    }

    /// Quads of taps of each output.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn quads(&self) -> usize {
        self.quads
    }

    /// One past the last source position that is looked up.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn reach(&self) -> usize {
        let last = self.groups.iter().map(|four| four.start).max().unwrap_or(0);
        last + (self.quads - 1) * QUAD + LOOKUP_BYTES
    }

    /// Two groups at a time with their weights.
    ///
    /// # Panics
    /// There are not `QUADS` quads of taps.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn pairs<const QUADS: usize>(
        &self,
    ) -> impl Iterator<Item = (&[Four; 2], &[[Weights; QUADS]; 2])> {
        assert_eq!(self.quads, QUADS, "quads of taps");
        let (weights, _) = self.weights.as_chunks::<QUADS>();
        self.groups.as_chunks().0.iter().zip(weights.as_chunks().0)
    }

    /// The groups with their weights.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Four, &[Weights])> {
        self.groups.iter().zip(self.weights.chunks_exact(self.quads))
    }
}
