//! Flip, colour operations, grayscale, solarise and blur.

use headwater_core::draw::Extent;
use headwater_pixels::image::Planes;
use headwater_pixels::ops::{
    blend, blur, brightness, contrast, flip, grayscale, hue, saturation, solarize,
};
use headwater_pixels::simd::Simd;

use super::pictures::{from_range, planes, rng, twins};

/// Sizes with and without a rest beyond whole vectors.
const SIZES: [(u32, u32); 9] =
    [(1, 1), (3, 2), (5, 5), (8, 8), (17, 9), (32, 16), (61, 67), (96, 96), (98, 31)];

fn equal_on_all(name: &str, apply: impl Fn(Simd, &mut Planes, f32)) {
    for seed in 0..60 {
        let mut rng = rng(seed);
        let (width, height) = SIZES[rng.below(SIZES.len() as u64) as usize];
        let source = planes(&mut rng, Extent { width, height });
        let value = match rng.below(4) {
            0 => from_range(&mut rng, 0, 2) as f32,
            _ => rng.uniform(0.0, 2.0) as f32,
        };
        let mut plain = source.clone();
        apply(Simd::Plain, &mut plain, value);
        for simd in twins() {
            let mut twin = source.clone();
            apply(*simd, &mut twin, value);
            assert!(twin == plain, "{name} {value} of {width}x{height} on {}", simd.name());
        }
    }
}

#[test]
fn brightness_is_equal() {
    equal_on_all("brightness", brightness::apply);
}

#[test]
fn contrast_is_equal() {
    equal_on_all("contrast", contrast::apply);
}

#[test]
fn saturation_is_equal() {
    equal_on_all("saturation", saturation::apply);
}

#[test]
fn hue_is_equal() {
    equal_on_all("hue", |simd, view, value| hue::apply(simd, view, value - 1.0));
}

/// Factors that are drawn, and those at which values stay or rounding decides.
fn factors() -> impl Iterator<Item = f32> {
    let mut rng = rng(11);
    let drawn: Vec<f32> = (0..100).map(|_| rng.uniform(0.0, 2.0) as f32).collect();
    let next =
        [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 255.0].map(|at: f32| [at.next_down(), at, at.next_up()]);
    let odd = [1.0 / 3.0, 254.0 / 255.0, 7.0 / 253.0, 1e30, f32::INFINITY, f32::NAN];
    drawn.into_iter().chain(next.into_iter().flatten()).chain(odd)
}

#[test]
fn every_value_blends_with_every_level_alike() {
    let values: Vec<u8> = (0..=255).collect();
    for factor in factors() {
        for level in 0..=255 {
            let mut plain = values.clone();
            blend::with_level(Simd::Plain, &mut plain, level, factor);
            for simd in twins() {
                let mut twin = values.clone();
                blend::with_level(*simd, &mut twin, level, factor);
                assert!(twin == plain, "level {level}, factor {factor} on {}", simd.name());
            }
        }
    }
}

/// All greens and blues with some reds, so that nearly every value meets nearly every luma.
#[test]
fn saturation_is_equal_for_nearly_every_colour() {
    for (number, factor) in factors().enumerate() {
        let red = (number * 37 % 256) as u8;
        let colours = || (0..=255u8).flat_map(|g| (0..=255u8).map(move |b| (g, b)));
        let mut values = vec![red; 1 << 16];
        values.extend(colours().map(|(g, _)| g));
        values.extend(colours().map(|(_, b)| b));
        let source = Planes::from_values(Extent { width: 256, height: 256 }, values);
        let mut plain = source.clone();
        saturation::apply(Simd::Plain, &mut plain, factor);
        for simd in twins() {
            let mut twin = source.clone();
            saturation::apply(*simd, &mut twin, factor);
            assert!(twin == plain, "factor {factor} on {}", simd.name());
        }
    }
}

#[test]
fn flip_is_equal() {
    equal_on_all("flip", |simd, view, _| flip::apply(simd, view));
}

#[test]
fn grayscale_is_equal() {
    equal_on_all("grayscale", |simd, view, _| grayscale::apply(simd, view));
}

