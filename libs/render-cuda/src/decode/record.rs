//! The structures of `decode/words.cu`, byte for byte as the kernels read them.

use headwater_jpeg::{Code, End, Segment};

/// Bytes of an image.
pub(crate) const JPEG_BYTES: u64 = 288;
/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: usize = 48;
/// Bytes of a group of segments.
pub(super) const GROUP_BYTES: u64 = 16;
/// Bytes in which the begin of a Huffman table is counted.
pub(super) const TABLE_UNIT_BYTES: usize = 256;
/// Segments that kernels find in an image at most.
pub(super) const LANES: u32 = 32;
/// An image with fewer MCUs is one segment: two lanes need that many.
pub(super) const FOUND_MCUS_MIN: u32 = 16;
/// Bits of a segment at most: a thread takes its time, and all others of the part would wait for it.
pub(super) const SEGMENT_BITS_MAX: u32 = 1 << 18;
/// Blocks of a segment at most, for the same reason: a block may be two bits.
pub(super) const SEGMENT_BLOCKS_MAX: u32 = 1 << 14;
/// Components of an image at most.
pub(super) const COMPONENTS_MAX: usize = 3;

/// Bits that the first lookup sees, and those that the second one sees of longer codes: as many as a code has at most.
const FIRST_BITS: u32 = 9;
const SECOND_BITS: u32 = 7;

/// `struct Jpeg`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JpegRecord {
    pub(super) coded: u64,
    pub(super) tables: u64,
    pub(super) segments: u64,
    pub(super) coefficients: u64,
    pub(super) status: u64,
    pub(super) pixels: u64,
    pub(super) words_len: u32,
    pub(super) bits: u32,
    pub(super) table_words: u32,
    pub(super) size: (u32, u32),
    pub(super) mcus_across: u32,
    pub(super) mcus: u32,
    pub(super) mcu_blocks: u32,
    pub(super) components_len: u32,
    pub(super) colour: u32,
    /// Numbers of the first blocks of threads of `make_samples` and `make_pixels`.
    pub(super) first_block: [u32; 2],
    pub(super) components: [ComponentRecord; COMPONENTS_MAX],
}

/// `struct Component`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ComponentRecord {
    pub(super) plane: u64,
    pub(super) steps: u64,
    pub(super) stride: u32,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) h: u32,
    pub(super) v: u32,
    /// Its first block in an MCU.
    pub(super) first: u32,
    pub(super) dc: u32,
    pub(super) ac: u32,
    pub(super) method: u32,
    pub(super) times: (u32, u32),
}

/// How a component is upsampled, by the numbers of `words.cu`.
const FULL: u32 = 0;
const H2V1: u32 = 1;
const H1V2: u32 = 2;
const H2V2: u32 = 3;
const REPLICATE: u32 = 4;

/// The choice of libjpeg-turbo's jdsample.c with smooth upsampling, for a component with `width` samples in a row.
/// `times`: by how much the samples are too few, across and down.
pub(super) fn upsampling(width: u32, times: (u32, u32)) -> u32 {
    match times {
        (1, 1) => FULL,
        (2, 1) if width > 2 => H2V1,
        (1, 2) => H1V2,
        (2, 2) if width > 2 => H2V2,
        _ => REPLICATE,
    }
}

fn write_all<const N: usize>(numbers: [u32; N], to: &mut Vec<u8>) {
    numbers.iter().for_each(|number| to.extend(number.to_le_bytes()));
}

// === impl JpegRecord ===

impl JpegRecord {
    /// The same, with what kernels read moved by `input`, what they make on the way by `scratch`, and the pixels by
    /// `pixels`.
    pub(super) fn placed(mut self, input: u64, scratch: u64, pixels: u64) -> Self {
        for place in [&mut self.coded, &mut self.tables, &mut self.segments] {
            *place += input;
        }
        self.coefficients += scratch;
        for component in &mut self.components {
            component.plane += scratch;
            component.steps += input;
        }
        self.pixels += pixels;
        self
    }

    /// Blocks of coefficients.
    pub(super) fn blocks(&self) -> u32 {
        self.mcus * self.mcu_blocks
    }

    /// Appends the structure.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let places = [self.coded, self.tables, self.segments, self.coefficients];
        let written = [self.status, self.pixels];
        places.iter().chain(&written).for_each(|place| to.extend(place.to_le_bytes()));
        let (width, height) = self.size;
        write_all([self.words_len, self.bits, self.table_words, width, height], to);
        write_all([self.mcus_across, self.mcus, self.mcu_blocks, self.components_len], to);
        write_all([self.colour, self.first_block[0], self.first_block[1]], to);
        self.components.iter().for_each(|component| component.write(to));
    }
}

// === impl ComponentRecord ===

impl ComponentRecord {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.plane.to_le_bytes());
        to.extend(self.steps.to_le_bytes());
        let Self { stride, width, height, h, v, first, dc, ac, method, times, .. } = *self;
        write_all([stride, width, height, h, v, first, dc, ac, method, times.0, times.1, 0], to);
    }
}

/// Appends `struct Segment`.
pub(super) fn write_segment(segment: &Segment, to: &mut Vec<u8>) {
    let &Segment { bit, mcu, mcus, predictors, end } = segment;
    let (kind, end_bit, end_predictors) = match end {
        End::Padded { bit } => (0, bit, [0; COMPONENTS_MAX]),
        End::At { bit, predictors } => (1, bit, predictors),
        // The whole scan is decoded.
        End::Open { .. } => unreachable!("a segment of a whole image has an end"),
    };
    write_all([bit, mcu, mcus, kind, end_bit], to);
    for predictor in predictors.iter().chain(&end_predictors) {
        to.extend(i32::from(*predictor).to_le_bytes());
    }
    write_all([0], to);
}

