//! Interleaved pixels to planes and back.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod plain;

use headwater_core::draw::Extent;

use crate::simd::{Simd, twin};

/// Splits `u8[height, width, 3]`, 192 bytes of any value after it, into planes whose rows are
/// `stride` bytes apart. Up to 64 bytes after each row of the planes may be overwritten.
///
/// # Panics
/// There are less pixels, or less room.
pub(super) fn split(
    simd: Simd,
    pixels: &[u8],
    extent: Extent,
    planes: [&mut [u8]; 3],
    stride: usize,
) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) => avx2::split(proof, pixels, extent, planes, stride),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => match proof.vbmi() {
            Some(proof) => avx512::split(proof, pixels, extent, planes, stride),
            None => avx2::split(proof.avx2(), pixels, extent, planes, stride),
        },
        // Compilers make the one instruction of NEON of it.
        _ => plain::split(pixels, extent, planes, stride),
    }
}

/// Writes planes, whose rows are `stride` bytes apart with 64 bytes of any value after the last one,
/// as `u8[height, width, 3]`.
///
/// # Panics
/// There are less values, or less room.
pub(super) fn merge(
    simd: Simd,
    planes: [&[u8]; 3],
    stride: usize,
    extent: Extent,
    pixels: &mut [u8],
) {
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd
        && let Some(proof) = proof.vbmi()
    {
        return avx512::merge(proof, planes, stride, extent, pixels);
    }
    merge_compiled(simd, planes, stride, extent, pixels);
}

twin! {
    /// The plain loops, which compilers make vectors of.
    fn merge_compiled(planes: [&[u8]; 3], stride: usize, extent: Extent, pixels: &mut [u8]) = plain::merge;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_twin_splits_and_merges_as_the_definition() {
        for width in (1..70).chain([127, 128, 129, 191, 192, 193, 500]) {
            let (height, stride) = (3, width as usize + [0, 1, 64][width as usize % 3]);
            let extent = Extent { width, height };
            let len = 3 * (width * height) as usize;
            let pixels: Vec<u8> = (0..len + 192).map(|at| (at * 151 % 253) as u8).collect();
            for &simd in Simd::available() {
                let mut planes = vec![0xee; 3 * (3 * stride + 64)];
                let (red, rest) = planes.split_at_mut(3 * stride + 64);
                let (green, blue) = rest.split_at_mut(3 * stride + 64);
                split(simd, &pixels, extent, [&mut *red, &mut *green, &mut *blue], stride);
                for (at, pixel) in pixels[..len].chunks_exact(3).enumerate() {
                    let at = at / width as usize * stride + at % width as usize;
                    assert_eq!(pixel, [red[at], green[at], blue[at]], "{} {width}", simd.name());
                }
                let mut merged = vec![0; len];
                merge(simd, [red, green, blue], stride, extent, &mut merged);
                assert!(merged == pixels[..len], "{} of {width}", simd.name());
            }
        }
    }
}
