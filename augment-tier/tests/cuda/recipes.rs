//! Whole recipes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_augment::cuda::CudaRenderer;
use headwater_augment::decode::DecodeLimits;
use headwater_augment::render::Renderer;
use headwater_augment::simd::Simd;
use headwater_core::recipe::Dinov3;
use headwater_core::{Dtype, Recipe};

use crate::emulation::{EmulatedDevice, Watch};
use crate::pictures::PHOTOS;
use crate::sinks::compare;

/// Room for the three photos and all that is made of them.
pub(crate) const ARENA_BYTES: u64 = 64 << 20;

fn check(recipe: &Recipe, shared_bytes_max: u32) {
    let limits = DecodeLimits::default();
    let device = EmulatedDevice::with_shared(Watch::Memory, ARENA_BYTES, shared_bytes_max);
    let views = Arc::clone(&device.views);
    let mut kernels = CudaRenderer::new(device, limits).unwrap();
    let mut plain = Renderer::with_simd(limits, Simd::Plain).unwrap();
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
    let dtypes = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::U8, Dtype::Fp8E4m3];
    for (dtype, shared_bytes_max) in dtypes.into_iter().zip(SHARED_BYTES.into_iter().cycle()) {
        check(&Recipe::preset("dinov2", dtype).unwrap(), shared_bytes_max);
    }
}

#[test]
fn tensors_may_have_dtypes_of_their_own() {
    let mut recipe = Recipe::preset("dinov2", Dtype::F32).unwrap();
    recipe.tensors[0].dtype = Dtype::Fp8E4m3;
    check(&recipe, SHARED_BYTES[1]);
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
