//! Random operations in any order on random images, and operations one by one on many colours.

use headwater_core::draw::DrawRng;
use headwater_core::op::{ColorJitter, Flip, GaussianBlur, Grayscale, OpSpec, Solarize};
use headwater_core::recipe::{CropSpec, DecodeScaling, Interpolation, TensorSpec, ViewSpec};
use headwater_core::{Dtype, Recipe};
use headwater_render::Renderer;
use headwater_render_cuda::CudaRenderer;
use headwater_simd::Simd;

use super::emulation::{EmulatedDevice, Watch};
use super::pictures::{from_range, random_png, rng};
use super::recipes::ARENA_BYTES;
use super::sinks::compare;

pub(crate) fn recipe(tensors: Vec<TensorSpec>) -> Recipe {
    let preset = Recipe::preset("imagenet-eval", Dtype::U8).unwrap();
    Recipe { decode_scaling: DecodeScaling::Off, tensors, ..preset }
}

pub(crate) fn tensor(dtype: Dtype, (width, height): (u32, u32), view: ViewSpec) -> TensorSpec {
    TensorSpec { name: "images".into(), dtype, height, width, views: vec![view] }
}

/// One of each operation that GPUs do.
fn with_kernels() -> Vec<OpSpec> {
    OpSpec::examples().into_iter().filter(OpSpec::has_kernel).collect()
}

fn random_op(rng: &mut DrawRng) -> OpSpec {
    let p = 0.9;
    match rng.below(7) {
        0 => OpSpec::Flip(Flip { p }),
        1 => OpSpec::Grayscale(Grayscale { p: 0.3 }),
        2 => OpSpec::Solarize(Solarize { p, threshold: rng.below(256) as u8 }),
        3 => OpSpec::GaussianBlur(GaussianBlur { p, sigma: [0.1, 3.0] }),
        4 => {
            let mut known = with_kernels();
            known.swap_remove(rng.below(known.len() as u64) as usize)
        }
        _ => OpSpec::ColorJitter(ColorJitter {
            p,
            brightness: [0.0, 2.5],
            contrast: [0.0, 2.5],
            saturation: [0.0, 2.5],
            hue: [-0.5, 0.5],
        }),
    }
}

/// Any number of operations in any order, of views of any size down to one pixel.
fn random_recipe(rng: &mut DrawRng) -> Recipe {
    let dtypes = [Dtype::U8, Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::Fp8E4m3];
    let tensors = (0..3).map(|number| {
        let ops = (0..rng.below(6)).map(|_| random_op(rng)).collect();
        let crop = match rng.below(5) {
            0 => CropSpec::CenterAfterResize { resize: from_range(rng, 70, 90) },
            1 => CropSpec::RandomAfterResize { resize: from_range(rng, 70, 90) },
            2 => CropSpec::Resize {},
            _ => CropSpec::RandomResized { scale: [0.01, 1.0], ratio: [0.2, 5.0] },
        };
        let largest = [4, 70][rng.below(2) as usize];
        let size = (from_range(rng, 1, largest), from_range(rng, 1, largest));
        let dtype = dtypes[rng.below(5) as usize];
        TensorSpec { name: format!("t{number}"), ..tensor(dtype, size, ViewSpec { crop, ops }) }
    });
    let filters = [
        Interpolation::Bicubic,
        Interpolation::Bilinear,
        Interpolation::Random,
        Interpolation::Box,
        Interpolation::Nearest,
    ];
    let recipe = recipe(tensors.collect());
    Recipe { interpolation: filters[rng.below(5) as usize], ..recipe }
}

#[test]
fn operations_in_any_order_give_the_bytes_of_the_definitions() {
    let mut rng = rng(7);
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    for shared_bytes_max in [227 << 10, 12 << 10] {
        let device = EmulatedDevice::with_shared(Watch::Memory, ARENA_BYTES, shared_bytes_max);
        let mut kernels = CudaRenderer::new(device).unwrap();
        for round in 0..25 {
            let recipe = random_recipe(&mut rng);
            let files: Vec<Vec<u8>> = (0..2)
                .map(|_| {
                    let (width, height) =
                        (from_range(&mut rng, 1, 150), from_range(&mut rng, 1, 150));
                    random_png(&mut rng, width, height)
                })
                .collect();
            let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
            compare(&mut plain, &mut kernels, &recipe, &files, &(round, &recipe.tensors));
        }
        assert!(!kernels.has_failed());
    }
}

/// Each operation by itself, on an image of its own size with a quarter of a million random colours,
/// and colours at the edges of the cube, where hues have their special cases.
#[test]
fn each_operation_alone_changes_all_colours_as_its_definition_does() {
    const SIDE: u32 = 512;
    let device = EmulatedDevice::start(Watch::Nothing, ARENA_BYTES);
    let mut kernels = CudaRenderer::new(device).unwrap();
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    let mut rng = rng(8);
    let mut pixels: Vec<u8> = (0..3 * SIDE * SIDE).map(|_| rng.below(256) as u8).collect();
    for (number, pixel) in pixels.chunks_exact_mut(3).take(4096).enumerate() {
        let level = |shift: usize| {
            [0, 1, 2, 3, 64, 127, 128, 129, 170, 200, 250, 251, 252, 253, 254, 255]
                [number >> shift & 15]
        };
        pixel.copy_from_slice(&[level(0), level(4), level(8)]);
    }
    let file = super::pictures::png(SIDE, SIDE, &pixels);
    let jitter = |brightness: f64, contrast: f64, saturation: f64, hue: f64| {
        let once = |value| [value, value];
        let (brightness, contrast) = (once(brightness), once(contrast));
        OpSpec::ColorJitter(ColorJitter {
            p: 1.0,
            brightness,
            contrast,
            saturation: once(saturation),
            hue: once(hue),
        })
    };
    let mut cases = with_kernels();
    cases.extend((0..11).map(|turn| jitter(1.0, 1.0, 1.0, f64::from(turn) / 10.0 - 0.5)));
    for factor in [0.0, 0.6, 0.999, 1.0, 1.4, 3.0] {
        cases.push(jitter(factor, 1.0, 1.0, 0.0));
        cases.push(jitter(1.0, factor, 1.0, 0.0));
        cases.push(jitter(1.0, 1.0, factor, 0.0));
    }
    cases.extend(
        [0.1, 0.5, 2.0, 50.0]
            .map(|sigma| OpSpec::GaussianBlur(GaussianBlur { p: 1.0, sigma: [sigma; 2] })),
    );
    cases.extend([0, 128, 255].map(|threshold| OpSpec::Solarize(Solarize { p: 1.0, threshold })));
    for op in cases {
        let crop = CropSpec::CenterAfterResize { resize: SIDE };
        let view = ViewSpec { crop, ops: vec![op.clone()] };
        let recipe = recipe(vec![tensor(Dtype::U8, (SIDE, SIDE), view)]);
        compare(&mut plain, &mut kernels, &recipe, &[&file], &op);
    }
    assert!(!kernels.has_failed());
}
