//! Where each view lies in the image it is of, as tensors.

use serde::{Deserialize, Serialize};

use super::error::RecipeError;
use super::follow::{self, Follower};
use super::spec::Recipe;
use super::validate::validate_name;

/// Tensors of where views lie, in the order of their slot: `NAME`, `f32[views * batch, 2, 3]`, the affine map from a
/// place in the view to the place in the image that it shows; `NAME_box`, `f32[views * batch, 4]`, left, top, right and
/// bottom of what the view shows, in pixels of the image; `NAME_flip`, `u8[views * batch, 2]`, whether left and right,
/// and top and bottom, are exchanged; `NAME_size`, `i64[batch, 2]`, height and width of the image. Crop-major, as the
/// views of the tensor `like`. Places are counted from the top left corner of the top left pixel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometrySpec {
    /// Name of the tensors, an identifier.
    pub name: String,
    /// Name of the image tensor whose views they are of.
    pub like: String,
}

// === impl GeometrySpec ===

impl GeometrySpec {
    /// Name of the tensor of boxes.
    #[must_use]
    pub fn box_name(&self) -> String {
        format!("{}_box", self.name)
    }

    /// Name of the tensor of flips.
    #[must_use]
    pub fn flip_name(&self) -> String {
        format!("{}_flip", self.name)
    }

    /// Name of the tensor of images' sizes.
    #[must_use]
    pub fn size_name(&self) -> String {
        format!("{}_size", self.name)
    }

    /// Names of all of its tensors, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        vec![self.name.clone(), self.box_name(), self.flip_name(), self.size_name()]
    }

    pub(super) fn validate(&self, recipe: &Recipe) -> Result<(), RecipeError> {
        validate_name("fields.name", &self.name)?;
        follow::check(recipe, &self.name, &self.like, Follower::Geometry)
    }
}
