//! Normalise and cast equal torchvision's `to_tensor`, `normalize` and torch's casts, bit for bit.

use headwater_core::{Dtype, Recipe};
use headwater_pixels::ops::cast::{CastTable, plain};

use super::fixtures::{bytes, planes, png};

#[test]
fn every_level_of_every_channel_has_torchs_bits() {
    let view = planes(&png("cast/source.png"));
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::Fp8E4m3] {
        let recipe = Recipe::preset("dinov2", dtype).expect("a preset");
        let mut row = vec![0xa5; view.values().len() * dtype.size_bytes() as usize];
        plain::write(&view, &CastTable::new(&recipe, dtype), &mut row);
        assert!(row == bytes(&format!("cast/{dtype}.bin")), "{dtype}");
    }
}

#[test]
fn uint8_is_the_pixels_themselves() {
    let view = planes(&png("cast/source.png"));
    let recipe = Recipe::preset("dinov2", Dtype::U8).expect("a preset");
    let mut row = vec![0xa5; view.values().len()];
    plain::write(&view, &CastTable::new(&recipe, Dtype::U8), &mut row);
    assert_eq!(row, view.values());
}
