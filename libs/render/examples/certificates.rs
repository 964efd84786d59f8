//! Prints the draws of the presets that are certified, as JSON, for `tests/fixtures/certify.py`, which has the published
//! code make the views from them. A folder as argument: the photographs are written there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use headwater_core::Recipe;
use headwater_core::draw::{DrawRng, Extent, Normals, SampleParams, ViewParams};
use headwater_core::op::{DrawnOp, EraseWith, Erased, Layer, OpSpec};
use headwater_core::recipe::{TensorSpec, ViewSpec};
use headwater_render::decode::{DecodeLimits, Decoder};
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
    /// What a policy among the operations chose.
    layers: Vec<Layer>,
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder for the photographs"));
    let photos = photos::all();
    for photo in certified::PHOTOS {
        std::fs::write(folder.join(format!("{photo}.jpg")), &photos[photo]).expect("a file");
    }
    let draws: BTreeMap<_, _> =
        certified::PRESETS.iter().map(|preset| (preset, draws(preset, &photos, &folder))).collect();
    println!("{}", serde_json::to_string(&draws).expect("draws are plain data"));
}

fn draws(preset: &str, photos: &[Vec<u8>], folder: &Path) -> Vec<Drawn> {
    let recipe = certified::recipe(preset);
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    certified::PHOTOS
        .map(|photo| {
            let extent = decoder.decode(&photos[photo]).expect("a photograph").extent();
            let mut params = SampleParams::default();
            params.draw(&recipe, extent, |stream| certified::key(photo).view(stream).rng());
            let specs = recipe.tensors.iter().flat_map(|t| t.views.iter().map(move |v| (t, v)));
            let views = (0..).zip(specs).zip(params.views());
            let views = views.map(|((number, (tensor, view)), drawn)| {
                let rng = certified::key(photo).view(number).rng();
                let layers = layers(&recipe, tensor, view, extent, rng);
                noise(&folder.join(format!("{preset}-{photo}-{number}.noise")), drawn);
                DrawnView {
                    tensor: tensor.name.clone(),
                    height: tensor.height,
                    width: tensor.width,
                    ops: view.ops.clone(),
                    drawn: drawn.clone(),
                    layers,
                }
            });
            Drawn { photo, views: views.collect() }
        })
        .collect()
}

/// What the policy of a view chose, drawn once more: all that comes before it, then the policy itself.
fn layers(
    recipe: &Recipe,
    tensor: &TensorSpec,
    view: &ViewSpec,
    image: Extent,
    mut rng: DrawRng,
) -> Vec<Layer> {
    let is_policy =
        |op: &OpSpec| matches!(op, OpSpec::TimmRandAugment(_) | OpSpec::TrivialAugmentWide(_));
    let Some(place) = view.ops.iter().position(is_policy) else { return Vec::new() };
    let before = ViewSpec { crop: view.crop.clone(), ops: view.ops[..place].to_vec() };
    let mut params = ViewParams::whole(image);
    before.draw_into(recipe.interpolation, image, tensor.extent(), &mut rng, &mut params);
    match &view.ops[place] {
        OpSpec::TimmRandAugment(policy) => policy.layers(&mut rng).to_vec(),
        OpSpec::TrivialAugmentWide(policy) => policy.layers(&mut rng).to_vec(),
        _ => Vec::new(),
    }
}

/// Writes the noise of a view's erased box, binary32, if it has any.
fn noise(path: &Path, drawn: &ViewParams) {
    for op in &drawn.ops {
        if let DrawnOp::Erase(Erased { area, with: EraseWith::Noise(seed) }) = *op {
            let count = 3 * area.width as usize * area.height as usize;
            let normals = Normals::new(seed).take(count);
            let bytes: Vec<u8> = normals.flat_map(|n| n.to_le_bytes()).collect();
            std::fs::write(path, bytes).expect("a file");
        }
    }
}
