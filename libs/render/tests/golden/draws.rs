//! Samples whose views are compared with torchvision: their draws as JSON, which `fixtures/replay.py` reads.

use headwater_core::Recipe;
use headwater_core::draw::{Extent, SampleParams, ViewParams};
use headwater_core::op::DrawnOp;
use headwater_core::recipe::{BaseSpec, TensorSpec};
use headwater_render::RenderKey;
use serde::{Deserialize, Serialize};

/// One sample.
pub(crate) struct Case {
    pub(crate) image: String,
    pub(crate) extent: Extent,
    pub(crate) recipe: Recipe,
    pub(crate) key: RenderKey,
}

/// Draws of the samples in one folder of the fixtures.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Draws {
    pub(crate) samples: Vec<SampleDraws>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SampleDraws {
    pub(crate) image: String,
    pub(crate) size: [u32; 2],
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) image_ops: Vec<DrawnOp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bases: Vec<BaseDraws>,
    pub(crate) tensors: Vec<TensorDraws>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BaseDraws {
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) view: ViewParams,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TensorDraws {
    pub(crate) name: String,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) views: Vec<ViewParams>,
}

/// The draws of all views of some samples.
pub(crate) fn of(cases: &[Case]) -> Draws {
    Draws { samples: cases.iter().map(Case::draws).collect() }
}

// === impl Case ===

impl Case {
    pub(crate) fn draws(&self) -> SampleDraws {
        let mut drawn = SampleParams::default();
        drawn.draw(&self.recipe, self.extent, |stream| self.key.view(stream).rng());
        let mut views = drawn.views().iter().cloned();
        let tensor = |spec: &TensorSpec| TensorDraws {
            name: spec.name.clone(),
            height: spec.height,
            width: spec.width,
            views: views.by_ref().take(spec.views.len()).collect(),
        };
        let base = |(spec, view): (&BaseSpec, &ViewParams)| BaseDraws {
            height: spec.height,
            width: spec.width,
            view: view.clone(),
        };
        SampleDraws {
            image: self.image.clone(),
            size: [self.extent.width, self.extent.height],
            image_ops: drawn.image_ops().to_vec(),
            tensors: self.recipe.tensors.iter().map(tensor).collect(),
            bases: self.recipe.bases.iter().zip(drawn.bases()).map(base).collect(),
        }
    }
}
