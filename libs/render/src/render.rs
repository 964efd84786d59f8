//! One sample through a whole recipe: decoded once, each view cut, changed and written.
//!
//! A pure function of recipe, key and encoded bytes. A clock tells how long decoding takes, and has no
//! bearing on a byte; no thread, no memory taken per
//! sample once the buffers have grown to the largest image.

mod aligned;
mod aligned_targets;
pub mod boxes;
mod caster;
mod patches;
mod placement;
mod python;
mod view_pipeline;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use headwater_core::draw::{CropBox, DrawKey, Extent, SampleParams, ViewParams};
use headwater_core::op::DrawnOp;
use headwater_core::recipe::{BaseSpec, DecodeLimits, DecodeScaling};
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_part_rows::{DeviceRegion, Pins};
use headwater_pixels::image::Planes;
use headwater_pixels::ops::resize::Geometry;
use headwater_simd::Simd;
use headwater_trace::{Span, Tier};

use crate::decode::{DecodedCache, Decoder, EntryTable, Wanted};
use crate::error::RenderError;
pub use aligned_targets::AlignedTargets;
use caster::Caster;
use view_pipeline::ViewPipeline;

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

/// One sample of a part: all that its row follows from, beside the recipe.
#[derive(Clone, Copy, Debug)]
pub struct PartSample<'a> {
    /// What its draws follow from.
    pub key: RenderKey,
    /// The image's file.
    pub encoded: &'a [u8],
    /// Where decoding of that file can begin, if it is a JPEG, as `headwater-jpeg` writes it: a hint, which
    /// changes no byte of the row. Empty where nothing is known.
    pub entries: &'a [u8],
    /// What lies beside the image, in the order of [`Recipe::extra_fields`]; `None` where the sample
    /// does not have a field. Renderers of views look at what follows the views only.
    pub extra_fields: &'a [Option<Bytes>],
    /// Class index; -1 where it has none.
    pub label: i64,
}

// === impl PartSample ===

impl<'a> PartSample<'a> {
    /// An image with nothing beside it, and nothing known about it.
    #[must_use]
    pub fn of_image(key: RenderKey, encoded: &'a [u8], label: i64) -> Self {
        Self { key, encoded, entries: &[], extra_fields: &[], label }
    }
}

/// Where the views of one sample go.
pub trait ViewSink {
    /// The row of the sample in view `view` of tensor `tensor`, both counted as in the recipe:
    /// exactly `3 * height * width` elements of the tensor's dtype, patches too, whatever they hold now.
    /// It is asked for once per view, and every byte is written.
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8];

    /// The memory of [`ViewSink::row`] for a device that writes to it by itself before `render_all` returns; `None` where
    /// it cannot, and the row is asked for instead.
    fn device_row(
        &mut self,
        _tensor: usize,
        _view: usize,
        _pins: &dyn Pins,
    ) -> Option<DeviceRegion> {
        None
    }

    /// A device is about to be asked to write the row to where [`ViewSink::device_row`] said: from here on it may, at any
    /// time, until [`ViewSink::device_summed`].
    fn device_begins(&mut self, _tensor: usize, _view: usize) {}

    /// Says the checksum of the row that a device has written by itself: XXH3-64.
    fn device_summed(&mut self, _tensor: usize, _view: usize, _sum: u64) {}

    /// The row of the scales of that view's blocks, where the tensor's dtype has blocks:
    /// `3 * height * blocks` bytes. It is asked for once per such view, after its row.
    fn block_scales(&mut self, _tensor: usize, _view: usize) -> &mut [u8] {
        &mut []
    }

    /// The row of the sample in view `view` of the tensor that is number `aligned` of the recipe's: exactly
    /// `channels * height * width` elements. It is asked for once per view, after all rows of images.
    fn aligned(&mut self, _aligned: usize, _view: usize) -> &mut [u8] {
        &mut []
    }

    /// The row of the sample in view `view` of one of the tensors of the recipe's boxes number `boxes`. It is asked
    /// for once per part and view, after all rows of images.
    fn boxes(&mut self, _boxes: usize, _part: BoxPart, _view: usize) -> &mut [u8] {
        &mut []
    }

    /// The row of the sample in view `view` of one of the recipe's tensors of geometry number `geometry`; the size of
    /// the image has one view. It is asked for once per part and view, after all rows of images.
    fn geometry(&mut self, _geometry: usize, _part: GeometryPart, _view: usize) -> &mut [u8] {
        &mut []
    }

    /// The row of the sample in view `view` of one of the tensors beside the patches of tensor `tensor`. It is asked for once
    /// per part and view, after the row of patches.
    fn patches(&mut self, _tensor: usize, _part: PatchPart, _view: usize) -> &mut [u8] {
        &mut []
    }

    /// The scale of an FP8 tensor's elements; without one they have the recipe's static scale.
    fn fp8_scale(&self, _tensor: usize) -> Option<f32> {
        None
    }

    /// Told when the image is decoded, and how long that took. Not of images that a GPU decodes.
    fn decoded(&mut self, _took: Duration) {}

    /// Told of each view of an FP8 tensor: the largest magnitude of its normalised values, before
    /// they are scaled.
    fn fp8_amax(&mut self, _tensor: usize, _amax: f32) {}
}

