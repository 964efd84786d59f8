//! Whole recipes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_core::recipe::{CropSpec, Dinov3, ViewSpec};
use headwater_core::{Dtype, Recipe};
use headwater_render::Renderer;
use headwater_render_cuda::CudaRenderer;
use headwater_simd::Simd;

use super::emulation::{EmulatedDevice, Watch};
use super::operations::{recipe, tensor};
use super::pictures::{PHOTOS, png, random_png, rng};
use super::sinks::{compare, render_into, untouched};

/// Room for the three photos and all that is made of them.
pub(crate) const ARENA_BYTES: u64 = 64 << 20;

fn check(recipe: &Recipe, shared_bytes_max: u32) {
    let device = EmulatedDevice::with_shared(Watch::Memory, ARENA_BYTES, shared_bytes_max);
    let views = Arc::clone(&device.views);
    let mut kernels = CudaRenderer::new(device).unwrap();
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    compare(&mut plain, &mut kernels, recipe, &PHOTOS, &recipe.tensors);
    assert!(!kernels.has_failed());
    let bases = recipe.bases.len() + recipe.image_ops.len().min(1);
    let all = PHOTOS.len() * (recipe.views_per_sample() + bases);
    let least = PHOTOS.len() * recipe.views_per_sample();
    let made = views.load(Ordering::Relaxed) as usize;
    assert!((least..=all).contains(&made), "{made} views of {all} were made by kernels");
}

/// Bytes of shared memory of a block: H100, A100, and hardly any, so that views lie in global memory.
const SHARED_BYTES: [u32; 3] = [227 << 10, 163 << 10, 48 << 10];

#[test]
fn each_preset_gives_the_bytes_of_the_definitions() {
    let presets =
        ["dinov2", "dinov2-paper", "dinov3", "dinov3-vitl", "imagenet-train", "imagenet-eval"];
    for name in presets {
        check(&Recipe::preset(name, Dtype::Bf16).unwrap(), SHARED_BYTES[0]);
    }
}

#[test]
fn each_dtype_gives_the_bytes_of_the_definitions() {
    let dtypes = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::U8, Dtype::Fp8E4m3, Dtype::Mxfp8E4m3];
    for (dtype, shared_bytes_max) in dtypes.into_iter().zip(SHARED_BYTES.into_iter().cycle()) {
        check(&Recipe::preset("dinov2", dtype).unwrap(), shared_bytes_max);
    }
}

#[test]
fn tensors_may_have_dtypes_of_their_own() {
    let mut recipe = Recipe::preset("dinov2", Dtype::F32).unwrap();
    recipe.tensors[0].dtype = Dtype::Fp8E4m3;
    check(&recipe, SHARED_BYTES[1]);
    recipe.tensors[0].dtype = Dtype::U8;
    recipe.tensors[1].dtype = Dtype::Mxfp8E4m3;
    check(&recipe, SHARED_BYTES[2]);
}

#[test]
fn scales_of_leases_are_those_of_their_samples_and_tables_of_old_ones_go() {
    let recipe = Recipe::preset("imagenet-train", Dtype::Fp8E4m3).unwrap();
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    let device = EmulatedDevice::start(Watch::Nothing, ARENA_BYTES);
    let mut kernels = CudaRenderer::new(device).unwrap();
    let files = [PHOTOS[0], PHOTOS[1]];
    // More than are kept, and at last the first ones again.
    for batch in (0..12u8).chain([0]) {
        let scales = [Some(100.0 + f32::from(batch)), (batch > 3).then(|| 3.0 * f32::from(batch))];
        let fresh = || scales.map(|scale| untouched(&recipe).scaled(scale)).to_vec();
        let (expected, _) = render_into(&mut plain, &recipe, &files, fresh());
        let (found, ends) = render_into(&mut kernels, &recipe, &files, fresh());
        assert!(ends.iter().all(Result::is_ok) && !kernels.has_failed());
        assert!(found == expected, "batch {batch}");
    }
}

#[test]
fn warps_share_the_blocks_of_a_view() {
    let view = ViewSpec { crop: CropSpec::CenterAfterResize { resize: 70 }, ops: Vec::new() };
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    let file = random_png(&mut rng(4), 90, 71);
    for (threads, size) in [(64, (70, 9)), (256, (33, 31)), (32, (64, 5))] {
        for dtype in [Dtype::Mxfp8E4m3, Dtype::Fp8E4m3] {
            let recipe = recipe(vec![tensor(dtype, size, view.clone())]);
            let device = EmulatedDevice::start(Watch::Memory, ARENA_BYTES).with_threads(threads);
            let mut kernels = CudaRenderer::new(device).unwrap();
            compare(&mut plain, &mut kernels, &recipe, &[&file], &(threads, size, dtype));
            assert!(!kernels.has_failed());
        }
    }
}

/// Rows of no whole number of blocks, values that are all zero, and a normalisation far from the
/// usual one.
#[test]
fn blocks_at_the_ends_of_rows_and_odd_normalisations_are_the_definitions_too() {
    let view = ViewSpec { crop: CropSpec::CenterAfterResize { resize: 70 }, ops: Vec::new() };
    let mut rng = rng(3);
    for (size, mean, std) in [
        ((33, 31), [0.5; 3], [1e-3, 0.5, 40.0]),
        ((1, 2), [0.0, 0.2, 1.0], [1.0; 3]),
        ((40, 64), [0.0; 3], [1e6, 1.0, 1e-6]),
    ] {
        for dtype in [Dtype::Mxfp8E4m3, Dtype::Fp8E4m3] {
            let mut recipe = recipe(vec![tensor(dtype, size, view.clone())]);
            (recipe.mean, recipe.std) = (mean, std);
            let black = png(80, 80, &[0; 3 * 80 * 80]);
            let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
            let device = EmulatedDevice::start(Watch::Memory, ARENA_BYTES);
            let mut kernels = CudaRenderer::new(device).unwrap();
            let files = [&random_png(&mut rng, 90, 71)[..], &black];
            compare(&mut plain, &mut kernels, &recipe, &files, &(size, dtype));
            assert!(!kernels.has_failed());
        }
    }
}

#[test]
fn views_of_bases_and_of_recoloured_images_are_the_same_too() {
    let options = Dinov3 {
        share_color_jitter: Some(true),
        localcrops_subset_of_globalcrops: Some(true),
        gram_crops_size: Some(320),
        horizontal_flips: Some(true),
        ..Dinov3::default()
    };
    check(&Recipe::dinov3("dinov3-vitl", &options, Dtype::U8).unwrap(), SHARED_BYTES[2]);
}

#[test]
fn images_decoded_at_a_fraction_of_their_size_are_the_same_too() {
    let mut recipe = Recipe::preset("imagenet-eval", Dtype::Bf16).unwrap();
    recipe.decode_scaling = headwater_core::recipe::DecodeScaling::Auto;
    recipe.tensors[0].height = 48;
    recipe.tensors[0].width = 40;
    recipe.tensors[0].views[0].crop =
        headwater_core::recipe::CropSpec::CenterAfterResize { resize: 60 };
    check(&recipe, SHARED_BYTES[0]);
}
