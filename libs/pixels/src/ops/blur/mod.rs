//! Gaussian blur, 9 x 9.
//!
//! The definition adds 81 products for each pixel. The twins add 18, in two passes. Both sums differ
//! by less than `kernel::DOUBT`; so a pixel whose sum of 18 lies further than that from a tie is
//! rounded to the same level. The others, about one of 900, are summed again as the definition does.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod by_compiler;
mod kernel;
pub mod plain;
mod rows;

pub use kernel::{Kernel, RADIUS, SIDE, reflect};
pub use rows::Scratch;

use headwater_core::op::Blurred;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::apply::Apply;
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
    fn by_rows(view: &mut Planes, sigma: f32, scratch: &mut Scratch) = by_compiler::apply;
}

// === impl Blurred ===

impl Apply for Blurred {
    type Memory = Scratch;

    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        apply(simd, view, self.sigma, memory);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        let [w0, w1, w2, w3, w4] = Kernel::new(self.sigma).weights;
        let values = [w0, w1, w2, w3, w4, 0.0];
        to.push(KernelOp { kind: kernels::BLUR, level: 0, values });
    }
}
