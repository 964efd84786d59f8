//! What levels of images become: normalised, then rounded to an element type.
//!
//! Workers cast before they deliver, receivers may do it on their GPU: both by this.

pub mod e4m3;
mod normalise;

pub use normalise::Normalise;

use crate::Dtype;

/// Bits of the element that each of the 256 levels of each channel becomes; the lower bytes count.
pub type LevelElements = [[u32; 256]; 3];

/// Normalised in binary32, then one rounding to `dtype`. Values of FP8 are multiplied by `scale` before
/// they are rounded; `scale` is not looked at for other types.
///
/// # Panics
/// `dtype` is not one of images, or one with blocks.
#[must_use]
pub fn level_elements(normalise: &Normalise, dtype: Dtype, scale: f32) -> Box<LevelElements> {
    let mut bits = Box::new([[0; 256]; 3]);
    for (channel, levels) in bits.iter_mut().enumerate() {
        for (level, element) in (0..=u8::MAX).zip(levels) {
            let value = normalise.value(channel, level);
            *element = match dtype {
                Dtype::U8 => u32::from(level),
                _ => self::element(value, dtype, scale),
            };
        }
    }
    bits
}

/// Bits of the element that a normalised value becomes: one rounding to `dtype`. Values of FP8 are multiplied by
/// `scale` before they are rounded.
///
/// # Panics
/// `dtype` is not one of normalised values, or one with blocks.
#[inline]
#[must_use]
pub fn element(value: f32, dtype: Dtype, scale: f32) -> u32 {
    match dtype {
        Dtype::F32 => value.to_bits(),
        Dtype::Bf16 => u32::from(half::bf16::from_f32(value).to_bits()),
        Dtype::F16 => u32::from(half::f16::from_f32(value).to_bits()),
        Dtype::Fp8E4m3 => u32::from(e4m3::from_f32(value * scale)),
        _ => panic!("{dtype} is no dtype whose elements follow from levels"),
    }
}
