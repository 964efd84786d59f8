//! The samples whose views are compared with torchvision, and their draws.

use headwater_augment::render::RenderKey;
use headwater_core::draw::{Extent, ViewParams};
use headwater_core::{Dtype, Recipe, SampleId};
use serde::{Deserialize, Serialize};

/// Images of `tests/fixtures/views`, their sizes, and the side of the global views; the local
/// ones have 3/7 of it, as 96 of 224.
pub(crate) const SAMPLES: [(&str, Extent, u32); 3] = [
    ("astronaut", Extent { width: 240, height: 170 }, 112),
    ("coffee", Extent { width: 131, height: 197 }, 98),
    ("chelsea", Extent { width: 40, height: 23 }, 56),
];

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Draws {
    pub(crate) samples: Vec<SampleDraws>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SampleDraws {
    pub(crate) image: String,
    pub(crate) size: [u32; 2],
    pub(crate) tensors: Vec<TensorDraws>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TensorDraws {
    pub(crate) name: String,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) views: Vec<ViewParams>,
}

/// The `dinov2` recipe with smaller views, in uint8.
pub(crate) fn recipe(global_side: u32) -> Recipe {
    let mut recipe = Recipe::preset("dinov2", Dtype::U8).expect("a preset");
    for (tensor, side) in recipe.tensors.iter_mut().zip([global_side, global_side * 3 / 7]) {
        (tensor.height, tensor.width) = (side, side);
    }
    recipe
}

/// The key of a sample by its place in [`SAMPLES`].
pub(crate) fn key(number: usize) -> RenderKey {
    RenderKey { seed: 2026, epoch: 3, pass: 1, sample: SampleId::new(2, 1000 + number as u64) }
}

/// The draws of all views of all samples.
pub(crate) fn all() -> Draws {
    let samples = SAMPLES.iter().enumerate().map(|(number, (image, extent, side))| {
        let mut view_number = 0;
        let tensors = recipe(*side).tensors.into_iter().map(|tensor| {
            let view_extent = Extent { width: tensor.width, height: tensor.height };
            let views = tensor.views.iter().map(|view| {
                let mut rng = key(number).view(view_number).rng();
                view_number += 1;
                view.draw(*extent, view_extent, &mut rng)
            });
            let views = views.collect();
            TensorDraws { name: tensor.name, height: tensor.height, width: tensor.width, views }
        });
        SampleDraws {
            image: (*image).to_owned(),
            size: [extent.width, extent.height],
            tensors: tensors.collect(),
        }
    });
    Draws { samples: samples.collect() }
}
