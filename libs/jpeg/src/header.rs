//! Markers before the coded pixels, as libjpeg reads them (`jdmarker.c`, `jdapimin.c`); what it would warn of or
//! refuse is declined here.

use crate::declined::Declined;
use crate::huffman::Code;

/// Components of an image at most: what has four is CMYK.
pub(crate) const COMPONENTS_MAX: usize = 3;
/// Blocks of an MCU at most (`D_MAX_BLOCKS_IN_MCU`).
pub(crate) const MCU_BLOCKS_MAX: usize = 10;
/// Sides of an image at most, in pixels (`JPEG_MAX_DIMENSION`).
pub(crate) const SIDE_MAX: u32 = 65_500;

const SOF0: u8 = 0xc0;
const SOF1: u8 = 0xc1;
const DHT: u8 = 0xc4;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;
const APP0: u8 = 0xe0;
const APP14: u8 = 0xee;
const APP15: u8 = 0xef;
const COM: u8 = 0xfe;

/// A quantisation table, in the order of the file.
pub(crate) type Quant = [u16; 64];

/// What the three components mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// One component: brightness.
    Gray,
    /// Brightness, blue and red difference.
    YCbCr,
    /// Red, green, blue.
    Rgb,
}

/// One component of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Component {
    id: u8,
    /// Blocks of an MCU across and down.
    pub(crate) h: u32,
    pub(crate) v: u32,
    pub(crate) quant: usize,
    pub(crate) dc: usize,
    pub(crate) ac: usize,
}

/// All that is known before the first pixel.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) colour: Colour,
    components: [Component; COMPONENTS_MAX],
    components_len: usize,
    quants: [Option<Quant>; 4],
    dc: [Option<Code>; 4],
    ac: [Option<Code>; 4],
    /// MCUs between two restart markers; 0 where there are none.
    pub(crate) restart_interval: u32,
    /// Where the coded pixels begin in the file.
    pub(crate) scan: usize,
}

/// Markers of one file, while they are read.
struct Reader<'a> {
    file: &'a [u8],
    at: usize,
    frame: Frame,
    saw_frame: bool,
    saw_jfif: bool,
    adobe_transform: Option<u8>,
}

fn header<T>(what: &'static str) -> Result<T, Declined> {
    Err(Declined::Header(what))
}

fn pair(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])))
}

// === impl Frame ===

impl Frame {
    /// Reads all markers up to the first scan, which must hold all components of a baseline image.
    pub(crate) fn read(file: &[u8]) -> Result<Self, Declined> {
        if !file.starts_with(&[0xff, 0xd8]) {
            return header("no start of image");
        }
        let frame = Self {
            width: 0,
            height: 0,
            colour: Colour::Gray,
            components: [Component::default(); COMPONENTS_MAX],
            components_len: 0,
            quants: [None; 4],
            dc: [const { None }; 4],
            ac: [const { None }; 4],
            restart_interval: 0,
            scan: 0,
        };
        let reader =
            Reader { file, at: 2, frame, saw_frame: false, saw_jfif: false, adobe_transform: None };
        reader.read()
    }

    pub(crate) fn components(&self) -> &[Component] {
        &self.components[..self.components_len]
    }

    /// Samples of an MCU across, in pixels.
    pub(crate) fn h_max(&self) -> u32 {
        self.components().iter().map(|component| component.h).max().unwrap_or(1)
    }

    /// Samples of an MCU down, in pixels.
    pub(crate) fn v_max(&self) -> u32 {
        self.components().iter().map(|component| component.v).max().unwrap_or(1)
    }

    pub(crate) fn mcus_across(&self) -> u32 {
        self.width.div_ceil(8 * self.h_max())
    }

    pub(crate) fn mcus_down(&self) -> u32 {
        self.height.div_ceil(8 * self.v_max())
    }

    /// Restart markers of the scan.
    pub(crate) fn restarts(&self) -> usize {
        match self.restart_interval {
            0 => 0,
            interval => (self.mcus_across() * self.mcus_down()).div_ceil(interval) as usize - 1,
        }
    }

