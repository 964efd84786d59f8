//! Prints the draws of the corner cases of `tests/fixtures/corners.json`, as JSON, for `certify_corners.py` beside it.

use headwater_core::draw::{Extent, Normals, ViewParams};
use headwater_core::op::{DrawnOp, EraseWith, Erased, Layer, OpSpec};
use headwater_core::recipe::{Interpolation, ViewSpec};
use serde::Serialize;

#[path = "../tests/golden/cornered.rs"]
mod cornered;

/// A corner case, and what was drawn for its views.
#[derive(Debug, Serialize)]
struct Drawn {
    theirs: String,
    views: Vec<DrawnView>,
}

#[derive(Debug, Serialize)]
struct DrawnView {
    drawn: ViewParams,
    /// What a policy chose.
    layers: Vec<Layer>,
    /// The values of an erased box, if they are noise.
    noise: Vec<f32>,
}

fn main() {
    let [width, height] = cornered::SIZE;
    let image = Extent { width, height };
    let drawn: Vec<Drawn> = cornered::corners()
        .into_iter()
        .map(|corner| {
            let recipe = cornered::recipe(&corner);
            let (view, extent) = (&recipe.tensors[0].views[0], recipe.tensors[0].extent());
            let views = (0..cornered::DRAWS).map(|sample| {
                let mut drawn = ViewParams::whole(image);
                let mut rng = cornered::key(sample).view(0).rng();
                view.draw_into(recipe.interpolation, image, extent, &mut rng, &mut drawn);
                let noise = drawn.ops.iter().flat_map(noise).collect();
                let layers = layers(view, recipe.interpolation, (image, extent), sample);
                DrawnView { drawn, layers, noise }
            });
            Drawn { theirs: corner.theirs, views: views.collect() }
        })
        .collect();
    println!("{}", serde_json::to_string(&drawn).expect("draws are plain data"));
}

/// What a policy chooses, drawn once more: the crop that comes before it, then the policy itself.
fn layers(
    view: &ViewSpec,
    interpolation: Interpolation,
    (image, extent): (Extent, Extent),
    sample: u64,
) -> Vec<Layer> {
    let mut rng = cornered::key(sample).view(0).rng();
    let crop = ViewSpec { crop: view.crop.clone(), ops: Vec::new() };
    let mut params = ViewParams::whole(image);
    crop.draw_into(interpolation, image, extent, &mut rng, &mut params);
    match view.ops.first() {
        Some(OpSpec::RandAugment(policy)) => policy.layers(extent, &mut rng).to_vec(),
        Some(OpSpec::TimmRandAugment(policy)) => policy.layers(&mut rng).to_vec(),
        Some(OpSpec::TrivialAugmentWide(policy)) => policy.layers(&mut rng).to_vec(),
        _ => Vec::new(),
    }
}

fn noise(op: &DrawnOp) -> Vec<f32> {
    match *op {
        DrawnOp::Erase(Erased { area, with: EraseWith::Noise(seed) }) => {
            Normals::new(seed).take(3 * area.width as usize * area.height as usize).collect()
        }
        _ => Vec::new(),
    }
}
