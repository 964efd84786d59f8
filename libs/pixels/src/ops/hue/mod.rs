//! Hue shift.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod bytes;
pub mod plain;
#[cfg(target_arch = "x86_64")]
mod tables;

use crate::image::Planes;
use crate::simd::Simd;

/// Shifts the hue by `turns` of the colour wheel.
pub fn apply(simd: Simd, view: &mut Planes, turns: f32) {
    match simd {
        Simd::Plain => plain::apply(view, turns),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) => avx2::apply(proof, view, turns),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => match proof.vbmi() {
            Some(proof) => bytes::avx512::apply(proof, view, turns),
            None => avx2::apply(proof.avx2(), view, turns),
        },
        // A table of divisions and 16 bits a pixel, as the other twins have them, are not written.
        #[cfg(target_arch = "aarch64")]
        Simd::Neon(_) => plain::apply(view, turns),
    }
}
