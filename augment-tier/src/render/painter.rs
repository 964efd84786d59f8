//! All that comes after the decode: bases and views, cut, changed and written.

use headwater_core::draw::{DrawnOp, Extent, JitterStep, ViewParams};
use headwater_core::recipe::TensorSpec;
use headwater_core::{Dtype, Recipe};

use crate::image::{Planes, RgbImage};
use crate::ops::cast::mx::{self, MxTable};
use crate::ops::cast::{CastTable, Normalise};
use crate::ops::resize::{Geometry, Resizer};
use crate::ops::{
    amax, blur, brightness, cast, contrast, flip, grayscale, hue, saturation, solarize,
};
use crate::simd::Simd;

/// Tables that are kept: one for each dtype of images, for a few recipes, and for FP8 one for each
/// scale of the batches that are made at the same time.
const TABLES_MAX: usize = 32;

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
    tables: Vec<CastTable>,
    mx_tables: Vec<MxTable>,
    /// Of the view that was written last.
    block_scales: Vec<u8>,
    /// The view to be written is in `window`.
    windowed: bool,
}

/// Which of a painter's tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    /// Elements that follow from levels.
    Cast(usize),
    /// Elements in blocks with scales.
    Mx(usize),
}

/// What operations need.
#[derive(Debug)]
struct Brush {
    simd: Simd,
    blur: blur::Scratch,
}

// === impl Painter ===

impl Painter {
    pub(super) fn new(simd: Simd) -> Self {
        Self {
            view: Planes::new(),
            window: Planes::new(),
            bases: Vec::new(),
            brush: Brush { simd, blur: blur::Scratch::default() },
            resizer: Resizer::new(simd),
            tables: Vec::new(),
            mx_tables: Vec::new(),
            block_scales: Vec::new(),
            windowed: false,
        }
    }

    pub(super) fn simd(&self) -> Simd {
        self.brush.simd
    }

    /// The table for a tensor, whose FP8 elements have `scale`; made when it is first needed.
    pub(super) fn table(&mut self, recipe: &Recipe, spec: &TensorSpec, scale: f32) -> Table {
        let normalise = Normalise::of(recipe);
        if spec.dtype == Dtype::Mxfp8E4m3 {
            let serves = |table: &MxTable| *table.normalise() == normalise;
            return Table::Mx(kept(&mut self.mx_tables, serves, || MxTable::new(normalise)));
        }
        let serves = |table: &CastTable| table.serves(&normalise, spec.dtype, scale);
        let make = || CastTable::scaled(normalise, spec.dtype, scale);
        Table::Cast(kept(&mut self.tables, serves, make))
    }

    /// Applies operations to a whole image, in place.
    pub(super) fn recolour(&mut self, image: &mut RgbImage, ops: &[DrawnOp]) {
        if !ops.is_empty() {
            self.view.set_pixels(image);
            self.brush.apply(&mut self.view, ops);
            image.set_planes(&self.view, image.reduction());
        }
    }

    /// Cuts the bases of a sample, from which views are made until the next call.
    pub(super) fn cut_bases(&mut self, recipe: &Recipe, image: &RgbImage, bases: &[ViewParams]) {
        if self.bases.len() < bases.len() {
            self.bases.resize_with(bases.len(), RgbImage::new);
        }
        for ((spec, params), base) in recipe.bases.iter().zip(bases).zip(&mut self.bases) {
            let Self { view, brush, resizer, .. } = self;
            let geometry = Geometry::new(params, spec.extent(), recipe.resize_passes);
            paint(view, brush, resizer, image, &geometry, &params.ops);
            base.set_planes(view, 1);
        }
    }

    /// Makes the view of size `extent` that `params` describe, of the image or of a base.
    pub(super) fn view(
        &mut self,
        recipe: &Recipe,
        image: &RgbImage,
        params: &ViewParams,
        extent: Extent,
    ) {
        let Self { view, window, bases, brush, resizer, windowed, .. } = self;
        let source = params.base.map_or(image, |base| &bases[base]);
        let painted = if params.cut.is_some() { params.resized } else { extent };
        let geometry = Geometry::new(params, painted, recipe.resize_passes);
        paint(view, brush, resizer, source, &geometry, &params.ops);
        if let Some(origin) = params.cut {
            window.set_window(view, origin, extent);
        }
        *windowed = params.cut.is_some();
    }

    /// Writes the view that was made last to a row of a tensor.
    pub(super) fn write(&mut self, table: Table, row: &mut [u8]) {
        let simd = self.brush.simd;
        let view = if self.windowed { &self.window } else { &self.view };
        match table {
            Table::Cast(table) => cast::write(simd, view, &self.tables[table], row),
            Table::Mx(table) => {
                let Extent { width, height } = view.extent();
                let blocks = (width as usize).div_ceil(mx::BLOCK) * height as usize;
                self.block_scales.resize(3 * blocks, 0);
                mx::write(simd, view, &self.mx_tables[table], row, &mut self.block_scales);
            }
        }
    }

    /// The scales of the blocks that were written last.
    pub(super) fn block_scales(&self) -> &[u8] {
        &self.block_scales
    }

    /// The largest magnitude of the view that was made last, normalised for `recipe`.
    pub(super) fn amax(&self, recipe: &Recipe) -> f32 {
        let view = if self.windowed { &self.window } else { &self.view };
        amax::of_view(self.brush.simd, view, &Normalise::of(recipe))
    }
}

/// Index of the entry that serves; made when it is not there.
fn kept<T>(tables: &mut Vec<T>, serves: impl FnMut(&T) -> bool, make: impl FnOnce() -> T) -> usize {
    tables.iter().position(serves).unwrap_or_else(|| {
        if tables.len() == TABLES_MAX {
            tables.clear();
        }
        tables.push(make());
        tables.len() - 1
    })
}

/// Cuts and resizes a view of `source` and applies its operations.
fn paint(
    view: &mut Planes,
    brush: &mut Brush,
    resizer: &mut Resizer,
    source: &RgbImage,
    geometry: &Geometry,
    ops: &[DrawnOp],
) {
    // A flip that comes first costs nothing when the resize writes from right to left.
    let (mirrored, ops) = match ops {
        [DrawnOp::Flip, rest @ ..] => (true, rest),
        ops => (false, ops),
    };
    resizer.resize(source, geometry, mirrored, view);
    brush.apply(view, ops);
}

// === impl Brush ===

impl Brush {
    fn apply(&mut self, view: &mut Planes, ops: &[DrawnOp]) {
        let Self { simd, blur } = self;
        let simd = *simd;
        for op in ops {
            match *op {
                DrawnOp::Flip => flip::apply(simd, view),
                DrawnOp::ColorJitter { order, brightness, contrast, saturation, hue } => {
                    for step in order {
                        match step {
                            JitterStep::Brightness => brightness::apply(simd, view, brightness),
                            JitterStep::Contrast => contrast::apply(simd, view, contrast),
                            JitterStep::Saturation => saturation::apply(simd, view, saturation),
                            JitterStep::Hue => hue::apply(simd, view, hue),
                        }
                    }
                }
                DrawnOp::Grayscale => grayscale::apply(simd, view),
                DrawnOp::GaussianBlur { sigma } => blur::apply(simd, view, sigma, blur),
                DrawnOp::Solarize { threshold } => solarize::apply(simd, view, threshold),
            }
        }
    }
}