    /// Blocks of an MCU.
    pub(crate) fn mcu_blocks(&self) -> usize {
        self.components().iter().map(|component| (component.h * component.v) as usize).sum()
    }

    /// Component of each block of an MCU, in their order.
    pub(crate) fn block_components(&self) -> impl Iterator<Item = usize> {
        let blocks = |(n, component): (usize, &Component)| {
            std::iter::repeat_n(n, (component.h * component.v) as usize)
        };
        self.components().iter().enumerate().flat_map(blocks)
    }

    // `check` has seen that the tables of a component are there.

    pub(crate) fn quant(&self, component: &Component) -> &Quant {
        self.quants[component.quant].as_ref().unwrap_or(&[0; 64])
    }

    pub(crate) fn dc_code(&self, component: &Component) -> &Code {
        self.dc[component.dc].as_ref().unwrap_or(Code::EMPTY)
    }

    pub(crate) fn ac_code(&self, component: &Component) -> &Code {
        self.ac[component.ac].as_ref().unwrap_or(Code::EMPTY)
    }

    /// Whether all that the scan names is there, and within what is decoded here.
    fn check(&self) -> Result<(), Declined> {
        for component in self.components() {
            if self.quants[component.quant].is_none() {
                return header("no quantisation table");
            }
            let dc = self.dc[component.dc].as_ref();
            if !dc.is_some_and(Code::is_of_differences) || self.ac[component.ac].is_none() {
                return header("no Huffman table");
            }
        }
        if self.mcu_blocks() > MCU_BLOCKS_MAX {
            return header("too many blocks in an MCU");
        }
        Ok(())
    }
}

// === impl Reader ===

