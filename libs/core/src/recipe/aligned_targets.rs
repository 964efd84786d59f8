//! What follows the views of a recipe, and what makes it usable.

use super::aligned::{AlignedSpec, is_unscaled, is_zero};
use super::boxes::BoxesSpec;
use super::error::{RecipeError, wrong};
use super::follow::{self, Follower};
use super::geometry::GeometrySpec;
use super::interpolation::Interpolation;
use super::spec::{Recipe, TensorSpec};
use super::validate::{validate_name, validate_sides};
use crate::geometry::Extent;
use crate::op::{OpSpec, Reach};
use crate::{Dtype, fields};

/// Most boxes of a view that a recipe may ask for.
const BOXES_MAX: u32 = 4096;

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

    pub(super) fn validate_boxes(&self) -> Result<(), RecipeError> {
        self.boxes.iter().try_for_each(|spec| spec.validate(self))
    }

    /// Names of the tensors of masks, depth, boxes, and of where views lie.
    pub fn geometry_names(&self) -> impl Iterator<Item = String> {
        let aligned = self.aligned.iter().map(|spec| spec.name.clone());
        let boxes = self.boxes.iter().flat_map(BoxesSpec::names);
        aligned.chain(boxes).chain(self.geometry.iter().flat_map(GeometrySpec::names))
    }

    /// What follows the views: the name of each, and its field.
    pub fn aligned_targets(&self) -> impl Iterator<Item = (&str, &str)> {
        let aligned = self.aligned.iter().map(|spec| (spec.name.as_str(), spec.field.as_str()));
        aligned.chain(self.boxes.iter().map(|spec| (spec.name.as_str(), spec.field.as_str())))
    }

    /// Whether other fields of a sample follow its views, or a tensor says where these lie: the draws of views are
    /// needed for them.
    #[must_use]
    pub fn has_geometry(&self) -> bool {
        !(self.aligned.is_empty() && self.boxes.is_empty() && self.geometry.is_empty())
    }
}

// === impl AlignedSpec ===

impl AlignedSpec {
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
             without {}, can be followed at another size",
            like.height,
            like.width,
            self.like,
            warps()
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

// === impl BoxesSpec ===

impl BoxesSpec {
    fn validate(&self, recipe: &Recipe) -> Result<(), RecipeError> {
        let Self { name, field, path, labels_path, boxes_max, size_min, area_min, .. } = self;
        let key = |key: &str| format!("fields.{name}.{key}");
        validate_name("fields.name", name)?;
        if let Err(rule) = fields::check_selector(field) {
            return Err(wrong(key("field"), field, rule));
        }
        for (name, path) in [("path", path), ("labels_path", labels_path)] {
            if !(path.is_empty() || path.starts_with('/')) {
                let rule = "must be a JSON pointer, as \"/found/boxes\", or empty";
                return Err(wrong(key(name), path, rule));
            }
        }
        if !(1..=BOXES_MAX).contains(boxes_max) {
            return Err(wrong(key("boxes_max"), boxes_max, "must be from 1 to 4096"));
        }
        for (name, least) in [("size_min", size_min), ("area_min", area_min)] {
            // As torchvision's `SanitizeBoundingBoxes`: boxes without an area are never kept.
            if !(least.is_finite() && *least >= 1.0) {
                return Err(wrong(key(name), least, "must be 1 or more pixels"));
            }
        }
        follow::check(recipe, name, &self.like, Follower::Boxes)
    }
}

/// The operations that move pixels by a matrix, in words.
fn warps() -> String {
    let all = OpSpec::examples();
    let names: Vec<&str> =
        all.iter().filter(|op| op.reach() == Reach::Warp).map(OpSpec::name).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
