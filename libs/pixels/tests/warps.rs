//! Operations that move pixels or look at a channel's levels.

use headwater_core::draw::{DrawRng, Extent, Filter};
use headwater_pixels::image::Planes;
use headwater_pixels::ops::levels::{self, Change};
use headwater_pixels::ops::warp::{self, Map, Warp};
use headwater_pixels::ops::{pil_blur, sharpness};
use headwater_pixels::simd::Simd;

use super::pictures::{from_range, planes, rng, twins};

fn equal_on_all(name: &str, apply: impl Fn(Simd, &mut Planes, &mut DrawRng)) {
    for seed in 0..250 {
        let mut rng = rng(seed);
        let (width, height) = (from_range(&mut rng, 1, 70), from_range(&mut rng, 1, 70));
        let source = planes(&mut rng, Extent { width, height });
        let mut plain = source.clone();
        apply(Simd::Plain, &mut plain, &mut rng.clone());
        for simd in twins() {
            let mut twin = source.clone();
            apply(*simd, &mut twin, &mut rng.clone());
            assert!(twin == plain, "{name} {seed} of {width}x{height} on {}", simd.name());
        }
    }
}

#[test]
fn warps_are_equal() {
    equal_on_all("warp", |simd, view, rng| {
        let Extent { width, height } = view.extent();
        let filters = [Filter::Nearest, Filter::Bilinear, Filter::Bicubic];
        let filter = filters[rng.below(3) as usize];
        let (sin, cos) = rng.uniform(-3.2, 3.2).sin_cos();
        let mut shift = |side: u32| rng.uniform(-0.5, 1.0) * f64::from(side);
        let (across, down) = (shift(width), shift(height));
        let scale = rng.uniform(0.3, 1.5);
        let [a, b] = [cos * scale, sin * scale];
        let map = match rng.below(8) {
            0 => Map::Affine([1.0, 0.0, across.round(), 0.0, 1.0, down.round()]),
            1 => Map::Affine([1.0, 0.0, across, 0.0, 1.0, down]),
            2 => Map::Affine([a, b, across, -b, a, down]),
            3 => Map::Affine([1.0, 0.0, across, 0.0, 1.0, 0.0]),
            4 => Map::Affine([1.0, 0.0, 0.0, 0.0, 1.0, down]),
            5 => Map::Affine([1.0, b, 0.0, 0.0, 1.0, 0.0]),
            6 => Map::Affine([1.0, 0.0, 0.0, b, 1.0, 0.0]),
            _ => {
                let far = [rng.uniform(-0.02, 0.02), rng.uniform(-0.02, 0.02)];
                Map::Perspective([a, b, across, -b, a, down, far[0], far[1]])
            }
        };
        let warp = Warp { map, filter, fill: [9, 90, 200] };
        warp::apply(simd, view, &warp, &mut Planes::new(), &mut Default::default());
    });
}

#[test]
fn changes_of_levels_are_equal() {
    equal_on_all("levels", |simd, view, rng| {
        let byte = |rng: &mut DrawRng| rng.below(256) as u8;
        let change = match rng.below(5) {
            0 => Change::Invert,
            1 => Change::Posterize(rng.below(9) as u8),
            2 => Change::SolarizeAdd(byte(rng), byte(rng)),
            3 => Change::Equalize,
            _ => Change::AutoContrast,
        };
        levels::apply(simd, view, change);
    });
}

#[test]
fn sharpness_and_pillows_blur_are_equal() {
    equal_on_all("sharpness", |simd, view, rng| {
        sharpness::apply(simd, view, rng.uniform(0.0, 3.0) as f32, &mut Planes::new());
    });
    equal_on_all("blur", |simd, view, rng| {
        let mut scratch = pil_blur::Scratch::default();
        pil_blur::apply(simd, view, rng.uniform(0.0, 9.0) as f32, &mut scratch);
    });
}