impl Reader<'_> {
    fn read(mut self) -> Result<Frame, Declined> {
        loop {
            let Some(&[0xff, marker]) = self.file.get(self.at..self.at + 2) else {
                return header("no marker where one is due");
            };
            let Some(len) = pair(self.file, self.at + 2).filter(|len| *len >= 2) else {
                return header("a marker without a length");
            };
            let (start, end) = (self.at + 4, self.at + 2 + len as usize);
            let Some(body) = self.file.get(start..end) else {
                return header("a marker that goes beyond the file");
            };
            self.at = end;
            match marker {
                SOF0 | SOF1 => self.frame(body)?,
                DHT => self.codes(body)?,
                DQT => self.quants(body)?,
                DRI if body.len() == 2 => self.frame.restart_interval = pair(body, 0).unwrap_or(0),
                APP0 => self.jfif(body)?,
                APP14 => self.adobe(body),
                APP0..=APP15 | COM => {}
                SOS => return self.scan(body),
                _ => return header("a marker of another kind of JPEG"),
            }
        }
    }

    fn frame(&mut self, body: &[u8]) -> Result<(), Declined> {
        let &[precision, h0, h1, w0, w1, components_len, ref rest @ ..] = body else {
            return header("a short frame");
        };
        let frame = &mut self.frame;
        frame.height = u32::from(u16::from_be_bytes([h0, h1]));
        frame.width = u32::from(u16::from_be_bytes([w0, w1]));
        frame.components_len = usize::from(components_len);
        if self.saw_frame || precision != 8 || rest.len() != 3 * frame.components_len {
            return header("a frame of another kind");
        }
        let sides = [frame.width, frame.height];
        if sides.iter().any(|side| !(1..=SIDE_MAX).contains(side)) {
            return header("no size");
        }
        if !matches!(components_len, 1 | 3) {
            return header("neither gray nor three colours");
        }
        for (component, bytes) in frame.components.iter_mut().zip(rest.chunks_exact(3)) {
            let (h, v) = (u32::from(bytes[1] >> 4), u32::from(bytes[1] & 15));
            if ![h, v].iter().all(|factor| matches!(factor, 1 | 2 | 4)) || bytes[2] > 3 {
                return header("sampling factors or a table of another kind");
            }
            *component =
                Component { id: bytes[0], h, v, quant: usize::from(bytes[2]), ..*component };
        }
        if components_len == 1 {
            // A scan of one component has one block in an MCU, whatever its factors.
            (frame.components[0].h, frame.components[0].v) = (1, 1);
        }
        self.saw_frame = true;
        Ok(())
    }

    fn codes(&mut self, mut body: &[u8]) -> Result<(), Declined> {
        while body.len() > 16 {
            let index = body[0];
            let (code, rest) = Code::read(&body[1..])?;
            let tables = if index & 0x10 == 0 { &mut self.frame.dc } else { &mut self.frame.ac };
            let Some(table) = tables.get_mut(usize::from(index & !0x10)) else {
                return header("the number of a Huffman table");
            };
            *table = Some(code);
            body = rest;
        }
        if body.is_empty() { Ok(()) } else { header("a long Huffman table") }
    }

    fn quants(&mut self, mut body: &[u8]) -> Result<(), Declined> {
        while let Some((&index, rest)) = body.split_first() {
            let bytes_each = if index >> 4 == 0 { 1 } else { 2 };
            let (Some(table), Some((values, rest))) = (
                self.frame.quants.get_mut(usize::from(index & 15)),
                rest.split_at_checked(64 * bytes_each),
            ) else {
                return header("a quantisation table");
            };
            let mut values = values.chunks_exact(bytes_each);
            *table = Some(std::array::from_fn(|_| {
                values.next().map_or(0, |v| v.iter().fold(0, |sum, &b| sum << 8 | u16::from(b)))
            }));
            body = rest;
        }
        Ok(())
    }

    fn jfif(&mut self, body: &[u8]) -> Result<(), Declined> {
        if body.len() < 14 || !body.starts_with(b"JFIF\0") {
            return Ok(());
        }
        self.saw_jfif = true;
        // libjpeg warns of other revisions.
        if body[5] == 1 { Ok(()) } else { header("a JFIF revision") }
    }

    fn adobe(&mut self, body: &[u8]) {
        if body.len() >= 12 && body.starts_with(b"Adobe") {
            self.adobe_transform = Some(body[11]);
        }
    }

    fn scan(mut self, body: &[u8]) -> Result<Frame, Declined> {
        let frame = &mut self.frame;
        let components_len = frame.components_len;
        if !self.saw_frame || body.len() != 2 * components_len + 4 {
            return header("a scan of a part of the components");
        }
        if body[0] as usize != components_len || body[1 + 2 * components_len..] != [0, 63, 0] {
            return header("a scan of another kind");
        }
        let names = body[1..].chunks_exact(2);
        for (n, name) in names.take(components_len).enumerate() {
            let (dc, ac) = (usize::from(name[1] >> 4), usize::from(name[1] & 15));
            let twice = frame.components[..n].iter().any(|other| other.id == name[0]);
            if frame.components[n].id != name[0] || twice || dc > 3 || ac > 3 {
                return header("components of a scan");
            }
            (frame.components[n].dc, frame.components[n].ac) = (dc, ac);
        }
        frame.check()?;
        frame.scan = self.at;
        self.frame.colour = self.colour()?;
        Ok(self.frame)
    }

    /// The rules of `default_decompress_parms`.
    fn colour(&self) -> Result<Colour, Declined> {
        let [red, green, blue] = self.frame.components.map(|component| component.id);
        Ok(match self.adobe_transform {
            _ if self.frame.components_len == 1 => Colour::Gray,
            _ if self.saw_jfif => Colour::YCbCr,
            Some(0) => Colour::Rgb,
            Some(1) => Colour::YCbCr,
            // libjpeg warns of it.
            Some(_) => return header("an Adobe transform"),
            None if [red, green, blue] == *b"RGB" => Colour::Rgb,
            None => Colour::YCbCr,
        })
    }
}