/// One of the tensors beside patches, in the order in which they lie in the slot behind these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchPart {
    /// `i64[length, 2]`.
    Coord,
    /// `bool[length]`.
    Valid,
}

/// One of the tensors of boxes, in the order in which they lie in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxPart {
    /// `f32[boxes_max, 4]`.
    Corners,
    /// `i64[]`.
    Count,
    /// `i64[boxes_max]`.
    Index,
    /// `i64[boxes_max]`, where the recipe wants them.
    Labels,
}

/// One of the tensors of where views lie, in the order in which they are in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryPart {
    /// `f32[2, 3]`.
    ToImage,
    /// `f32[4]`.
    Box,
    /// `u8[2]`.
    Flip,
    /// `i64[2]`, of the sample.
    Size,
}

/// A sample that has been rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Size of the image in the file.
    pub source: Extent,
}

/// Renders sample after sample into memory that it keeps. One per thread.
#[derive(Debug)]
pub struct Renderer {
    decoder: Decoder,
    draws: Draws,
    painter: ViewPipeline,
    caster: Caster,
    /// A view before it becomes patches.
    planar: Vec<u8>,
    followers: AlignedTargets,
}

/// What is random about the views of one sample. Known from the image's size, so that no more of
/// it is decoded than its views show.
#[derive(Debug, Default)]
pub struct Draws {
    params: SampleParams,
}

// === impl RenderKey ===

impl RenderKey {
    /// Key of a stream of draws: of one view, counted over all tensors, or of a purpose that
    /// [`DrawKey`] names.
    #[must_use]
    pub fn view(&self, number: u64) -> DrawKey {
        let Self { seed, epoch, pass, sample } = *self;
        DrawKey { seed, epoch, pass, sample, stream: number }
    }
}

// === impl Renderer ===

impl Renderer {
    /// A renderer that takes the fastest instructions of this processor.
    ///
    /// # Errors
    /// The JPEG library has no memory for its state.
    pub fn new() -> Result<Self, RenderError> {
        Self::with_simd(Simd::best())
    }

    /// As [`Renderer::new`] with instructions of choice, which change no byte.
    ///
    /// # Errors
    /// The JPEG library has no memory for its state.
    pub fn with_simd(simd: Simd) -> Result<Self, RenderError> {
        let (painter, caster) = (ViewPipeline::new(simd), Caster::new(simd));
        let decoder = Decoder::with_simd(DecodeLimits::default(), simd)?;
        let followers = AlignedTargets::new(simd);
        let (draws, planar) = (Draws::default(), Vec::new());
        Ok(Self { decoder, draws, painter, caster, planar, followers })
    }

    /// The same, which keeps what it learns of images where others find it.
    #[must_use]
    pub fn sharing(mut self, entries: Option<Arc<EntryTable>>) -> Self {
        self.decoder = self.decoder.sharing(entries);
        self
    }

    /// The same, which reads images that are there instead of decoding them.
    #[must_use]
    pub fn caching(mut self, cache: Option<Arc<DecodedCache>>) -> Self {
        self.decoder = self.decoder.caching(cache);
        self
    }

    /// The same, which calls Python functions of recipes.
    #[must_use]
    pub fn calling(mut self, python: Option<headwater_interpreter::Settings>) -> Self {
        self.painter.allow_python(python);
        self
    }

    /// The instructions that were chosen.
    #[must_use]
    pub fn simd(&self) -> Simd {
        self.painter.simd()
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
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        let sample = PartSample::of_image(key, encoded, -1);
        self.render_sample(recipe, &sample, out)
    }

    /// As [`Renderer::render`], with what is known of the sample beside its bytes.
    ///
    /// # Errors
    /// As [`Renderer::render`].
    pub fn render_sample(
        &mut self,
        recipe: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        let &PartSample { key, encoded, entries, .. } = sample;
        let Self { decoder, painter, draws, caster, planar, followers } = self;
        decoder.follow(recipe)?;
        let mut source = None;
        let mut decoding = Span::on_thread(Tier::Augment, "decode").with("bytes", encoded.len());
        let started = Instant::now();
        decoder.decode_from(encoded, entries, |image| {
            source = Some(image);
            draws.draw(recipe, key, image)
        })?;
        out.decoded(started.elapsed());
        if let Some(Extent { width, height }) = source {
            decoding.arg("width_pixels", width);
            decoding.arg("height_pixels", height);
        }
        decoding.end();
        let source = source.unwrap_or(decoder.image().extent());
        if recipe.has_geometry() {
            followers.read(recipe, sample.extra_fields, source)?;
        }
        let _changing = Span::on_thread(Tier::Augment, "augment");
        let params = &draws.params;
        painter.recolour(recipe, decoder.image_mut(), params.image_ops())?;
        let image = decoder.image();
        painter.cut_bases(recipe, image, params.bases())?;
        let mut number = 0;
        for (tensor, spec) in recipe.tensors.iter().enumerate() {
            for view in 0..spec.views.len() {
                let params = &params.views()[number];
                let planes =
                    painter.view(recipe, image, params, recipe.view_extent(spec, params))?;
                let (at, shown) = ((tensor, view), (planes, &*params.ops));
                match recipe.sequences_of(&spec.name) {
                    Some(of) => {
                        patches::write((&mut *caster, &mut *planar), recipe, of, at, shown, out)?
                    }
                    None => write_view(caster, recipe, at, shown, out)?,
                }
                number += 1;
            }
        }
        if recipe.has_geometry() {
            followers.write(recipe, params, (painter, caster), out)?;
            placement::write(recipe, params, source, out)?;
        }
        Ok(Rendered { source })
    }
}

