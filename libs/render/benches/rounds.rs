//! This project's half of `benches/peers`: for each line on stdin, `decode`, `turbo` (libjpeg-turbo itself) or the name of a preset,
//! does that to every JPEG file of the folder that `HEADWATER_BENCH_PHOTOS` names and answers with
//! their number. With the argument `entries`, JPEGs decode from the entry points that an earlier line has made. The
//! other side takes the time, and that of others in between.

#[path = "support/photos.rs"]
mod photos;
#[path = "support/turbo.rs"]
mod turbo;

use std::io::BufRead;

use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::decode::{DecodeLimits, Decoder, EntryTable};
use headwater_render::{RenderKey, Renderer, ViewSink};

/// Rows of one sample, used again.
struct Rows(Vec<Vec<Vec<u8>>>);

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.0[tensor][view]
    }
}

fn main() {
    let Some(photos) = photos::read() else { return };
    let has_entries = std::env::args().any(|arg| arg == "entries");
    let entries = EntryTable::new(if has_entries { 1 << 30 } else { 0 });
    let decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let mut decoder = decoder.sharing(entries.clone());
    let mut renderer = Renderer::new().expect("a renderer").sharing(entries);
    let mut library = turbojpeg::Decompressor::new().expect("libjpeg-turbo");
    let mut pixels = Vec::new();
    println!("{} {}", photos.len(), renderer.simd().name());
    for (round, line) in std::io::stdin().lock().lines().enumerate() {
        match line.expect("a line").trim() {
            "decode" => photos.iter().for_each(|photo| {
                decoder.decode(photo).expect("a photo");
            }),
            "turbo" => {
                photos.iter().for_each(|photo| turbo::decode(&mut library, photo, &mut pixels))
            }
            preset => render_all(&mut renderer, preset, round, &photos),
        }
        println!("{}", photos.len());
    }
}

fn render_all(renderer: &mut Renderer, preset: &str, round: usize, photos: &[Vec<u8>]) {
    let recipe = Recipe::preset(preset, Dtype::Bf16).expect("a preset");
    let rows = recipe.tensors.iter().map(|tensor| {
        let len = u64::from(3 * tensor.width * tensor.height) * tensor.dtype.size_bytes();
        vec![vec![0; len as usize]; tensor.views.len()]
    });
    let mut rows = Rows(rows.collect());
    for (number, photo) in photos.iter().enumerate() {
        let sample = SampleId(number as u64);
        let key = RenderKey { seed: 1, epoch: round as u32, pass: 0, sample };
        renderer.render(&recipe, key, photo, &mut rows).expect("a photo");
    }
}
