//! Threads of a block never meet in memory without a barrier in between.

use headwater_core::op::{ColorJitter, Flip, GaussianBlur, OpSpec};
use headwater_core::recipe::{CropSpec, ViewSpec};
use headwater_core::{Dtype, Recipe};
use headwater_render::Renderer;
use headwater_render_cuda::CudaRenderer;
use headwater_simd::Simd;

use super::emulation::{EmulatedDevice, Watch};
use super::operations::{recipe, tensor};
use super::pictures::{random_png, rng};
use super::recipes::ARENA_BYTES;
use super::sinks::compare;

/// All that has threads wait for each other, one after the other and twice.
fn everything(size: (u32, u32), dtype: Dtype) -> Recipe {
    let jitter = OpSpec::ColorJitter(ColorJitter {
        p: 1.0,
        brightness: [0.5, 1.5],
        contrast: [0.5, 1.5],
        saturation: [0.5, 1.5],
        hue: [-0.5, 0.5],
    });
    let blur = OpSpec::GaussianBlur(GaussianBlur { p: 1.0, sigma: [0.5, 2.0] });
    let flip = OpSpec::Flip(Flip { p: 1.0 });
    let ops = vec![flip.clone(), jitter.clone(), blur.clone(), flip, blur, jitter];
    let crop = CropSpec::RandomResized { scale: [0.3, 1.0], ratio: [0.75, 1.33] };
    recipe(vec![tensor(dtype, size, ViewSpec { crop, ops })])
}

#[test]
fn no_two_threads_touch_the_same_memory_without_a_barrier_in_between() {
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    let mut rng = rng(9);
    for shared_bytes_max in [227 << 10, 12 << 10] {
        let device = EmulatedDevice::with_shared(Watch::Races, ARENA_BYTES, shared_bytes_max);
        let mut kernels = CudaRenderer::new(device).unwrap();
        for (size, dtype) in [
            ((64, 48), Dtype::Bf16),
            ((7, 3), Dtype::Bf16),
            ((40, 48), Dtype::Mxfp8E4m3),
            ((9, 35), Dtype::Fp8E4m3),
        ] {
            let file = random_png(&mut rng, 90, 70);
            compare(&mut plain, &mut kernels, &everything(size, dtype), &[&file, &file], &size);
        }
    }
}
