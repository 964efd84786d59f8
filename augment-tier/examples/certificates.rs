//! Prints the draws of the presets that are certified, as JSON, for `tests/fixtures/certify.py`, which has the published
//! code make the views from them. A folder as argument: the photographs are written there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use headwater_augment::decode::{DecodeLimits, Decoder};
use headwater_core::draw::{SampleParams, ViewParams};
use headwater_core::recipe::OpSpec;
use serde::Serialize;

#[path = "../tests/golden/certified.rs"]
mod certified;
#[path = "../tests/support/photos.rs"]
mod photos;

/// A photograph, and what was drawn for its views.
#[derive(Debug, Serialize)]
struct Drawn {
    photo: usize,
    views: Vec<DrawnView>,
}

#[derive(Debug, Serialize)]
struct DrawnView {
    tensor: String,
    height: u32,
    width: u32,
    /// All operations of the view, with their probabilities.
    ops: Vec<OpSpec>,
    drawn: ViewParams,
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder for the photographs"));
    let photos = photos::all();
    for photo in certified::PHOTOS {
        std::fs::write(folder.join(format!("{photo}.jpg")), &photos[photo]).expect("a file");
    }
    let draws: BTreeMap<_, _> =
        certified::PRESETS.iter().map(|preset| (preset, draws(preset, &photos))).collect();
    println!("{}", serde_json::to_string(&draws).expect("draws are plain data"));
}

fn draws(preset: &str, photos: &[Vec<u8>]) -> Vec<Drawn> {
    let recipe = certified::recipe(preset);
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    certified::PHOTOS
        .map(|photo| {
            let extent = decoder.decode(&photos[photo]).expect("a photograph").extent();
            let mut params = SampleParams::default();
            params.draw(&recipe, extent, |stream| certified::key(photo).view(stream).rng());
            let mut drawn = params.views().iter().cloned();
            let views = recipe.tensors.iter().flat_map(|tensor| {
                let views: Vec<DrawnView> = tensor
                    .views
                    .iter()
                    .zip(drawn.by_ref())
                    .map(|(view, drawn)| {
                        let (height, width, ops) = (tensor.height, tensor.width, view.ops.clone());
                        DrawnView { tensor: tensor.name.clone(), height, width, ops, drawn }
                    })
                    .collect();
                views
            });
            Drawn { photo, views: views.collect() }
        })
        .collect()
}
