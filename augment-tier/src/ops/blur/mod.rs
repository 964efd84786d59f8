//! Gaussian blur, 9 x 9.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
pub mod plain;
mod rows;

pub use kernel::{Kernel, RADIUS, reflect};
pub use rows::Scratch;

use crate::image::Planes;
use crate::simd::{Simd, twin};

/// Blurs with standard deviation `sigma` in pixels.
pub fn apply(simd: Simd, view: &mut Planes, sigma: f32, scratch: &mut Scratch) {
    match simd {
        Simd::Plain => plain::apply(view, sigma, &mut scratch.plain),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) => by_rows(simd, view, sigma, scratch),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => avx512::apply(proof, view, sigma, scratch),
        #[cfg(target_arch = "aarch64")]
        Simd::Neon(_) => by_rows(simd, view, sigma, scratch),
    }
}

twin! {
    fn by_rows(view: &mut Planes, sigma: f32, scratch: &mut Scratch) = rows::apply;
}
