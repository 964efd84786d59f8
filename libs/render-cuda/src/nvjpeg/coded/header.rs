//! The header of a file, up to its scan.

use super::codes::{Codes, Kind};

const START_OF_IMAGE: [u8; 2] = [0xff, 0xd8];
const BASELINE_FRAME: u8 = 0xc0;
const HUFFMAN_TABLES: u8 = 0xc4;
const RESTART_INTERVAL: u8 = 0xdd;
const START_OF_SCAN: u8 = 0xda;

/// Width and height of a block, in pixels.
const SIDE: u64 = 8;
/// Tables of each kind in a baseline image, at most.
const TABLES: usize = 2;
/// Bits of a sample.
const PRECISION: u8 = 8;
/// End of the header of a scan of whole blocks: first coefficient, last one, no successive approximation.
const WHOLE_BLOCKS: [u8; 3] = [0, 63, 0];

/// What is needed to walk through a scan.
#[derive(Debug)]
pub(super) struct Header<'a> {
    /// Units (MCUs) of the image.
    pub(super) units: u64,
    /// Units between two restart markers; 0: no markers.
    pub(super) restart_interval: u64,
    /// The colours of a unit, in order.
    pub(super) parts: Vec<Part>,
    /// The bytes after the header.
    pub(super) scan: &'a [u8],
}

/// One colour of a unit.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) blocks: u32,
    /// Numbers of the tables of the first coefficient of a block and of the others.
    first: usize,
    others: usize,
}

/// Tables of codes. They are kept from one file to the next, as most files have the same ones.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Those of first coefficients, then those of the others.
    places: [[Table; TABLES]; 2],
}

#[derive(Debug, Default)]
struct Table {
    /// Whether the current file defines it.
    defined: bool,
    /// The bytes that define it.
    bytes: Vec<u8>,
    codes: Codes,
}

#[derive(Default)]
struct Said {
    frame: Option<Frame>,
    restart_interval: u64,
}

struct Frame {
    width: u64,
    height: u64,
    colours: Vec<Colour>,
}

struct Colour {
    id: u8,
    /// Sampling factors: blocks of a unit.
    across: u64,
    down: u64,
}

// === impl Header ===

impl<'a> Header<'a> {
    /// Reads a header; `None` unless it is that of a baseline image with all colours in one scan.
    pub(super) fn read(encoded: &'a [u8], tables: &mut Tables) -> Option<Self> {
        tables.forget();
        let mut rest = encoded.strip_prefix(&START_OF_IMAGE)?;
        let mut said = Said::default();
        loop {
            let ones = rest.iter().take_while(|&&byte| byte == 0xff).count();
            let (&marker, after) = rest[ones..].split_first().filter(|_| ones > 0)?;
            let length = usize::from(u16::from_be_bytes(*after.first_chunk()?));
            let (segment, behind) = after.split_at_checked(length)?;
            let segment = segment.get(2..)?;
            rest = behind;
            match marker {
                BASELINE_FRAME if said.frame.is_none() => said.frame = Some(Frame::read(segment)?),
                // Frames of other kinds, and markers without a segment.
                0xc0..=0xc3 | 0xc5..=0xcf | 0x00..=0x01 | 0xd0..=0xd9 => return None,
                HUFFMAN_TABLES => tables.read(segment)?,
                RESTART_INTERVAL => {
                    said.restart_interval = u16::from_be_bytes(segment.try_into().ok()?).into();
                }
                START_OF_SCAN => return said.scan(segment, rest, tables),
                _ => {}
            }
        }
    }
}

// === impl Tables ===

impl Tables {
    /// The table of a colour's first coefficients.
    pub(super) fn first(&self, part: &Part) -> &Codes {
        &self.places[0][part.first].codes
    }

    /// The table of a colour's other coefficients.
    pub(super) fn others(&self, part: &Part) -> &Codes {
        &self.places[1][part.others].codes
    }

    /// Begins a file.
    fn forget(&mut self) {
        self.places.iter_mut().flatten().for_each(|table| table.defined = false);
    }

    fn read(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&which, rest)) = segment.split_first() {
            let counts: &[u8; 16] = rest.first_chunk()?;
            let symbols = counts.iter().map(|&count| usize::from(count)).sum::<usize>();
            let (bytes, rest) = rest.split_at_checked(counts.len() + symbols)?;
            let place = self.places.get_mut(usize::from(which >> 4))?;
            let table = place.get_mut(usize::from(which & 15))?;
            if table.bytes != bytes {
                // A table that cannot be made must not be found by the next file.
                table.bytes.clear();
                let kind = if which >> 4 == 0 { Kind::First } else { Kind::Others };
                table.codes = Codes::new(kind, counts, &bytes[counts.len()..])?;
                table.bytes.extend_from_slice(bytes);
            }
            table.defined = true;
            segment = rest;
        }
        Some(())
    }

    fn are_defined(&self, part: &Part) -> bool {
        let defined = |kind: usize, number: usize| {
            self.places[kind].get(number).is_some_and(|table| table.defined)
        };
        defined(0, part.first) && defined(1, part.others)
    }
}

// === impl Said ===

impl Said {
    fn scan<'a>(&self, segment: &[u8], scan: &'a [u8], tables: &Tables) -> Option<Header<'a>> {
        let frame = self.frame.as_ref()?;
        let (&count, rest) = segment.split_first()?;
        let (chosen, end) = rest.split_at_checked(2 * usize::from(count))?;
        if usize::from(count) != frame.colours.len() || end != WHOLE_BLOCKS {
            return None;
        }
        // The units of a single colour are its blocks.
        let alone = frame.colours.len() == 1;
        let mut parts = Vec::with_capacity(frame.colours.len());
        for (colour, chosen) in frame.colours.iter().zip(chosen.chunks_exact(2)) {
            let part = Part {
                blocks: if alone { 1 } else { (colour.across * colour.down) as u32 },
                first: usize::from(chosen[1] >> 4),
                others: usize::from(chosen[1] & 15),
            };
            if chosen[0] != colour.id || !tables.are_defined(&part) {
                return None;
            }
            parts.push(part);
        }
        let most = |side: fn(&Colour) -> u64| frame.colours.iter().map(side).max();
        let (across, down) = match alone {
            true => (1, 1),
            false => (most(|colour| colour.across)?, most(|colour| colour.down)?),
        };
        let units = frame.width.div_ceil(SIDE * across) * frame.height.div_ceil(SIDE * down);
        Some(Header { units, restart_interval: self.restart_interval, parts, scan })
    }
}

// === impl Frame ===

impl Frame {
    fn read(segment: &[u8]) -> Option<Self> {
        let (&[precision, h1, h0, w1, w0, count], colours) = segment.split_first_chunk()?;
        let side = |high, low| u64::from(u16::from_be_bytes([high, low]));
        let (width, height) = (side(w1, w0), side(h1, h0));
        let whole = colours.len() == 3 * usize::from(count) && width * height > 0;
        let colour = |bytes: &[u8]| Colour {
            id: bytes[0],
            across: u64::from(bytes[1] >> 4),
            down: u64::from(bytes[1] & 15),
        };
        let colours: Vec<Colour> = colours.chunks_exact(3).map(colour).collect();
        let sampled =
            |colour: &Colour| (1..=4).contains(&colour.across) && (1..=4).contains(&colour.down);
        let good = whole && precision == PRECISION && colours.iter().all(sampled);
        (good && !colours.is_empty()).then_some(Self { width, height, colours })
    }
}
