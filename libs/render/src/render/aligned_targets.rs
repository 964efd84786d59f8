//! What follows the views of a sample: masks, depth and boxes out of its other fields.
//!
//! All of it is read before anything is written, so that a sample which lacks a part of it is bad with no byte written.

use bytes::Bytes;
use headwater_core::draw::{Extent, SampleParams, ViewParams};
use headwater_core::op::{DrawnOp, Motion};
use headwater_core::recipe::{AlignedSpec, BoxesSpec, Interpolation};
use headwater_core::{Dtype, Recipe};
use headwater_simd::Simd;

use super::aligned::{Cut, Cutter};
use super::boxes::{BoxView, SampleBoxes};
use super::caster::Caster;
use super::view_pipeline::ViewPipeline;
use super::{BoxPart, ViewSink, check_row};
use crate::decode::{DecodeFailure, Decoder, Levels};
use crate::error::{BadImage, FieldFault, RenderError};

/// The other fields of one sample, in memory that is kept between samples.
#[derive(Debug)]
pub struct AlignedTargets {
    simd: Simd,
    images: Vec<Second>,
    boxes: Vec<SampleBoxes>,
    cutter: Cutter,
}

/// A second image.
#[derive(Debug)]
enum Second {
    Levels(Levels),
    Colours(Box<Decoder>),
}

// === impl AlignedTargets ===

impl AlignedTargets {
    /// No sample yet; images of colours are decoded with these instructions.
    #[must_use]
    pub fn new(simd: Simd) -> Self {
        Self { simd, images: Vec::new(), boxes: Vec::new(), cutter: Cutter::default() }
    }

    /// Reads what the recipe wants of a sample whose image has size `image` in its file. `extra_fields` are the bytes of
    /// [`Recipe::extra_fields`], `None` where the sample does not have one.
    ///
    /// # Errors
    /// A field is missing, or does not hold what the recipe says: the sample is bad.
    pub fn read(
        &mut self,
        recipe: &Recipe,
        extra_fields: &[Option<Bytes>],
        image: Extent,
    ) -> Result<(), RenderError> {
        self.images.truncate(recipe.aligned.len());
        for (number, spec) in recipe.aligned.iter().enumerate() {
            let found = bytes(recipe, extra_fields, (&spec.name, &spec.field))?;
            if self.images.get(number).is_none_or(|second| !second.fits(spec)) {
                let second = Second::new(spec, recipe, self.simd)?;
                self.images.splice(number..self.images.len().min(number + 1), [second]);
            }
            let found = self.images[number].decode(spec, recipe, found)?;
            if found != image {
                let said = format!(
                    "`{}` has {}x{} pixels, the sample's image {}x{}: both must have one size",
                    spec.field, found.width, found.height, image.width, image.height
                );
                return Err(bad(&spec.name, said));
            }
        }
        self.boxes.clear();
        for spec in &recipe.boxes {
            let found = bytes(recipe, extra_fields, (&spec.name, &spec.field))?;
            let boxes = SampleBoxes::parse(spec, found)
                .map_err(|said| bad(&spec.name, format!("`{}` {said}", spec.field)))?;
            self.boxes.push(boxes);
        }
        Ok(())
    }

    /// The boxes that were read last, one entry for each of the recipe's.
    #[must_use]
    pub fn boxes(&self) -> &[SampleBoxes] {
        &self.boxes
    }

    /// Writes all views of what was read last.
    ///
    /// # Errors
    /// A row of the sink does not have the recipe's length.
    pub(super) fn write(
        &mut self,
        recipe: &Recipe,
        drawn: &SampleParams,
        (painter, caster): (&mut ViewPipeline, &mut Caster),
        out: &mut dyn ViewSink,
    ) -> Result<(), RenderError> {
        let Self { images, boxes, cutter, .. } = self;
        for ((number, spec), second) in recipe.aligned.iter().enumerate().zip(images) {
            let views = &drawn.views()[recipe.views_of(&spec.like)];
            let like = recipe.extent_of(&spec.like);
            for (view, params) in views.iter().enumerate() {
                let row = out.aligned(number, view);
                let values = u64::from(spec.channels * spec.height * spec.width);
                let expected = (values * spec.dtype.size_bytes()) as usize;
                check_row(number, view, expected, row.len())?;
                match second {
                    Second::Levels(levels) => {
                        let cut = Cut::new(params, like, spec.extent(), recipe.resize_passes);
                        write_levels(cutter, levels, spec, &cut, row);
                    }
                    Second::Colours(decoder) => {
                        let params = moved(params, spec, like);
                        let image = decoder.image();
                        let planes = painter.view(recipe, image, &params, spec.extent())?;
                        caster.write(recipe, &spec.as_image(), 1.0, (planes, &[]), row);
                    }
                }
            }
        }
        for ((number, spec), boxes) in recipe.boxes.iter().enumerate().zip(boxes) {
            write_boxes(recipe, drawn, (number, spec), boxes, out)?;
        }
        Ok(())
    }
}

/// The bytes of the field of a sample from which the recipe makes `name`.
fn bytes<'a>(
    recipe: &Recipe,
    extra_fields: &'a [Option<Bytes>],
    (name, field): (&str, &str),
) -> Result<&'a [u8], RenderError> {
    let missing = || bad(name, format!("the sample has no `{field}`"));
    let number = recipe.extra_fields().iter().position(|sibling| *sibling == field);
    number.and_then(|number| extra_fields.get(number)?.as_deref()).ok_or_else(missing)
}

