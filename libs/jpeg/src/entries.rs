//! Places in the bits of a scan at which decoding can begin.
//!
//! A Huffman decoder knows where a symbol begins only when it has read all before it. Who has decoded an image once can
//! keep a few places: the number of the bit, the MCU that begins there, and the values that its DC differences are added
//! to. The file stays as it is. Entries that come from elsewhere are not believed: decoding must come from one to
//! exactly the next, or the image goes to libjpeg-turbo.

use crate::declined::Declined;
use crate::entropy::{End, Place, Predictors, Segment};
use crate::header::Frame;

/// Entries of an image at most: one less than there are lanes.
pub const ENTRIES_MAX: usize = 31;
/// Symbols of a segment at least: below, beginning costs more than the company of other lanes gains.
const SEGMENT_SYMBOLS_MIN: u32 = 200;
/// Bytes of an entry when written: bit and MCU in 32 bits, three predictors in 16 bits, all little-endian.
const ENTRY_BYTES: usize = 14;

/// One place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) bit: u32,
    pub(crate) mcu: u32,
    pub(crate) predictors: Predictors,
}

/// Where decoding of one file can begin, beside its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    entries: Box<[Entry]>,
    /// Whether they were made, or followed from the start to the end, from the bytes that they are for.
    proven: bool,
}

// === impl Entry ===

impl Entry {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.bit.to_le_bytes());
        to.extend(self.mcu.to_le_bytes());
        to.extend(self.predictors.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn read(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let &[b0, b1, b2, b3, m0, m1, m2, m3, y0, y1, u0, u1, v0, v1] = bytes;
        let predictors = [[y0, y1], [u0, u1], [v0, v1]].map(i16::from_le_bytes);
        Self {
            bit: u32::from_le_bytes([b0, b1, b2, b3]),
            mcu: u32::from_le_bytes([m0, m1, m2, m3]),
            predictors,
        }
    }
}

// === impl Entries ===

impl Entries {
    /// Entries that were written by [`Entries::write`]; none where the bytes are not of whole entries in order.
    /// Nothing else about them is known to be so.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        let entries: Box<[Entry]> = entries.iter().map(Entry::read).collect();
        let in_order = entries.is_sorted_by(|a, b| a.bit < b.bit && a.mcu < b.mcu);
        let is_right = rest.is_empty() && entries.len() <= ENTRIES_MAX && in_order;
        is_right.then_some(Self { entries, proven: false })
    }

    /// Appends them in the form in which they are stored and sent: 14 bytes each.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.entries.iter().for_each(|entry| entry.write(to));
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none: of a small image.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether all of them are known to be right for the bytes that they are kept with.
    #[must_use]
    pub fn are_proven(&self) -> bool {
        self.proven
    }

    /// The same, after an image was decoded with them from its start to its end ([`Decoded::whole`]).
    ///
    /// [`Decoded::whole`]: crate::Decoded::whole
    #[must_use]
    pub fn proven(self) -> Self {
        Self { proven: true, ..self }
    }

    /// Chooses places with equal numbers of symbols between them.
    pub(crate) fn choose(places: &[Place], symbols: u32) -> Self {
        Self::cut(places, symbols, (symbols / SEGMENT_SYMBOLS_MIN).clamp(1, ENTRIES_MAX as u32 + 1))
    }

    /// Chooses places that make `count` segments, or less where there are not enough places.
    pub(crate) fn cut(places: &[Place], symbols: u32, count: u32) -> Self {
        let target = |n: u32| (u64::from(symbols) * u64::from(n) / u64::from(count)) as u32;
        let nearest = |n| places.partition_point(|place| place.symbols < target(n));
        let mut chosen: Vec<_> =
            (1..count).map(nearest).filter(|n| (1..places.len()).contains(n)).collect();
        chosen.dedup();
        let entry = |n: usize| {
            let Place { bit, mcu, predictors, .. } = places[n];
            Entry { bit, mcu, predictors }
        };
        Self { entries: chosen.into_iter().map(entry).collect(), proven: true }
    }

    /// The segments that hold MCUs `from..to`, or those before `from` as well where the entries are not proven.
    pub(crate) fn segments(
        &self,
        frame: &Frame,
        bits: u32,
        (from, to): (u32, u32),
        segments: &mut Vec<Segment>,
    ) -> Result<(), Declined> {
        let from = if self.proven { from } else { 0 };
        segments_of(&self.entries, frame, bits, (from, to), segments)
    }
}

/// The segments between `entries` that hold MCUs `from..to`.
pub(crate) fn segments_of(
    entries: &[Entry],
    frame: &Frame,
    bits: u32,
    (from, to): (u32, u32),
    segments: &mut Vec<Segment>,
) -> Result<(), Declined> {
    let mcus = frame.mcus_across() * frame.mcus_down();
    let first = Entry { bit: 0, mcu: 0, predictors: [0; 3] };
    let starts = std::iter::once(&first).chain(entries);
    let ends = entries.iter().map(Some).chain([None]);
    for (start, next) in starts.zip(ends) {
        let next_mcu = next.map_or(mcus, |next| next.mcu);
        if next_mcu <= start.mcu || start.bit >= bits {
            return Err(Declined::Entry);
        }
        if next_mcu <= from || start.mcu >= to {
            continue;
        }
        let end = match next {
            _ if next_mcu > to => End::Open { before: next.map_or(bits, |next| next.bit) },
            Some(next) => End::At { bit: next.bit, predictors: next.predictors },
            None => End::Padded { bit: bits },
        };
        let &Entry { bit, mcu, predictors } = start;
        segments.push(Segment { bit, mcu, mcus: next_mcu.min(to) - mcu, predictors, end });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(n: u32) -> Place {
        Place { bit: 100 * n, mcu: n, predictors: [n as i16, -(n as i16), 7], symbols: 50 * n }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let places: Vec<_> = (0..100).map(place).collect();
        let mut entries = Entries::choose(&places, 5000);
        assert_eq!((entries.len(), entries.are_proven()), (24, true));
        let mut bytes = vec![];
        entries.write(&mut bytes);
        let read = Entries::read(&bytes).unwrap();
        assert!(!read.are_proven(), "what comes from elsewhere is not believed");
        entries.proven = false;
        assert_eq!(read, entries);
        assert_eq!(Entries::read(&bytes[1..]), None);
        let swapped = [&bytes[14..28], &bytes[..14]].concat();
        assert_eq!(Entries::read(&swapped), None, "not in order");
        assert_eq!(Entries::read(&bytes[..14].repeat(2)), None, "twice the same");
        assert!(Entries::read(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_small_image_has_no_entries_and_a_large_one_not_too_many() {
        let places: Vec<_> = (0..1000).map(place).collect();
        assert!(Entries::choose(&places[..5], 250).is_empty());
        assert_eq!(Entries::choose(&places, 50_000).len(), ENTRIES_MAX);
    }
}