/// Writes a view to its place in `out`: number `view` of tensor number `tensor`.
fn write_view(
    caster: &mut Caster,
    recipe: &Recipe,
    (tensor, view): (usize, usize),
    (planes, ops): (&Planes, &[DrawnOp]),
    out: &mut dyn ViewSink,
) -> Result<(), RenderError> {
    let spec = &recipe.tensors[tensor];
    let scale = out.fp8_scale(tensor).unwrap_or_else(|| recipe.fp8_scale());
    let row = out.row(tensor, view);
    let values = 3 * u64::from(spec.width) * u64::from(spec.height);
    check_row(tensor, view, (values * spec.dtype.size_bytes()) as usize, row.len())?;
    let scales = caster.write(recipe, spec, scale, (planes, ops), row);
    match spec.dtype {
        Dtype::Fp8E4m3 => out.fp8_amax(tensor, caster.amax(recipe, planes)),
        Dtype::Mxfp8E4m3 => {
            let to = out.block_scales(tensor, view);
            check_row(tensor, view, scales.len(), to.len())?;
            to.copy_from_slice(scales);
        }
        _ => {}
    }
    Ok(())
}

/// Checks that a row of a sink is as long as the recipe has it.
///
/// # Errors
/// It is not: [`RenderError::RowLength`].
pub fn check_row(
    tensor: usize,
    view: usize,
    expected_bytes: usize,
    found_bytes: usize,
) -> Result<(), RenderError> {
    if found_bytes == expected_bytes {
        return Ok(());
    }
    Err(RenderError::RowLength { tensor, view, expected_bytes, found_bytes })
}

// === impl Draws ===

impl Draws {
    /// Draws everything about a sample whose image has size `image`; what is looked at of it.
    pub fn draw(&mut self, recipe: &Recipe, key: RenderKey, image: Extent) -> Wanted {
        self.params.draw(recipe, image, |stream| key.view(stream).rng());
        let reduction = match recipe.decode_scaling {
            DecodeScaling::Off => 1,
            DecodeScaling::Auto => {
                let reductions = self.geometries(recipe).map(|cut| cut.reduction_max());
                reductions.min().unwrap_or(1)
            }
        };
        let all = Wanted::reduced(image, reduction);
        if !self.params.image_ops().is_empty() {
            // Contrast looks at every pixel.
            return all;
        }
        let sources = self.geometries(recipe).map(|cut| cut.source(reduction));
        sources.reduce(around).map_or(all, |window| Wanted { reduction, window })
    }

    /// How bases, and views that are not made of one, are cut from the image.
    fn geometries(&self, recipe: &Recipe) -> impl Iterator<Item = Geometry> {
        let bases = recipe.bases.iter().map(BaseSpec::extent).zip(self.params.bases());
        let views =
            recipe.tensors.iter().flat_map(|tensor| tensor.views.iter().map(move |_| tensor));
        let views = views.zip(self.params.views()).filter(|(_, params)| params.base.is_none());
        let views = views.map(|(tensor, params)| (recipe.view_extent(tensor, params), params));
        let passes = recipe.resize_passes;
        bases.chain(views).map(move |(view, params)| Geometry::new(params, view, passes))
    }

    /// Everything about the sample that was drawn last.
    #[must_use]
    pub fn params(&self) -> &SampleParams {
        &self.params
    }

    /// The views of the sample that was drawn last, in the order of the recipe.
    #[must_use]
    pub fn views(&self) -> &[ViewParams] {
        self.params.views()
    }
}

/// The smallest box that holds both.
fn around(a: CropBox, b: CropBox) -> CropBox {
    let (left, top) = (a.left.min(b.left), a.top.min(b.top));
    let right = (a.left + a.width).max(b.left + b.width);
    let bottom = (a.top + a.height).max(b.top + b.height);
    CropBox { left, top, width: right - left, height: bottom - top }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeError, DecodeFailure};
    use crate::error::BadImage;

    #[test]
    fn only_a_word_on_the_bytes_is_a_verdict() {
        let passing = DecodeFailure::Passing { reason: "no memory".into() };
        let found = RenderError::from(passing);
        assert!(
            matches!(&found, RenderError::Passing { reason } if reason.contains("no memory")),
            "{found}"
        );
        let verdict = DecodeError::TooLarge { width: 9, height: 9, pixels_max: 80 };
        let bad = RenderError::Bad(BadImage::Decode(verdict.clone()));
        assert_eq!(RenderError::from(DecodeFailure::from(verdict)), bad);
    }
}
