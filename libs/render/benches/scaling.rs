//! What `decode_scaling = "auto"` gains, and by how much its pixels differ: views of several sizes
//! of the JPEG files of a folder of tars, with and without it.
//!
//! usage: `HEADWATER_BENCH_PHOTOS=/folder cargo bench -p headwater-render --bench scaling [rounds]`

#[path = "support/photos.rs"]
mod photos;

use std::time::{Duration, Instant};

use headwater_core::draw::Extent;
use headwater_core::recipe::{CropSpec, DecodeScaling, ViewSpec};
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::{Draws, RenderKey, Renderer, ViewSink};

/// The whole image with its shorter side at this length, and a square from the middle of it.
const RESIZED: [u32; 4] = [160, 112, 64, 40];

/// The one row of a sample of one view.
struct Row(Vec<u8>);

impl ViewSink for Row {
    fn row(&mut self, _: usize, _: usize) -> &mut [u8] {
        &mut self.0
    }
}

/// Photos that were decoded at one fraction.
#[derive(Clone, Copy, Default)]
struct Tally {
    photos: u32,
    /// Decibels, summed; the least; and the most by which a value differs.
    decibels: f64,
    decibels_min: f64,
    level_max: u8,
    full: Duration,
    scaled: Duration,
}

fn recipe(resize: u32, decode_scaling: DecodeScaling) -> Recipe {
    let mut recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    recipe.decode_scaling = decode_scaling;
    let tensor = &mut recipe.tensors[0];
    (tensor.width, tensor.height) = (resize * 7 / 8, resize * 7 / 8);
    tensor.views = vec![ViewSpec { crop: CropSpec::CenterAfterResize { resize }, ops: Vec::new() }];
    recipe
}

fn main() {
    let Some(photos) = photos::read() else { return };
    let rounds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(5);
    println!("shorter side, decoded at, photos, PSNR mean and least (dB), level at most, speed-up");
    for resize in RESIZED {
        let tallies = measure(&photos, resize, rounds);
        for (reduction, tally) in
            [1, 2, 4, 8].into_iter().zip(tallies).filter(|(_, t)| t.photos > 0)
        {
            let Tally { photos, decibels, decibels_min, level_max, full, scaled } = tally;
            let mean = decibels / f64::from(photos);
            let gain = full.as_secs_f64() / scaled.as_secs_f64();
            println!(
                "{resize} 1/{reduction} {photos} {mean:.1} {decibels_min:.1} {level_max} {gain:.2}"
            );
        }
    }
}

fn measure(photos: &[Vec<u8>], resize: u32, rounds: usize) -> [Tally; 4] {
    let recipes = [DecodeScaling::Off, DecodeScaling::Auto].map(|scaling| recipe(resize, scaling));
    let mut renderer = Renderer::new().expect("a renderer");
    let side = recipes[0].tensors[0].width as usize;
    let mut rows = [Row(vec![0; 3 * side * side]), Row(vec![0; 3 * side * side])];
    let mut tallies = [Tally { decibels_min: f64::INFINITY, ..Tally::default() }; 4];
    for (number, photo) in photos.iter().enumerate() {
        let key = RenderKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(number as u64) };
        let mut best = [Duration::MAX; 2];
        let mut source = Extent { width: 1, height: 1 };
        for _ in 0..rounds {
            for ((recipe, row), best) in recipes.iter().zip(&mut rows).zip(&mut best) {
                let begin = Instant::now();
                source = renderer.render(recipe, key, photo, row).expect("a photo").source;
                *best = begin.elapsed().min(*best);
            }
        }
        let reduction = Draws::default().draw(&recipes[1], key, source).reduction;
        let tally = &mut tallies[reduction.ilog2() as usize];
        let (decibels, level) = difference(&rows[0].0, &rows[1].0);
        tally.photos += 1;
        tally.decibels += decibels;
        tally.decibels_min = tally.decibels_min.min(decibels);
        tally.level_max = tally.level_max.max(level);
        tally.full += best[0];
        tally.scaled += best[1];
    }
    tallies
}

/// Peak signal-to-noise ratio in decibels, and the greatest difference.
fn difference(full: &[u8], scaled: &[u8]) -> (f64, u8) {
    let levels = full.iter().zip(scaled).map(|(a, b)| a.abs_diff(*b));
    let square: f64 = levels.clone().map(|level| f64::from(level).powi(2)).sum();
    let mean = square / full.len() as f64;
    (10.0 * (255.0f64.powi(2) / mean.max(1e-9)).log10(), levels.max().unwrap_or(0))
}
