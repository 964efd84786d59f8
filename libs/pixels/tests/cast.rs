//! Normalise and cast.

use headwater_core::draw::Extent;
use headwater_core::{Dtype, Recipe};
use headwater_pixels::ops::amax;
use headwater_pixels::ops::cast::mx::{self, MxTable};
use headwater_pixels::ops::cast::{self, CastTable, Normalise};
use headwater_pixels::simd::Simd;

use super::pictures::{planes, rng, twins};

const DTYPES: [Dtype; 5] = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::U8, Dtype::Fp8E4m3];

#[test]
fn every_dtype_is_equal_with_any_mean_and_deviation() {
    for seed in 0..40 {
        let mut rng = rng(seed);
        let mut recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        match seed {
            0 => {}
            // Nothing to subtract: a level of 0 stays 0, which is no normal number.
            1 => (recipe.mean, recipe.std) = ([0.0; 3], [1.0; 3]),
            // A mean that is a level.
            2 => (recipe.mean, recipe.std) = ([128.0 / 255.0; 3], [0.25; 3]),
            _ => {
                recipe.mean = [(); 3].map(|()| rng.uniform(-0.2, 1.2) as f32);
                recipe.std = [(); 3].map(|()| rng.uniform(0.01, 2.0) as f32);
            }
        }
        for (width, height) in [(16, 16), (96, 7), (13, 5), (1, 1)] {
            let view = planes(&mut rng, Extent { width, height });
            for dtype in DTYPES {
                let table = CastTable::new(&recipe, dtype);
                let len = view.values().len() * dtype.size_bytes() as usize;
                let row = |simd: Simd| {
                    let mut row = vec![0xa5; len];
                    cast::write(simd, &view, &table, &mut row);
                    row
                };
                for simd in twins() {
                    assert!(row(*simd) == row(Simd::Plain), "{dtype} {recipe:?} {}", simd.name());
                }
            }
        }
    }
}

#[test]
fn fp8_is_equal_with_any_scale() {
    let recipe = Recipe::preset("dinov2", Dtype::Fp8E4m3).expect("a preset");
    let normalise = Normalise::of(&recipe);
    // Small ones leave numbers that are not normal, large ones saturate.
    let scales = [1.0, 1e-3, 1e-9, 170.0, 169.7, 448.0, 1e4, 1e30, f32::MAX, 3.7, 0.3];
    for (seed, scale) in (0..).zip(scales) {
        let view = planes(&mut rng(seed), Extent { width: 61, height: 67 });
        let table = CastTable::scaled(normalise, Dtype::Fp8E4m3, scale);
        let row = |simd: Simd| {
            let mut row = vec![0xa5; view.values().len()];
            cast::write(simd, &view, &table, &mut row);
            row
        };
        for simd in twins() {
            assert!(row(*simd) == row(Simd::Plain), "scale {scale} {}", simd.name());
        }
    }
}

#[test]
fn the_largest_magnitude_is_equal() {
    for seed in 0..200 {
        let mut rng = rng(seed);
        let mut recipe = Recipe::preset("dinov2", Dtype::Fp8E4m3).expect("a preset");
        recipe.mean = [(); 3].map(|()| rng.uniform(-0.2, 1.2) as f32);
        recipe.std = [(); 3].map(|()| rng.uniform(0.01, 2.0) as f32);
        let normalise = Normalise::of(&recipe);
        let (width, height) = (1 + seed as u32 % 70, 1 + seed as u32 / 40);
        let mut view = planes(&mut rng, Extent { width, height });
        // A narrow range, so that the ends differ from one view to the next.
        let (low, range) = (rng.below(200) as u8, 1 + rng.below(55) as u8);
        view.values_mut().iter_mut().for_each(|level| *level = low + *level % range);
        for simd in twins() {
            let (fast, plain) =
                (amax::of_view(*simd, &view, &normalise), amax::plain::of_view(&view, &normalise));
            assert_eq!(fast.to_bits(), plain.to_bits(), "seed {seed} {}", simd.name());
        }
    }
}

#[test]
fn elements_in_blocks_and_their_scales_are_equal() {
    for seed in 0..60 {
        let mut rng = rng(seed);
        let mut normalise = Normalise { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
        match seed {
            0..10 => {}
            10 => normalise = Normalise { mean: [0.0; 3], std: [1.0; 3] },
            11 => normalise = Normalise { mean: [51.0 / 255.0; 3], std: [0.25; 3] },
            12 => normalise = Normalise { mean: [0.5; 3], std: [1e-30, 1.0, 1e30] },
            _ => {
                normalise.mean = [(); 3].map(|()| rng.uniform(-0.2, 1.2) as f32);
                normalise.std = [(); 3].map(|()| rng.uniform(1e-4, 2.0) as f32);
            }
        }
        let table = MxTable::new(normalise);
        for (width, height) in [(32, 8), (96, 7), (112, 5), (33, 3), (31, 2), (1, 1)] {
            let view = planes(&mut rng, Extent { width, height });
            let rows = |simd: Simd| {
                let scales = 3 * height as usize * (width as usize).div_ceil(mx::BLOCK);
                let mut rows = (vec![0xa5; view.values().len()], vec![0xa5; scales]);
                mx::write(simd, &view, &table, &mut rows.0, &mut rows.1);
                rows
            };
            for simd in twins() {
                let equal = rows(*simd) == rows(Simd::Plain);
                assert!(equal, "seed {seed} {width}x{height} {}", simd.name());
            }
        }
    }
}
