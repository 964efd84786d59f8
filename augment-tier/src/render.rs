//! One sample through a whole recipe: decoded once, each view cut, changed and written.
//!
//! A pure function of recipe, key and encoded bytes. No clock, no thread, no memory taken per
//! sample once the buffers have grown to the largest image.

use headwater_core::draw::{CropBox, DrawKey, DrawnOp, Extent, JitterStep, ViewParams};
use headwater_core::recipe::{DecodeScaling, TensorSpec};
use headwater_core::{Recipe, SampleId};

use crate::decode::{DecodeError, DecodeLimits, Decoder, Wanted};
use crate::image::{Planes, RgbImage};
use crate::ops::cast::CastTable;
use crate::ops::resize::{Geometry, Resizer};
use crate::ops::{blur, brightness, cast, contrast, flip, grayscale, hue, saturation, solarize};
use crate::simd::Simd;

/// What the draws of a sample follow from, beside the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RenderKey {
    /// Seed of the job.
    pub seed: u64,
    /// Epoch.
    pub epoch: u32,
    /// Pass of the dataset within the epoch.
    pub pass: u32,
    /// The sample.
    pub sample: SampleId,
}

/// Where the views of one sample go.
pub trait ViewSink {
    /// The row of the sample in view `view` of tensor `tensor`, both counted as in the recipe:
    /// exactly `3 * height * width` elements of the tensor's dtype, whatever they hold now.
    /// It is asked for once per view, and every byte is written once.
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8];
}

/// A sample that has been rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Size of the image in the file.
    pub source: Extent,
}

/// Why a sample could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The bytes are no image that is read here. Nothing has been written.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The sink gave a row of another length than the recipe says. A fault of the caller.
    #[error(
        "row of tensor {tensor}, view {view} has {found_bytes} bytes, not {expected_bytes}: \
         the layout is not the recipe's"
    )]
    RowLength {
        /// The tensor.
        tensor: usize,
        /// The view in the tensor.
        view: usize,
        /// Bytes the recipe asks for.
        expected_bytes: usize,
        /// Bytes the sink gave.
        found_bytes: usize,
    },
}

/// Renders sample after sample into memory that it keeps. One per thread.
#[derive(Debug)]
pub struct Renderer {
    decoder: Decoder,
    draws: Draws,
    painter: Painter,
}

/// What is random about the views of one sample. Known from the image's size, so that no more of
/// it is decoded than its views show.
#[derive(Debug, Default)]
pub struct Draws {
    /// In the order of the recipe; those beyond its views are left from another one.
    views: Vec<ViewParams>,
    geometries: Vec<Geometry>,
}

/// All that comes after the decode.
#[derive(Debug)]
struct Painter {
    view: Planes,
    simd: Simd,
    resizer: Resizer,
    blur: blur::Scratch,
    tables: Vec<CastTable>,
}

// === impl RenderKey ===

impl RenderKey {
    /// Key of the draws of one view, counted over all tensors.
    #[must_use]
    pub fn view(&self, number: u64) -> DrawKey {
        let Self { seed, epoch, pass, sample } = *self;
        DrawKey { seed, epoch, pass, sample, stream: number }
    }
}

// === impl Renderer ===

impl Renderer {
    /// A renderer that refuses images beyond `limits` and takes the fastest instructions of this
    /// processor.
    ///
    /// # Errors
    /// The JPEG library has no memory for its state.
    pub fn new(limits: DecodeLimits) -> Result<Self, RenderError> {
        Self::with_simd(limits, Simd::best())
    }

    /// As [`Renderer::new`] with instructions of choice, which change no byte.
    ///
    /// # Errors
    /// The JPEG library has no memory for its state.
    pub fn with_simd(limits: DecodeLimits, simd: Simd) -> Result<Self, RenderError> {
        let painter = Painter {
            view: Planes::new(),
            simd,
            resizer: Resizer::new(simd),
            blur: blur::Scratch::default(),
            tables: Vec::new(),
        };
        Ok(Self { decoder: Decoder::new(limits)?, draws: Draws::default(), painter })
    }

    /// The instructions that were chosen.
    #[must_use]
    pub fn simd(&self) -> Simd {
        self.painter.simd
    }

