//! Draws one view.

use super::crop;
use super::key::DrawRng;
use super::params::ViewParams;
use crate::geometry::Extent;
use crate::recipe::{Interpolation, ViewSpec};

// === impl ViewSpec ===

impl ViewSpec {
    /// Draws one view of an image, or of a base, of size `image` for a tensor of size `view`, by the bicubic filter.
    /// The numbers are taken in torchvision's order: the tries of the crop, then, for each operation, whether it is
    /// applied and, if so, its values. The recipe must have been validated.
    #[must_use]
    pub fn draw(&self, image: Extent, view: Extent, rng: &mut DrawRng) -> ViewParams {
        let mut params = ViewParams::whole(image);
        self.draw_into(Interpolation::Bicubic, image, view, rng, &mut params);
        params
    }

    /// As [`ViewSpec::draw`] with another filter, into `params`, whose list of operations keeps its memory.
    pub fn draw_into(
        &self,
        interpolation: Interpolation,
        image: Extent,
        view: Extent,
        rng: &mut DrawRng,
        params: &mut ViewParams,
    ) {
        let framing = crop::draw(&self.crop, image, view, rng);
        params.base = self.crop.base();
        params.crop = framing.crop;
        params.resized = framing.resized;
        params.window = framing.window;
        params.cut = framing.cut;
        params.ops.clear();
        params.ops.reserve(self.ops.len());
        params.padding = framing.padding;
        params.filter = interpolation.draw(rng);
        let whole = params.cut.is_some() || self.crop.is_sequence();
        let painted = if whole { params.resized } else { view };
        self.ops.iter().for_each(|op| op.draw(painted, rng, &mut params.ops));
    }
}
