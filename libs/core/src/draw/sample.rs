//! All that is random about one sample.

use super::key::{DrawKey, DrawRng};
use super::params::ViewParams;
use crate::Recipe;
use crate::geometry::Extent;
use crate::op::DrawnOp;

/// The draws of one sample by a recipe. Keeps its memory between samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleParams {
    image_ops: Vec<DrawnOp>,
    bases: Vec<ViewParams>,
    views: Vec<ViewParams>,
}

// === impl SampleParams ===

impl SampleParams {
    /// Operations on the whole image, before anything is cut.
    #[must_use]
    pub fn image_ops(&self) -> &[DrawnOp] {
        &self.image_ops
    }

    /// The bases, in the order of the recipe.
    #[must_use]
    pub fn bases(&self) -> &[ViewParams] {
        &self.bases
    }

    /// The views, over all tensors.
    #[must_use]
    pub fn views(&self) -> &[ViewParams] {
        &self.views
    }

    /// Draws everything about one sample whose image has size `image`. `rng` gives the numbers of
    /// a stream: that of a view has its number over all tensors, others are named by [`DrawKey`].
    /// The recipe must have been validated.
    pub fn draw(&mut self, recipe: &Recipe, image: Extent, rng: impl Fn(u64) -> DrawRng) {
        self.image_ops.clear();
        if !recipe.image_ops.is_empty() {
            let mut rng = rng(DrawKey::IMAGE);
            let to = &mut self.image_ops;
            recipe.image_ops.iter().for_each(|op| op.draw(image, &mut rng, to));
        }
        self.bases.resize_with(recipe.bases.len(), || ViewParams::whole(image));
        for ((number, spec), params) in (0..).zip(&recipe.bases).zip(&mut self.bases) {
            let mut rng = rng(DrawKey::BASES + number);
            spec.view.draw_into(recipe.interpolation, image, spec.extent(), &mut rng, params);
        }
        self.views.resize_with(recipe.views_per_sample(), || ViewParams::whole(image));
        let specs = recipe
            .tensors
            .iter()
            .flat_map(|tensor| tensor.views.iter().map(move |spec| (spec, tensor.extent())));
        for ((number, (spec, extent)), params) in (0..).zip(specs).zip(&mut self.views) {
            let source = spec.crop.base().map_or(image, |base| recipe.bases[base].extent());
            spec.draw_into(recipe.interpolation, source, extent, &mut rng(number), params);
        }
    }
}
