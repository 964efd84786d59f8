//! All that comes between the decode and the cast: bases and views, cut and changed.

use headwater_core::Recipe;
use headwater_core::draw::{DrawnOp, Extent, JitterStep, ViewParams};

use crate::image::{Planes, RgbImage};
use crate::ops::levels::{self, Change};
use crate::ops::resize::{Geometry, Resizer};
use crate::ops::warp::{self, Map, Warp};
use crate::ops::{
    blur, brightness, contrast, flip, grayscale, hue, mix, noise, pad, pil_blur, saturation,
    sharpness, solarize,
};
use crate::render::RenderError;
use crate::render::python::PythonCalls;
use crate::simd::Simd;

/// Makes one view after the other, in memory that it keeps.
#[derive(Debug)]
pub(super) struct Painter {
    /// The view that is worked on; the whole image while its colours are changed.
    view: Planes,
    /// A view that was cut out of `view` after the operations.
    window: Planes,
    bases: Vec<RgbImage>,
    brush: Brush,
    resizer: Resizer,
}

/// What operations need.
#[derive(Debug)]
struct Brush {
    simd: Simd,
    blur: blur::Scratch,
    boxes: pil_blur::Scratch,
    columns: warp::Scratch,
    mixture: mix::Mixture,
    spare: Planes,
    python: PythonCalls,
}

// === impl Painter ===

impl Painter {
    pub(super) fn new(simd: Simd) -> Self {
        Self {
            view: Planes::new(),
            window: Planes::new(),
            bases: Vec::new(),
            brush: Brush::new(simd),
            resizer: Resizer::new(simd),
        }
    }

    pub(super) fn simd(&self) -> Simd {
        self.brush.simd
    }

    /// Allows Python functions.
    pub(super) fn allow_python(&mut self, settings: Option<headwater_interpreter::Settings>) {
        self.brush.python.allow(settings);
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
            self.brush.apply(recipe, &mut self.view, ops)?;
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
            let Self { view, brush, resizer, .. } = self;
            let geometry = Geometry::new(params, spec.extent(), recipe.resize_passes);
            let ops = resize(view, resizer, image, (&geometry, params), spec.extent(), brush);
            brush.apply(recipe, view, ops)?;
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
        let Self { view, window, bases, brush, resizer } = self;
        let source = params.base.map_or(image, |base| &bases[base]);
        let painted = if params.cut.is_some() { params.resized } else { extent };
        let geometry = Geometry::new(params, painted, recipe.resize_passes);
        let ops = resize(view, resizer, source, (&geometry, params), painted, brush);
        brush.apply(recipe, view, ops)?;
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
    brush: &mut Brush,
) -> &'a [DrawnOp] {
    let ops = &params.ops;
    if let Some(padding) = &params.padding {
        let shown = &mut brush.spare;
        resizer.resize(source, geometry, false, shown);
        pad::plain::apply(padding, source.extent(), params.crop, shown, extent, view);
        return ops;
    }
    let after = ops.strip_prefix(&[DrawnOp::Flip]);
    resizer.resize(source, geometry, after.is_some(), view);
    after.unwrap_or(ops)
}

// === impl Brush ===

impl Brush {
    fn new(simd: Simd) -> Self {
        Self {
            simd,
            blur: blur::Scratch::default(),
            boxes: pil_blur::Scratch::default(),
            columns: warp::Scratch::default(),
            mixture: mix::Mixture::new(),
            spare: Planes::new(),
            python: PythonCalls::new(simd),
        }
    }

    /// Erasing is left to the caster: it is done to normalised values.
    fn apply(
        &mut self,
        recipe: &Recipe,
        view: &mut Planes,
        ops: &[DrawnOp],
    ) -> Result<(), RenderError> {
        let Self { simd, blur, boxes, columns, mixture, spare, python } = self;
        let simd = *simd;
        for op in ops {
            match *op {
                DrawnOp::Flip => flip::apply(simd, view),
                DrawnOp::ColorJitter(jitter) => {
                    jitter.steps().for_each(|(step, factor)| adjust(simd, view, step, factor));
                }
                DrawnOp::Grayscale => grayscale::apply(simd, view),
                DrawnOp::GaussianBlur { sigma } => blur::apply(simd, view, sigma, blur),
                DrawnOp::Solarize { threshold } => solarize::apply(simd, view, threshold),
                DrawnOp::Enhance { step, factor } => adjust(simd, view, step, factor),
                DrawnOp::Sharpness { factor } => sharpness::apply(simd, view, factor, spare),
                DrawnOp::Invert => levels::apply(simd, view, Change::Invert),
                DrawnOp::Posterize { bits } => {
                    levels::apply(simd, view, Change::Posterize(bits));
                }
                DrawnOp::SolarizeAdd { add, threshold } => {
                    levels::apply(simd, view, Change::SolarizeAdd(add, threshold));
                }
                DrawnOp::Equalize => levels::apply(simd, view, Change::Equalize),
                DrawnOp::AutoContrast => levels::apply(simd, view, Change::AutoContrast),
                DrawnOp::Affine { matrix, filter, fill } => {
                    let warp = Warp { map: Map::Affine(matrix), filter, fill };
                    warp::apply(simd, view, &warp, spare, columns);
                }
                DrawnOp::Perspective { coefficients, filter, fill } => {
                    let warp = Warp { map: Map::Perspective(coefficients), filter, fill };
                    warp::apply(simd, view, &warp, spare, columns);
                }
                DrawnOp::PilBlur { radius } => pil_blur::apply(simd, view, radius, boxes),
                DrawnOp::GaussianNoise { mean, sigma, seed } => {
                    noise::plain::apply(view, mean, sigma, seed);
                }
                DrawnOp::MixBegin => mixture.begin(view),
                DrawnOp::MixChain { weight } => mixture.end_chain(simd, view, weight),
                DrawnOp::MixEnd { share } => mixture.end(simd, view, share),
                DrawnOp::Erase { .. } => {}
                DrawnOp::Python { function, seed } => {
                    python.apply(recipe, view, function, &seed)?;
                }
            }
        }
        Ok(())
    }
}

/// One adjustment of a colour jitter.
fn adjust(simd: Simd, view: &mut Planes, step: JitterStep, factor: f32) {
    match step {
        JitterStep::Brightness => brightness::apply(simd, view, factor),
        JitterStep::Contrast => contrast::apply(simd, view, factor),
        JitterStep::Saturation => saturation::apply(simd, view, factor),
        JitterStep::Hue => hue::apply(simd, view, factor),
    }
}