fn bad(name: &str, reason: String) -> RenderError {
    BadImage::Field(FieldFault { name: name.to_owned(), reason }).into()
}

fn write_levels(
    cutter: &mut Cutter,
    levels: &Levels,
    spec: &AlignedSpec,
    cut: &Cut<'_>,
    row: &mut [u8],
) {
    let value = |level: f32| (level * spec.scale + spec.offset).to_le_bytes();
    let smooth = spec.interpolation != Interpolation::Nearest;
    match spec.dtype {
        Dtype::F32 if smooth => {
            let view = cutter.smooth(levels, cut, spec.fill);
            let places = row.as_chunks_mut::<4>().0.iter_mut();
            places.zip(view).for_each(|(to, &level)| *to = value(level));
        }
        Dtype::F32 => {
            let view = cutter.nearest(levels, cut, spec.fill);
            let places = row.as_chunks_mut::<4>().0.iter_mut();
            places.zip(view).for_each(|(to, &level)| *to = value(level.into()));
        }
        Dtype::I64 => {
            let view = cutter.nearest(levels, cut, spec.fill);
            let places = row.as_chunks_mut::<8>().0.iter_mut();
            places.zip(view).for_each(|(to, &level)| *to = i64::from(level).to_le_bytes());
        }
        // Wide levels were refused when they were read.
        _ => {
            let view = cutter.nearest(levels, cut, spec.fill);
            row.iter_mut().zip(view).for_each(|(to, &level)| *to = level as u8);
        }
    }
}

/// The geometry of a view of the image, for a second image of colours.
fn moved(params: &ViewParams, spec: &AlignedSpec, like: Extent) -> ViewParams {
    let moves = |op: &&DrawnOp| op.motion() != Motion::Stays;
    let resized = if spec.extent() == like { params.resized } else { spec.extent() };
    let ops = params.ops.iter().filter(moves).copied().collect();
    ViewParams { resized, ops, filter: spec.interpolation.filter(), ..params.clone() }
}

fn write_boxes(
    recipe: &Recipe,
    drawn: &SampleParams,
    (number, spec): (usize, &BoxesSpec),
    boxes: &SampleBoxes,
    out: &mut dyn ViewSink,
) -> Result<(), RenderError> {
    let like = recipe.tensors.iter().find(|tensor| tensor.name == spec.like);
    let views =
        like.into_iter().flat_map(|tensor| tensor.views.iter().map(|v| (v, tensor.extent())));
    let drawn = &drawn.views()[recipe.views_of(&spec.like)];
    let most = spec.boxes_max as usize;
    for (view, ((of, extent), params)) in views.zip(drawn).enumerate() {
        let place = BoxView { crop: &of.crop, params, extent };
        let found: Vec<_> = boxes.in_view(spec, &place).collect();
        let mut part = |part: BoxPart, values: usize, bytes: &mut dyn Iterator<Item = u8>| {
            let row = out.boxes(number, part, view);
            check_row(number, view, values, row.len())?;
            row.fill(0);
            row.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
            Ok::<(), RenderError>(())
        };
        let corners = found.iter().flat_map(|found| found.corners);
        part(BoxPart::Corners, 16 * most, &mut corners.flat_map(f32::to_le_bytes))?;
        let count = found.len() as i64;
        part(BoxPart::Count, 8, &mut count.to_le_bytes().into_iter())?;
        let none = std::iter::repeat_n(-1, most - found.len());
        let indices = found.iter().map(|found| found.index as i64).chain(none.clone());
        part(BoxPart::Index, 8 * most, &mut indices.flat_map(i64::to_le_bytes))?;
        if !spec.labels_path.is_empty() {
            let labels = found.iter().map(|found| boxes.labels[found.index]).chain(none);
            part(BoxPart::Labels, 8 * most, &mut labels.flat_map(i64::to_le_bytes))?;
        }
    }
    Ok(())
}

// === impl Second ===

impl Second {
    fn new(spec: &AlignedSpec, recipe: &Recipe, simd: Simd) -> Result<Self, RenderError> {
        Ok(if spec.has_colours() {
            Self::Colours(Box::new(Decoder::with_simd(recipe.decode_limits, simd)?))
        } else {
            Self::Levels(Levels::default())
        })
    }

    fn fits(&self, spec: &AlignedSpec) -> bool {
        matches!(self, Self::Colours(_)) == spec.has_colours()
    }

    /// Decodes the whole image, and gives its size.
    fn decode(
        &mut self,
        spec: &AlignedSpec,
        recipe: &Recipe,
        bytes: &[u8],
    ) -> Result<Extent, RenderError> {
        let named = |failure| match failure {
            DecodeFailure::Bytes(error) => {
                bad(&spec.name, format!("`{}` cannot be used: {error}", spec.field))
            }
            passing => passing.into(),
        };
        match self {
            Self::Levels(levels) => {
                levels.decode(bytes, &recipe.decode_limits).map_err(named)?;
                if levels.is_wide() && spec.dtype == Dtype::U8 {
                    let said = "has 16 bits a level, which u8 does not hold: use dtype i64 or f32";
                    return Err(bad(&spec.name, format!("`{}` {said}", spec.field)));
                }
                Ok(levels.extent())
            }
            Self::Colours(decoder) => {
                decoder.follow(recipe)?;
                Ok(decoder.decode(bytes).map_err(named)?.extent())
            }
        }
    }
}
