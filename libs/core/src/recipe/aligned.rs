//! Tensors of other images of a sample, such as masks and depth. They are cut like the views of an
//! image tensor.

use serde::{Deserialize, Serialize};

use super::error::{RecipeError, wrong};
use super::follow::{self, Follower};
use super::interpolation::Interpolation;
use super::spec::{Recipe, TensorSpec};
use super::validate::{validate_name, validate_sides};
use crate::geometry::Extent;
use crate::{Dtype, fields};

/// One tensor `[views * batch, channels, height, width]`, crop-major. View `k` has the crop box and the flips of
/// view `k` of the tensor `like`; operations on colours are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlignedSpec {
    /// Name of the tensor, an identifier; an attribute of the batch in Python.
    pub name: String,
    /// The sample's field, `|` between alternatives.
    pub field: String,
    /// Name of the image tensor whose views it follows.
    pub like: String,
    /// 1: levels of a gray or palette image, as they are in the file. 3: colours, normalised as images are.
    #[serde(default = "one_channel")]
    pub channels: u32,
    /// Element type: `u8`, `i64` or `f32` for levels, `u8`, `f32`, `bf16` or `f16` for colours.
    pub dtype: Dtype,
    /// Rows of one view, in pixels.
    pub height: u32,
    /// Columns of one view, in pixels.
    pub width: u32,
    /// The filter of the resize.
    #[serde(default = "nearest", skip_serializing_if = "is_nearest")]
    pub interpolation: Interpolation,
    /// What levels of dtype `f32` are multiplied by.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub scale: f32,
    /// What is added then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: f32,
    /// The level of the area outside the image, if the view extends beyond it. Colours have the
    /// view's fill.
    #[serde(default, skip_serializing_if = "is_level_zero")]
    pub fill: u16,
}

fn one_channel() -> u32 {
    1
}

fn nearest() -> Interpolation {
    Interpolation::Nearest
}

fn is_nearest(filter: &Interpolation) -> bool {
    *filter == Interpolation::Nearest
}

fn unscaled() -> f32 {
    1.0
}

fn is_unscaled(scale: &f32) -> bool {
    *scale == 1.0
}

fn is_zero(offset: &f32) -> bool {
    *offset == 0.0
}

fn is_level_zero(fill: &u16) -> bool {
    *fill == 0
}

// === impl AlignedSpec ===

