//! The forward transform and the quantisation tables of encoders: what real files hold.

use super::super::NATURAL;
use super::super::idct::{BLOCK, SIDE};

/// The brightness table of ISO/IEC 10918-1, annex K, row by row.
#[rustfmt::skip]
const ANNEX_K: [u32; BLOCK] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];

/// The forward DCT of rows: each coefficient as a sum of products.
pub(super) struct Forward([[f64; SIDE]; SIDE]);

/// The table of a quality from 1 to 100 as libjpeg scales it, in zigzag order.
pub(super) fn table(quality: u32) -> [u16; BLOCK] {
    let percent = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
    NATURAL.map(|at| ((ANNEX_K[usize::from(at)] * percent + 50) / 100).clamp(1, 255) as u16)
}

// === impl Forward ===

impl Forward {
    pub(super) fn new() -> Self {
        let factor = |frequency: usize, x: usize| {
            let scale = if frequency == 0 { 0.125_f64.sqrt() } else { 0.5 };
            let angle = ((2 * x + 1) * frequency) as f64 * std::f64::consts::PI / 16.0;
            scale * angle.cos()
        };
        Self(std::array::from_fn(|frequency| std::array::from_fn(|x| factor(frequency, x))))
    }

    /// The quantised coefficients of samples, in zigzag order.
    pub(super) fn coefficients(&self, samples: &[u8; BLOCK], quant: &[u16; BLOCK]) -> [i16; BLOCK] {
        let values = samples.map(|sample| f64::from(sample) - 128.0);
        let all = self.transposed(&self.transposed(&values));
        std::array::from_fn(|k| (all[usize::from(NATURAL[k])] / f64::from(quant[k])).round() as i16)
    }

    /// The transform of each row, as a column.
    fn transposed(&self, values: &[f64; BLOCK]) -> [f64; BLOCK] {
        let (rows, _) = values.as_chunks::<SIDE>();
        std::array::from_fn(|n| {
            let (frequency, row) = (n / SIDE, n % SIDE);
            let products = self.0[frequency].iter().zip(&rows[row]);
            products.map(|(factor, value)| factor * value).sum()
        })
    }
}
