//! The hue shift in bytes, 64 pixels at a time, with tables of 256 bytes in registers (VBMI).
//!
//! The steps are those that [`super::avx2`] explains, in integers of at most 16 bits:
//!
//! - floor(n / d) is the upper half of n times floor(65535 / d), or one more; the rest tells;
//! - hue = 0, 85, 170 or 255 at a channel, then up by floor(85 d / 2 range) or down by the same rounded up, where
//!   d is the middle channel less the smallest;
//! - of the three channels one is the value, one is p, and one is between (q or t): value less
//!   the nearest integer to value saturation w / 65025, where w is 255 for p.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

use crate::ops::hue::tables::ONE_LESS;

/// floor(65535 / n), lower bytes and upper bytes; for 0 it is 0, and what becomes of that is not used.
const RECIPROCALS: [[u8; 256]; 2] = reciprocals();

/// 1 where a quotient without rest gives one less.
const LESS: [u8; 256] = less();

/// The w of the channel that is between, by hue.
const BETWEEN: [u8; 256] = by_hue().0;

/// Which channels are p ([`IS_P`]) and which are between ([`IS_BETWEEN`]), by hue.
const PLACES: [u8; 256] = by_hue().1;

/// Bits of red, green and blue in [`PLACES`].
const IS_P: [u8; 3] = [1, 2, 4];
const IS_BETWEEN: [u8; 3] = [8, 16, 32];

const fn reciprocals() -> [[u8; 256]; 2] {
    let mut bytes = [[0; 256]; 2];
    let mut n = 1;
    while n < 256 {
        [bytes[0][n], bytes[1][n]] = (65535 / n as u16).to_le_bytes();
        n += 1;
    }
    bytes
}

const fn less() -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut hue = 0;
    while hue < 256 {
        bytes[hue] = (ONE_LESS[hue / 32] >> (hue % 32) & 1) as u8;
        hue += 1;
    }
    bytes
}

const fn by_hue() -> ([u8; 256], [u8; 256]) {
    // Of sectors 0 to 5, as `plain` has them.
    const P: [usize; 6] = [2, 2, 0, 0, 1, 1];
    const MIDDLE: [usize; 6] = [1, 0, 2, 1, 0, 2];
    let (mut between, mut places) = ([0; 256], [0; 256]);
    let mut hue = 0;
    while hue < 256 {
        let (sector, rest) = (6 * hue / 255 % 6, (6 * hue % 255) as u8);
        between[hue] = if sector % 2 == 0 { 255 - rest } else { rest };
        places[hue] = IS_P[P[sector]] | IS_BETWEEN[MIDDLE[sector]];
        hue += 1;
    }
    (between, places)
}
