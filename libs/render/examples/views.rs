//! Renders the views of image files and writes them beside their draws, for `benches/equality`.
//!
//! usage: views RECIPE RESIZE_PASSES SEEDS FILE...
//!
//! For each file and seed, standard output gets a line of JSON (the draws, see `tests/golden/draws.rs`), then the
//! bytes of all views, `u8[3, height, width]` each, in the order of that line.

use std::io::Write;

use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::{RenderKey, Renderer, ViewSink};

#[path = "../tests/golden/draws.rs"]
#[expect(dead_code, reason = "the tests read draws, this only writes them")]
mod draws;

use draws::Case;

/// Views one after the other, by tensor.
struct Rows(Vec<Vec<Vec<u8>>>);

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.0[tensor][view]
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut word = |name: &str| words.next().unwrap_or_else(|| panic!("give {name}"));
    let preset = word("RECIPE");
    let passes = serde_json::from_value(word("RESIZE_PASSES").into()).expect("an order of passes");
    let seeds: u64 = word("SEEDS").parse().expect("a number of seeds");
    let mut recipe = Recipe::preset(&preset, Dtype::U8).expect("a preset");
    recipe.resize_passes = passes;
    let rows = recipe.tensors.iter().map(|tensor| {
        vec![vec![0; (3 * tensor.width * tensor.height) as usize]; tensor.views.len()]
    });
    let mut rows = Rows(rows.collect());
    let mut renderer = Renderer::new().expect("a renderer");
    let mut out = std::io::stdout().lock();
    for (number, image) in words.enumerate() {
        let encoded = std::fs::read(&image).expect("an image file");
        for seed in 0..seeds {
            let sample = SampleId::new(0, number as u64);
            let key = RenderKey { seed, epoch: 0, pass: 0, sample };
            let rendered = renderer.render(&recipe, key, &encoded, &mut rows);
            let extent = rendered.unwrap_or_else(|error| panic!("{image}: {error}")).source;
            let case = Case { image: image.clone(), extent, recipe: recipe.clone(), key };
            serde_json::to_writer(&mut out, &case.draws()).expect("a reader");
            out.write_all(b"\n").expect("a reader");
            rows.0.iter().flatten().for_each(|view| out.write_all(view).expect("a reader"));
        }
    }
}
