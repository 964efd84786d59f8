//! Our resize beside `fast_image_resize`'s, and how many of its values are
//! those of the definition.
//!
//! Both cut the same boxes out of the same interleaved image and resize them by Catmull-Rom's bicubic
//! filter (a = -0.5), antialiased. Ours goes on to write planes; the peer's output stays interleaved,
//! which is less work.

use std::hint::black_box;
use std::time::Instant;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions};
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_simd::Simd;
use headwater_core::draw::{CropBox, Extent, Filter, Origin};
use headwater_core::recipe::ResizePasses;

use crate::median;

/// ImageNet's median.
const IMAGE: Extent = Extent { width: 500, height: 375 };
/// Width and height of the box, side of the view.
const CASES: [(u32, u32, u32); 4] =
    [(400, 300, 224), (500, 375, 224), (150, 120, 96), (60, 50, 96)];
/// Resizes timed at once.
const BATCH: u32 = 50;

struct Case {
    image: RgbImage,
    pixels: Vec<u8>,
    geometry: Geometry,
}

pub(crate) fn run(rounds: usize) {
    let simd = Simd::best();
    println!("{rounds} rounds in turns, medians; ours by {}", simd.name());
    println!(
        "| box to view | ours, us | fast_image_resize, us | ratio | its values that differ | most |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for case in CASES {
        compare(&Case::new(case), simd, rounds);
    }
}

fn compare(case: &Case, simd: Simd, rounds: usize) {
    let (mut ours, mut view) = (Resizer::new(simd), Planes::new());
    let (mut peer, options) = (fast_image_resize::Resizer::new(), case.options());
    let side = case.geometry.view.width;
    let mut theirs = Image::new(side, side, PixelType::U8x3);
    let source =
        ImageRef::new(IMAGE.width, IMAGE.height, &case.pixels, PixelType::U8x3).expect("an image");

    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..rounds {
        times[0].push(timed(|| ours.resize(&case.image, &case.geometry, false, &mut view)));
        times[1].push(timed(|| peer.resize(&source, &mut theirs, &options).expect("a resize")));
        black_box((&view, &theirs));
    }
    let ratios = times[1].iter().zip(&times[0]).map(|(theirs, ours)| theirs / ours).collect();

    let mut truth = Planes::new();
    Resizer::new(Simd::Plain).resize(&case.image, &case.geometry, false, &mut truth);
    assert_eq!(view.values(), truth.values(), "ours is the definition's");
    let (differ, most) = differences(&truth, theirs.buffer());
    let Geometry { crop, .. } = case.geometry;
    let [ours, theirs] = times.map(median);
    println!(
        "| {}x{} to {side} | {ours:.1} | {theirs:.1} | {:.2} | {:.2} % | {most} |",
        crop.width,
        crop.height,
        median(ratios),
        differ * 100.0
    );
}

/// Microseconds for one of a batch.
fn timed(mut resize: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..BATCH).for_each(|_| resize());
    start.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH)
}

/// The share of values that differ, and the largest difference.
fn differences(planes: &Planes, interleaved: &[u8]) -> (f64, u8) {
    let values = planes.values();
    let plane = values.len() / 3;
    let differences: Vec<u8> = interleaved
        .chunks_exact(3)
        .enumerate()
        .flat_map(|(at, rgb)| {
            (0..3).map(move |channel| values[channel * plane + at].abs_diff(rgb[channel]))
        })
        .collect();
    let differ = differences.iter().filter(|difference| **difference > 0).count();
    let most = differences.iter().copied().max().unwrap_or(0);
    (differ as f64 / differences.len() as f64, most)
}

/// Smooth waves with some noise, as photographs have.
fn picture() -> Vec<u8> {
    let mut state = 1u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 24) / 8.0
    };
    let mut pixels = Vec::new();
    for y in 0..IMAGE.height {
        for x in 0..IMAGE.width {
            for channel in 1..4 {
                let wave = (f64::from(x * channel) / 37.0).sin() + (f64::from(y) / 23.0).cos();
                pixels.push((112.0 + 48.0 * wave + noise()) as u8);
            }
        }
    }
    pixels
}

// === impl Case ===

impl Case {
    fn new((width, height, side): (u32, u32, u32)) -> Self {
        let extent = Extent { width: side, height: side };
        let geometry = Geometry {
            crop: CropBox { left: 0, top: 0, width, height },
            resized: extent,
            window: Origin::default(),
            view: extent,
            // As the other crate does.
            passes: ResizePasses::HorizontalFirst,
            filter: Filter::Bicubic,
        };
        let pixels = picture();
        Self { image: RgbImage::from_pixels(IMAGE, pixels.clone()), pixels, geometry }
    }

    fn options(&self) -> ResizeOptions {
        let CropBox { left, top, width, height } = self.geometry.crop;
        ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom))
            .crop(left.into(), top.into(), width.into(), height.into())
            .use_alpha(false)
    }
}