#[test]
fn solarize_is_equal() {
    equal_on_all("solarize", |simd, view, value| {
        solarize::apply(simd, view, (value * 127.5) as u8)
    });
}

#[test]
fn blur_is_equal() {
    equal_on_all("blur", |simd, view, value| {
        let mut scratch = blur::Scratch::default();
        blur::apply(simd, view, value.max(0.1), &mut scratch);
    });
}

/// Six million sums: some hundred lie so near to a tie that two passes round them to the other side.
#[test]
fn blur_is_equal_where_sums_are_near_ties() {
    for seed in 0..40 {
        let mut rng = rng(seed);
        let source = planes(&mut rng, Extent { width: 224, height: 224 });
        let sigma = rng.uniform(0.1, 2.0) as f32;
        let mut plain = source.clone();
        blur::apply(Simd::Plain, &mut plain, sigma, &mut blur::Scratch::default());
        for simd in twins() {
            let mut twin = source.clone();
            blur::apply(*simd, &mut twin, sigma, &mut blur::Scratch::default());
            assert!(twin == plain, "sigma {sigma} on {}", simd.name());
        }
    }
}

#[test]
fn blur_is_equal_at_every_small_size() {
    let mut rng = rng(5);
    for (width, height) in
        (1..40).flat_map(|a| [(a, 17), (19, a), (a, a), (33 - a.min(32), a + 60)])
    {
        let source = planes(&mut rng, Extent { width, height });
        let mut plain = source.clone();
        blur::apply(Simd::Plain, &mut plain, 1.7, &mut blur::Scratch::default());
        for simd in twins() {
            let mut twin = source.clone();
            blur::apply(*simd, &mut twin, 1.7, &mut blur::Scratch::default());
            assert!(twin == plain, "{width}x{height} on {}", simd.name());
        }
    }
}

#[test]
fn a_blur_forgets_the_view_before() {
    for simd in twins() {
        let mut scratch = blur::Scratch::default();
        for (seed, (width, height)) in SIZES.into_iter().rev().enumerate() {
            let mut view = planes(&mut rng(seed as u64), Extent { width, height });
            let mut fresh = view.clone();
            blur::apply(*simd, &mut view, 1.3, &mut scratch);
            blur::apply(*simd, &mut fresh, 1.3, &mut blur::Scratch::default());
            assert!(view == fresh, "{width}x{height}");
        }
    }
}

/// All colours of the cube, with shifts of both signs.
#[test]
fn hue_is_equal_for_every_colour() {
    for (green_low, turns) in [(0, 0.0), (64, 0.1), (128, -0.1), (192, -0.5)] {
        for red in 0..=255u8 {
            let greens = green_low..green_low + 64;
            let colours =
                || greens.clone().flat_map(|g: u16| (0..=255u8).map(move |b| (g as u8, b)));
            let mut values = vec![red; 64 * 256];
            values.extend(colours().map(|(g, _)| g));
            values.extend(colours().map(|(_, b)| b));
            let source = Planes::from_values(Extent { width: 256, height: 64 }, values);
            let mut plain = source.clone();
            hue::plain::apply(&mut plain, turns);
            for simd in twins() {
                let mut twin = source.clone();
                hue::apply(*simd, &mut twin, turns);
                assert!(twin == plain, "red {red}, greens from {green_low} on {}", simd.name());
            }
        }
    }
}

/// All (hue, saturation, value) that come back from a shift, so that every sector is reached with
/// every shift.
#[test]
fn every_shift_is_equal() {
    let mut rng = rng(9);
    let source = planes(&mut rng, Extent { width: 64, height: 64 });
    for shift in -127..=127 {
        let turns = (f64::from(shift) / 255.0 * 1.000_01) as f32;
        let mut plain = source.clone();
        hue::plain::apply(&mut plain, turns);
        for simd in twins() {
            let mut twin = source.clone();
            hue::apply(*simd, &mut twin, turns);
            assert!(twin == plain, "shift {shift} on {}", simd.name());
        }
    }
}
