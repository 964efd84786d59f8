//! All that comes between the decode and the cast: bases and views, cut and changed.

use headwater_core::Recipe;
use headwater_core::draw::{Extent, ViewParams};
use headwater_core::op::{DrawnOp, split_flip};
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_pixels::ops::{OpContext, pad};
use headwater_simd::Simd;

use crate::error::RenderError;
use crate::render::python::PythonCalls;

/// Makes one view after the other, in memory that it keeps.
#[derive(Debug)]
pub(super) struct ViewPipeline {
    /// The view that is worked on; the whole image while its colours are changed.
    view: Planes,
    /// A view that was cut out of `view` after the operations.
    window: Planes,
    bases: Vec<RgbImage>,
    ops: OpContext,
    python: PythonCalls,
    resizer: Resizer,
}

// === impl ViewPipeline ===

impl ViewPipeline {
    pub(super) fn new(simd: Simd) -> Self {
        Self {
            view: Planes::new(),
            window: Planes::new(),
            bases: Vec::new(),
            ops: OpContext::new(simd),
            python: PythonCalls::new(simd),
            resizer: Resizer::new(simd),
        }
    }

    pub(super) fn simd(&self) -> Simd {
        self.ops.simd()
    }

    /// Allows Python functions.
    pub(super) fn allow_python(&mut self, settings: Option<headwater_interpreter::Settings>) {
        self.python.allow(settings);
    }

    /// Applies operations to a whole image, in place.
    pub(super) fn recolour(
        &mut self,
        recipe: &Recipe,
        image: &mut RgbImage,
        ops: &[DrawnOp],
    ) -> Result<(), RenderError> {
        if !ops.is_empty() {
            self.view.set_pixels(image);
            apply((&mut self.ops, &mut self.python), recipe, &mut self.view, ops)?;
            image.set_planes(&self.view, image.reduction());
        }
        Ok(())
    }

    /// Cuts the bases of a sample, from which views are made until the next call.
    pub(super) fn cut_bases(
        &mut self,
        recipe: &Recipe,
        image: &RgbImage,
        bases: &[ViewParams],
    ) -> Result<(), RenderError> {
        if self.bases.len() < bases.len() {
            self.bases.resize_with(bases.len(), RgbImage::new);
        }
        for ((spec, params), base) in recipe.bases.iter().zip(bases).zip(&mut self.bases) {
            let Self { view, ops, python, resizer, .. } = self;
            let geometry = Geometry::new(params, spec.extent(), recipe.resize_passes);
            let drawn = resize(view, resizer, image, (&geometry, params), spec.extent(), ops);
            apply((ops, python), recipe, view, drawn)?;
            base.set_planes(view, 1);
        }
        Ok(())
    }

    /// Makes the view of size `extent` that `params` describe, of the image or of a base.
    pub(super) fn view(
        &mut self,
        recipe: &Recipe,
        image: &RgbImage,
        params: &ViewParams,
        extent: Extent,
    ) -> Result<&Planes, RenderError> {
        let Self { view, window, bases, ops, python, resizer } = self;
        let source = params.base.map_or(image, |base| &bases[base]);
        let painted = if params.cut.is_some() { params.resized } else { extent };
        let geometry = Geometry::new(params, painted, recipe.resize_passes);
        let drawn = resize(view, resizer, source, (&geometry, params), painted, ops);
        apply((ops, python), recipe, view, drawn)?;
        let Some(origin) = params.cut else { return Ok(view) };
        window.set_window(view, origin, extent);
        Ok(window)
    }
}

/// Cuts and resizes a view of `source`, and gives the operations that are left. A flip that comes first costs
/// nothing here: the resize writes from right to left.
fn resize<'a>(
    view: &mut Planes,
    resizer: &mut Resizer,
    source: &RgbImage,
    (geometry, params): (&Geometry, &'a ViewParams),
    extent: Extent,
    context: &mut OpContext,
) -> &'a [DrawnOp] {
    let ops = &params.ops;
    if let Some(padding) = &params.padding {
        let shown = context.spare();
        resizer.resize(source, geometry, false, shown);
        pad::plain::apply(padding, source.extent(), params.crop, shown, extent, view);
        return ops;
    }
    let (mirrored, rest) = split_flip(ops);
    resizer.resize(source, geometry, mirrored, view);
    rest
}

/// Does operations to a view. Erasing is left to the caster: it is done to normalised values.
fn apply(
    (ops, python): (&mut OpContext, &mut PythonCalls),
    recipe: &Recipe,
    view: &mut Planes,
    drawn: &[DrawnOp],
) -> Result<(), RenderError> {
    for op in drawn {
        match op {
            DrawnOp::Python(call) => python.apply(recipe, view, call.function, &call.seed)?,
            op => ops.apply(op, view),
        }
    }
    Ok(())
}
