//! Operations that move pixels or look at a channel's levels.

use headwater_core::draw::{DrawRng, Extent, Filter};
use headwater_pixels::image::Planes;
use headwater_pixels::ops::levels::{self, Change};
use headwater_pixels::ops::warp::{self, Map, Warp};
use headwater_pixels::ops::{pil_blur, sharpness};
use headwater_pixels::simd::Simd;

use super::pictures::{from_range, planes, rng, twins};

fn equal_on_all(name: &str, mut apply: impl FnMut(Simd, &mut Planes, &mut DrawRng)) {
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

/// A map of a kind that warps treat apart, whose places lie mostly within the view.
fn map(rng: &mut DrawRng, Extent { width, height }: Extent) -> Map {
    let (width, height) = (f64::from(width), f64::from(height));
    let shift = [rng.uniform(-0.2, 0.2) * width, rng.uniform(-0.2, 0.2) * height];
    let (sin, cos) = rng.uniform(-3.2, 3.2).sin_cos();
    let scale = rng.uniform(0.3, 1.5);
    let [a, b] = [cos * scale, sin * scale];
    // About the centre.
    let c = width / 2.0 * (1.0 - a) - height / 2.0 * b + shift[0];
    let f = height / 2.0 * (1.0 - a) + width / 2.0 * b + shift[1];
    let affine = match rng.below(16) {
        0 => [1.0, 0.0, shift[0].round(), 0.0, 1.0, shift[1].round()],
        1 => [1.0, 0.0, shift[0], 0.0, 1.0, shift[1]],
        2 => [1.0, 0.0, shift[0], 0.0, 1.0, 0.0],
        3 => [1.0, 0.0, 0.0, 0.0, 1.0, shift[1]],
        4 => [1.0, b, 0.0, 0.0, 1.0, 0.0],
        5 => [1.0, 0.0, 0.0, b, 1.0, 0.0],
        6 => [-1.0, 0.0, width, 0.0, -1.0, height],
        7 => [0.0, -1.0, width, 1.0, 0.0, 0.0],
        8 => [a, b, c, -b, a, [f64::NAN, f64::INFINITY, 1e300][rng.below(3) as usize]],
        // Nothing comes from within.
        9 => [a, b, c + 3.0 * width, -b, a, f],
        10..13 => [a, b, c, -b, a, f],
        kind => {
            let far = |rng: &mut DrawRng| rng.uniform(-0.02, 0.02);
            // One pixel's denominator may be 0.
            let far = if kind == 13 { [-1.0 / 7.5, 0.0] } else { [far(rng), far(rng)] };
            return Map::Perspective([a, b, c, -b, a, f, far[0], far[1]]);
        }
    };
    Map::Affine(affine)
}

#[test]
fn warps_are_equal() {
    // Kept from view to view, as workers do: nothing of a larger one may be left.
    let (mut spare, mut scratch) = (Planes::new(), warp::Scratch::default());
    equal_on_all("warp", |simd, view, rng| {
        let map = map(rng, view.extent());
        // Affine maps by the nearest pixel have one body only.
        let filters = match map {
            Map::Affine(_) => [Filter::Bilinear, Filter::Bicubic, Filter::Bicubic],
            Map::Perspective(_) => [Filter::Nearest, Filter::Bilinear, Filter::Bicubic],
        };
        let warp = Warp { map, filter: filters[rng.below(3) as usize], fill: [9, 90, 200] };
        warp::apply(simd, view, &warp, &mut spare, &mut scratch);
    });
}

#[test]
fn warps_of_all_small_sizes_are_equal() {
    let (mut spare, mut scratch) = (Planes::new(), warp::Scratch::default());
    for (width, height) in (1..=40).flat_map(|width| (1..=40).map(move |height| (width, height))) {
        let mut rng = rng(u64::from(width) << 8 | u64::from(height));
        let extent = Extent { width, height };
        let levels = (0..3 * width * height).map(|_| rng.below(256) as u8).collect();
        let source = Planes::from_values(extent, levels);
        let map = map(&mut rng, extent);
        for filter in [Filter::Bilinear, Filter::Bicubic] {
            let warp = Warp { map, filter, fill: [9, 90, 200] };
            let mut plain = source.clone();
            warp::apply(Simd::Plain, &mut plain, &warp, &mut spare, &mut scratch);
            for simd in twins() {
                let mut twin = source.clone();
                warp::apply(*simd, &mut twin, &warp, &mut spare, &mut scratch);
                assert!(twin == plain, "{width}x{height}, {warp:?} on {}", simd.name());
            }
        }
    }
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