/// The segments that kernels have found, from the first one to the one that ends with the scan, as entries are written:
/// all but the first begin at one. `None`: no segment ends it.
pub(super) fn entries_of_segments(bytes: &[u8]) -> Option<Vec<u8>> {
    const END_PADDED: i32 = 0;
    let mut entries = Vec::new();
    for segment in bytes.as_chunks::<SEGMENT_BYTES>().0 {
        let number = |at: usize| segment[4 * at..].first_chunk().map(|n| i32::from_le_bytes(*n));
        let [bit, mcu, end] = [number(0)?, number(1)?, number(3)?];
        if bit > 0 {
            entries.extend(bit.to_le_bytes());
            entries.extend(mcu.to_le_bytes());
            for at in 5..5 + COMPONENTS_MAX {
                entries.extend((number(at)? as i16).to_le_bytes());
            }
        }
        if end == END_PADDED {
            return Some(entries);
        }
    }
    None
}

/// Appends a Huffman table, which takes some units.
pub(super) fn write_table(code: &Code, to: &mut Vec<u8>) {
    let second = 1 << SECOND_BITS;
    let mut found = vec![0_u16; 1 << FIRST_BITS];
    let lengths = (1_u32..).zip(code.counts());
    let lengths = lengths.flat_map(|(bits, &count)| std::iter::repeat_n(bits, count.into()));
    // Codes are in order, each the beginning of all windows of both lookups up to the next one.
    let mut window = 0;
    for (&symbol, bits) in code.symbols().iter().zip(lengths) {
        let entry = u16::from(symbol) | (bits as u16) << 8;
        let first = window >> SECOND_BITS;
        let windows = 1 << (FIRST_BITS + SECOND_BITS - bits);
        if bits <= FIRST_BITS {
            found[first..][..windows >> SECOND_BITS].fill(entry);
        } else {
            if found[first] == 0 {
                found[first] = (found.len() / second) as u16;
                found.resize(found.len() + second, 0);
            }
            let block = usize::from(found[first]) * second;
            found[block + window % second..][..windows].fill(entry);
        }
        window += windows;
    }
    to.extend(found.iter().flat_map(|entry| entry.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each code of a file with codes of up to 16 bits, followed by ones: what both lookups give, bit by bit.
    #[test]
    fn a_table_tells_each_code_and_knows_no_other() {
        let file = include_bytes!("proof/444.jpg");
        let mut decoder = headwater_jpeg::Decoder::new(headwater_simd::Simd::Plain);
        let outline = decoder.read(file).unwrap().outline(None).unwrap();
        let layer = outline.layers().next().unwrap();
        for code in [layer.dc, layer.ac] {
            let mut bytes = Vec::new();
            write_table(code, &mut bytes);
            assert!(bytes.len().is_multiple_of(TABLE_UNIT_BYTES));
            let entries: Vec<u16> =
                bytes.as_chunks::<2>().0.iter().map(|entry| u16::from_le_bytes(*entry)).collect();
            // As the kernels do.
            let look_up = |window: usize| match u32::from(entries[window >> SECOND_BITS]) {
                found if found.wrapping_sub(1) < 255 => {
                    entries[((found as usize) << SECOND_BITS) | (window % (1 << SECOND_BITS))]
                }
                found => found as u16,
            };
            let (mut next, mut symbols) = (0_usize, code.symbols().iter());
            for (bits, &count) in (1_u32..).zip(code.counts()) {
                for _ in 0..count {
                    let expected = (bits as u16) << 8 | u16::from(*symbols.next().unwrap());
                    let left = 16 - bits;
                    let windows = (next << left)..(next + 1) << left;
                    assert!(
                        windows.clone().all(|window| look_up(window) == expected),
                        "{bits} bits"
                    );
                    next += 1;
                }
                next <<= 1;
            }
            let beyond = next >> 1..1 << 16;
            assert!(!beyond.is_empty(), "no code is all ones");
            assert!(beyond.clone().all(|window| look_up(window) == 0), "of {beyond:?}");
        }
    }

    /// The numbers of `words.cu`, which name the fields there.
    #[test]
    fn fields_lie_where_the_kernels_look() {
        let component = ComponentRecord { plane: 7, times: (8, 9), ..ComponentRecord::default() };
        let record = JpegRecord {
            coded: 0x0102_0304_0506_0708,
            pixels: 2,
            words_len: 3,
            first_block: [4, 5],
            components: [component; COMPONENTS_MAX],
            ..JpegRecord::default()
        };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        assert_eq!(bytes.len() as u64, JPEG_BYTES);
        assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!((bytes[40], bytes[48], bytes[88], bytes[92], bytes[96]), (2, 3, 4, 5, 7));
        assert_eq!((bytes[96 + 2 * 64], bytes[96 + 52], bytes[96 + 56]), (7, 8, 9));
        bytes.clear();
        let end = End::At { bit: 4, predictors: [5, -1, 7] };
        write_segment(
            &Segment { bit: 1, mcu: 2, mcus: 3, predictors: [-9, 8, 9], end },
            &mut bytes,
        );
        assert_eq!(bytes.len(), SEGMENT_BYTES);
        assert_eq!((bytes[0], bytes[4], bytes[8], bytes[12], bytes[16]), (1, 2, 3, 1, 4));
        assert_eq!((bytes[20..24].to_vec(), bytes[32]), ((-9_i32).to_le_bytes().to_vec(), 5));
    }
}