    /// Decodes `encoded` once and writes every view of `recipe`, which must have been validated,
    /// to `out`, tensors in order, views in order within a tensor.
    ///
    /// # Errors
    /// The image cannot be decoded, in which case nothing has been written; or the sink gave a
    /// row of the wrong length.
    pub fn render(
        &mut self,
        recipe: &Recipe,
        key: RenderKey,
        encoded: &[u8],
        out: &mut impl ViewSink,
    ) -> Result<Rendered, RenderError> {
        let Self { decoder, painter, draws } = self;
        let mut source = None;
        let image = decoder.decode_wanted(encoded, |image| {
            source = Some(image);
            draws.draw(recipe, key, image)
        })?;
        let mut number = 0;
        for (tensor, spec) in recipe.tensors.iter().enumerate() {
            let table = painter.table(recipe, spec);
            for view in 0..spec.views.len() {
                let row = out.row(tensor, view);
                let extent = Extent { width: spec.width, height: spec.height };
                check_row(spec, tensor, view, row.len())?;
                painter.paint(image, &draws.views[number], extent);
                let Painter { simd, view, tables, .. } = painter;
                cast::write(*simd, view, &tables[table], row);
                number += 1;
            }
        }
        Ok(Rendered { source: source.unwrap_or(image.extent()) })
    }
}

fn check_row(
    spec: &TensorSpec,
    tensor: usize,
    view: usize,
    found_bytes: usize,
) -> Result<(), RenderError> {
    let values = 3 * u64::from(spec.width) * u64::from(spec.height);
    let expected_bytes = (values * spec.dtype.size_bytes()) as usize;
    if found_bytes == expected_bytes {
        return Ok(());
    }
    Err(RenderError::RowLength { tensor, view, expected_bytes, found_bytes })
}

// === impl Draws ===

impl Draws {
    /// Draws all views of an image of size `image`; what they show of it.
    pub fn draw(&mut self, recipe: &Recipe, key: RenderKey, image: Extent) -> Wanted {
        let views = recipe.views_per_sample();
        if self.views.len() < views {
            self.views.resize(views, ViewParams::whole(image));
        }
        let specs = recipe.tensors.iter().flat_map(|tensor| {
            let extent = Extent { width: tensor.width, height: tensor.height };
            tensor.views.iter().map(move |view| (view, extent))
        });
        self.geometries.clear();
        for ((number, (spec, extent)), params) in (0..).zip(specs).zip(&mut self.views) {
            spec.draw_into(image, extent, &mut key.view(number).rng(), params);
            self.geometries.push(Geometry::new(params, extent));
        }
        let reductions = self.geometries.iter().map(Geometry::reduction_max);
        let reduction = match recipe.decode_scaling {
            DecodeScaling::Off => 1,
            DecodeScaling::Auto => reductions.min().unwrap_or(1),
        };
        let sources = self.geometries.iter().map(|geometry| geometry.source(reduction));
        let all = Wanted::reduced(image, reduction);
        sources.reduce(around).map_or(all, |window| Wanted { reduction, window })
    }

    /// The views of the sample that was drawn last, and perhaps others after them.
    #[must_use]
    pub fn views(&self) -> &[ViewParams] {
        &self.views
    }
}

/// The smallest box that holds both.
fn around(a: CropBox, b: CropBox) -> CropBox {
    let (left, top) = (a.left.min(b.left), a.top.min(b.top));
    let right = (a.left + a.width).max(b.left + b.width);
    let bottom = (a.top + a.height).max(b.top + b.height);
    CropBox { left, top, width: right - left, height: bottom - top }
}

// === impl Painter ===

impl Painter {
    /// Index of the table for a tensor; made when it is first needed.
    fn table(&mut self, recipe: &Recipe, spec: &TensorSpec) -> usize {
        let known = self.tables.iter().position(|table| table.serves(recipe, spec.dtype));
        known.unwrap_or_else(|| {
            if self.tables.len() == TABLES_MAX {
                self.tables.clear();
            }
            self.tables.push(CastTable::new(recipe, spec.dtype));
            self.tables.len() - 1
        })
    }

    /// Makes the view that `params` describe.
    fn paint(&mut self, image: &RgbImage, params: &ViewParams, extent: Extent) {
        let Self { view, simd, resizer, blur, .. } = self;
        let simd = *simd;
        // A flip that comes first costs nothing when the resize writes from right to left.
        let (mirrored, ops) = match params.ops.as_slice() {
            [DrawnOp::Flip, rest @ ..] => (true, rest),
            ops => (false, ops),
        };
        resizer.resize(image, &Geometry::new(params, extent), mirrored, view);
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

/// Tables that are kept: as many as there are dtypes for images, for a few recipes.
const TABLES_MAX: usize = 16;
