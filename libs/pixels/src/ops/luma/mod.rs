//! Pillow's luma (`Convert.c`, `L24`): the gray that grayscale, contrast and saturation share.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

/// ITU-R 601-2 in 16-bit fixed point, rounded.
#[inline(always)]
#[must_use]
pub fn luma(red: u8, green: u8, blue: u8) -> u8 {
    let sum = 19595 * u32::from(red) + 38470 * u32::from(green) + 7471 * u32::from(blue);
    ((sum + 0x8000) >> 16) as u8
}
