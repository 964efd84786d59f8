//! Boxes erased from normalised rows.

use headwater_core::draw::{CropBox, Extent};
use headwater_core::op::{DrawnOp, EraseWith, Erased};
use headwater_core::{Dtype, Recipe};
use headwater_pixels::ops::cast::Normalise;
use headwater_pixels::ops::erase;
use headwater_pixels::simd::Simd;

use super::pictures::{from_range, rng, twins};

const DTYPES: [Dtype; 5] = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::U8, Dtype::Fp8E4m3];

#[test]
fn erased_boxes_are_equal() {
    let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
    let normalise = Normalise::of(&recipe);
    for seed in 0..60 {
        let mut rng = rng(seed);
        let (width, height) = (from_range(&mut rng, 1, 400), from_range(&mut rng, 1, 40));
        let (left, top) = (rng.below(width.into()) as u32, rng.below(height.into()) as u32);
        let area = CropBox {
            left,
            top,
            width: from_range(&mut rng, 1, width - left),
            height: from_range(&mut rng, 1, height - top),
        };
        for dtype in DTYPES {
            let with = match rng.below(4) {
                0 => EraseWith::Zero,
                1 if dtype != Dtype::Fp8E4m3 => EraseWith::Color([0.5, -1.0, 2.25]),
                _ => EraseWith::Noise([seed, rng.below(1 << 40)]),
            };
            let ops = [DrawnOp::Erase(Erased { area, with })];
            let row = |simd: Simd| {
                let len = u64::from(3 * width * height) * dtype.size_bytes();
                let mut row = vec![0xa5; len as usize];
                let view = Extent { width, height };
                erase::apply(simd, &ops, dtype, &normalise, view, &mut row);
                row
            };
            for simd in twins() {
                assert!(row(*simd) == row(Simd::Plain), "{dtype} {seed} {} {with:?}", simd.name());
            }
        }
    }
}