impl AlignedSpec {
    /// Size of one view.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { width: self.width, height: self.height }
    }

    /// Whether it has colours, as images have, and not levels.
    #[must_use]
    pub fn has_colours(&self) -> bool {
        self.channels == 3
    }

    /// The same as an image tensor without views: what colours are cast by.
    #[must_use]
    pub fn as_image(&self) -> TensorSpec {
        let Self { name, dtype, height, width, .. } = self;
        let (name, dtype, height, width) = (name.clone(), *dtype, *height, *width);
        TensorSpec { name, dtype, height, width, views: Vec::new() }
    }

    /// What it asks of the views that it follows.
    fn follower(&self) -> Follower {
        match self.interpolation {
            _ if self.has_colours() => Follower::Colours,
            Interpolation::Nearest => Follower::Levels,
            _ => Follower::SmoothLevels,
        }
    }

    fn validate(&self, recipe: &Recipe) -> Result<(), RecipeError> {
        let Self { name, field, channels, dtype, interpolation, .. } = self;
        let key = |key: &str| format!("tensors.{name}.{key}");
        validate_name("tensors.name", name)?;
        if let Err(rule) = fields::check_selector(field) {
            return Err(wrong(key("field"), field, rule));
        }
        if !matches!(channels, 1 | 3) {
            return Err(wrong(
                key("channels"),
                channels,
                "must be 1, for levels, or 3, for colours",
            ));
        }
        validate_sides(&format!("tensors.{name}"), self.height, self.width)?;
        let (fits, rule) = match channels {
            1 => (
                matches!(dtype, Dtype::U8 | Dtype::I64 | Dtype::F32),
                "must be u8, i64 or f32: levels are delivered as they are",
            ),
            _ => (
                matches!(dtype, Dtype::U8 | Dtype::F32 | Dtype::Bf16 | Dtype::F16),
                "must be u8, f32, bf16 or f16",
            ),
        };
        if !fits {
            return Err(wrong(key("dtype"), dtype, rule));
        }
        let smooth = *interpolation != Interpolation::Nearest;
        if *channels == 1 && smooth && *interpolation != Interpolation::Bilinear {
            let rule = "must be nearest or bilinear";
            return Err(wrong(key("interpolation"), "another filter", rule));
        }
        if *channels == 1 && smooth && *dtype != Dtype::F32 {
            let rule = "must be f32 with interpolation = \"bilinear\": means of levels are no whole numbers";
            return Err(wrong(key("dtype"), dtype, rule));
        }
        if *interpolation == Interpolation::Random {
            return Err(wrong(key("interpolation"), "random", "must be one filter"));
        }
        self.validate_values()?;
        follow::check(recipe, name, &self.like, self.follower())?;
        let like = recipe.extent_of(&self.like);
        if self.extent() == like || follow::takes_any_size(recipe, &self.like) {
            return Ok(());
        }
        let rule = format!(
            "must be {} x {}, the size of `{}`: only views with crop random_resized or resize, and \
             without rotation, affine and perspective, can be followed at another size",
            like.height, like.width, self.like
        );
        Err(wrong(key("height"), format!("{} with width {}", self.height, self.width), rule))
    }

    /// `scale`, `offset` and `fill` are for some dtypes.
    fn validate_values(&self) -> Result<(), RecipeError> {
        let Self { name, dtype, scale, offset, fill, .. } = self;
        let key = |key: &str| format!("tensors.{name}.{key}");
        if !(scale.is_finite() && *scale != 0.0) {
            return Err(wrong(key("scale"), scale, "must be a finite number other than 0"));
        }
        if !offset.is_finite() {
            return Err(wrong(key("offset"), offset, "must be a finite number"));
        }
        let is_float_level = *dtype == Dtype::F32 && !self.has_colours();
        if !(is_float_level || is_unscaled(scale) && is_zero(offset)) {
            let rule = "belongs to levels of dtype f32: leave scale and offset out";
            return Err(wrong(key("scale"), scale, rule));
        }
        if *fill > u16::from(u8::MAX) && *dtype == Dtype::U8 {
            return Err(wrong(key("fill"), fill, "must be at most 255 in a tensor of u8"));
        }
        if *fill != 0 && self.has_colours() {
            return Err(wrong(
                key("fill"),
                fill,
                "belongs to levels: colours have the view's fill",
            ));
        }
        Ok(())
    }
}

// === impl Recipe ===

impl Recipe {
    pub(super) fn validate_aligned(&self) -> Result<(), RecipeError> {
        self.aligned.iter().try_for_each(|spec| spec.validate(self))
    }

    /// Number of the first view of the image tensor `like`, counted over all tensors, and how many views it has.
    ///
    /// # Panics
    /// There is no such tensor: the recipe has not been validated.
    #[must_use]
    pub fn views_of(&self, like: &str) -> std::ops::Range<usize> {
        let at = self.tensors.iter().position(|tensor| tensor.name == like);
        let at = at.expect("a validated recipe has the tensor");
        let first = self.tensors[..at].iter().map(|tensor| tensor.views.len()).sum();
        first..first + self.tensors[at].views.len()
    }

    /// Size of the views of the image tensor `like`.
    ///
    /// # Panics
    /// As [`Recipe::views_of`].
    #[must_use]
    pub fn extent_of(&self, like: &str) -> Extent {
        let tensor = self.tensors.iter().find(|tensor| tensor.name == like);
        tensor.expect("a validated recipe has the tensor").extent()
    }
}
