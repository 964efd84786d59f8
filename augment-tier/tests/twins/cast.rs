//! Normalise and cast.

use headwater_augment::ops::cast::{self, CastTable};
use headwater_augment::simd::Simd;
use headwater_core::draw::Extent;
use headwater_core::{Dtype, Recipe};

use crate::pictures::{planes, rng, twins};

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
