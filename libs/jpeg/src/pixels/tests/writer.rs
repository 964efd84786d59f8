//! A JPEG encoder that writes any coefficients in any sampling, so that libjpeg-turbo can be asked for its samples.

use super::super::idct::{BLOCK, SIDE};

/// One component of a file: its sampling factors and its blocks, row by row, in zigzag order.
pub(super) struct Planned {
    pub(super) h: usize,
    pub(super) v: usize,
    /// Blocks of a row, padded to whole MCUs.
    pub(super) blocks_wide: usize,
    pub(super) blocks: Vec<[i16; BLOCK]>,
}

/// Bits, the first one uppermost, with a zero byte after each of 255.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    pending: u64,
    len: u32,
}

/// The file, with one quantisation table for all components. Huffman codes are plain numbers: 4 bits for DC, 8 for AC.
pub(super) fn file(
    width: usize,
    height: usize,
    quant: &[u16; BLOCK],
    components: &[Planned],
) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8];
    let mut segment = |marker: u8, content: &[u8]| {
        file.extend([0xff, marker]);
        file.extend((content.len() as u16 + 2).to_be_bytes());
        file.extend(content);
    };
    let quant = quant.map(|step| u8::try_from(step).expect("an 8-bit table"));
    segment(0xdb, &[&[0][..], &quant].concat());
    let size = |length: usize| (length as u16).to_be_bytes();
    let mut frame = [&[8][..], &size(height), &size(width), &[components.len() as u8]].concat();
    let mut scan = vec![components.len() as u8];
    for (n, component) in components.iter().enumerate() {
        frame.extend([n as u8 + 1, (component.h << 4 | component.v) as u8, 0]);
        scan.extend([n as u8 + 1, 0]);
    }
    scan.extend([0, 63, 0]);
    segment(0xc0, &frame);
    let counts = |bits: usize, codes: u8| {
        let mut counts = [0; 16];
        counts[bits - 1] = codes;
        counts
    };
    let categories: Vec<u8> = (0..12).collect();
    segment(0xc4, &[&[0][..], &counts(4, 12), &categories].concat());
    let symbols: Vec<u8> = (0..=254).collect();
    segment(0xc4, &[&[0x10][..], &counts(8, 255), &symbols].concat());
    segment(0xda, &scan);
    file.extend(entropy(width, height, components));
    file.extend([0xff, 0xd9]);
    file
}

fn entropy(width: usize, height: usize, components: &[Planned]) -> Vec<u8> {
    let mut bits = Bits::default();
    let mut predictions = vec![0; components.len()];
    // A single component has blocks rather than MCUs, whatever its factors.
    let is_single = components.len() == 1;
    let factors = |component: &Planned| if is_single { (1, 1) } else { (component.h, component.v) };
    let h_max = components.iter().map(|component| factors(component).0).max().expect("a component");
    let v_max = components.iter().map(|component| factors(component).1).max().expect("a component");
    let (wide, high) = (width.div_ceil(SIDE * h_max), height.div_ceil(SIDE * v_max));
    for mcu in 0..wide * high {
        for (component, prediction) in components.iter().zip(&mut predictions) {
            let (h, v) = factors(component);
            for n in 0..h * v {
                let x = mcu % wide * h + n % h;
                let y = mcu / wide * v + n / h;
                bits.block(&component.blocks[y * component.blocks_wide + x], prediction);
            }
        }
    }
    bits.put(0x7f, 7);
    bits.bytes
}

// === impl Bits ===

impl Bits {
    fn block(&mut self, block: &[i16; BLOCK], prediction: &mut i16) {
        let (bits, size) = magnitude(block[0] - *prediction);
        *prediction = block[0];
        self.put(size.into(), 4);
        self.put(bits, size);
        let mut zeros = 0;
        for coefficient in &block[1..] {
            if *coefficient == 0 {
                zeros += 1;
                continue;
            }
            for _ in 0..zeros / 16 {
                self.put(0xf0, 8);
            }
            let (bits, size) = magnitude(*coefficient);
            self.put((zeros % 16) << 4 | u64::from(size), 8);
            self.put(bits, size);
            zeros = 0;
        }
        if zeros > 0 {
            self.put(0, 8);
        }
    }

    fn put(&mut self, bits: u64, len: u32) {
        self.pending = self.pending << len | bits;
        self.len += len;
        while self.len >= 8 {
            self.len -= 8;
            let byte = (self.pending >> self.len) as u8;
            self.bytes.push(byte);
            if byte == 0xff {
                self.bytes.push(0);
            }
        }
    }
}

/// The bits that tell a number, and how many.
fn magnitude(number: i16) -> (u64, u32) {
    let size = u16::BITS - number.unsigned_abs().leading_zeros();
    let bits = if number < 0 { i32::from(number) - 1 } else { i32::from(number) };
    (bits as u64 & ((1 << size) - 1), size)
}
