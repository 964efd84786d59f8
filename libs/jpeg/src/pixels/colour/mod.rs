//! From YCbCr to RGB, one row at a time.
//!
//! The functions need neither slack nor alignment: they read and write the slices and nothing else.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;

use headwater_simd::Simd;

pub(crate) use plain::{gray, interleave};

/// 1.402 is 1 and twice this in 16 binary places, 1.772 is 2 and twice the other: for the 256 values of a sample that
/// gives the rounded products of the definition.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const RED_PART: i16 = 13172;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const BLUE_PART: i16 = -7471;
/// -0.34414 in 16 binary places, and -0.71414 as -1 and this.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const GREEN_PARTS: [i16; 2] = [-22554, 18734];

/// Red, green and blue of a row, each in a slice of its own. Panics unless all are of one length.
pub(crate) fn ycc_to_planes(simd: Simd, ycc: [&[u8]; 3], rgb: [&mut [u8]; 3]) {
    let len = ycc[0].len();
    assert!(ycc.iter().all(|row| row.len() == len), "rows of one image");
    assert!(rgb.iter().all(|row| row.len() == len), "rows of one image");
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) if len >= avx512::STEP => avx512::ycc_to_planes(proof, ycc, rgb),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) if len >= avx2::STEP => avx2::ycc_to_planes(proof.avx2(), ycc, rgb),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) if len >= avx2::STEP => avx2::ycc_to_planes(proof, ycc, rgb),
        #[cfg(target_arch = "aarch64")]
        Simd::Neon(proof) if len >= neon::STEP => neon::ycc_to_planes(proof, ycc, rgb),
        _ => plain::ycc_to_planes(simd, ycc, rgb),
    }
}

/// Pixels of a row, three bytes each. Panics unless the rows are of one length and `pixels` is three times as long.
pub(crate) fn ycc_to_rgb(simd: Simd, ycc: [&[u8]; 3], pixels: &mut [u8]) {
    let len = ycc[0].len();
    assert!(ycc.iter().all(|row| row.len() == len), "rows of one image");
    assert_eq!(pixels.len(), 3 * len, "three bytes a pixel");
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => match proof.vbmi() {
            Some(vbmi) if len >= avx512::STEP => avx512::ycc_to_rgb(vbmi, ycc, pixels),
            _ if len >= avx2::STEP => avx2::ycc_to_rgb(proof.avx2(), ycc, pixels),
            _ => plain::ycc_to_rgb(simd, ycc, pixels),
        },
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) if len >= avx2::STEP => avx2::ycc_to_rgb(proof, ycc, pixels),
        #[cfg(target_arch = "aarch64")]
        Simd::Neon(proof) if len >= neon::STEP => neon::ycc_to_rgb(proof, ycc, pixels),
        _ => plain::ycc_to_rgb(simd, ycc, pixels),
    }
}
