//! Which views of an image tensor masks, depth, boxes and tensors of geometry can follow.

use super::error::{RecipeError, wrong};
use super::spec::{CropSpec, Recipe, ViewSpec};
use crate::op::{OpSpec, Reach};
use crate::padding::PaddingMode;

/// What follows the views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follower {
    /// Levels of the nearest pixel.
    Levels,
    /// Levels between pixels.
    SmoothLevels,
    /// A second image.
    Colours,
    /// Boxes.
    Boxes,
    /// Tensors that say where the views lie.
    Geometry,
}

/// Checks that the recipe has a tensor `like` and that `name` can have the geometry of each of its views.
///
/// # Errors
/// There is no such tensor, or a view moves pixels as `follower` cannot.
pub(super) fn check(
    recipe: &Recipe,
    name: &str,
    like: &str,
    follower: Follower,
) -> Result<(), RecipeError> {
    let key = format!("{}.{name}.like", follower.list());
    let Some(tensor) = recipe.tensors.iter().find(|tensor| tensor.name == like) else {
        let known: Vec<&str> = recipe.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let known = known.join(", ");
        let rule = format!("must be the name of an image tensor of the recipe, one of: {known}");
        return Err(wrong(key, format!("`{like}`"), rule));
    };
    let whole = follower.lacking(&recipe.image_ops);
    let bases = recipe.bases.iter().map(|base| &base.view);
    // Nothing else follows a view that is made from one.
    let bases = bases.filter(|_| follower == Follower::Geometry);
    let of_views = || tensor.views.iter().chain(bases).find_map(|view| follower.lacks(view));
    match whole.or_else(of_views) {
        None => Ok(()),
        Some(part) => {
            let rule = format!(
                "has a view with {part}, which {} cannot follow: leave it out, or name another tensor",
                follower.plural()
            );
            Err(wrong(key, format!("`{like}`"), rule))
        }
    }
}

/// Whether all views of the tensor `like` show a box that can be resized to any size.
pub(super) fn takes_any_size(recipe: &Recipe, like: &str) -> bool {
    let tensor = recipe.tensors.iter().find(|tensor| tensor.name == like);
    let mut views = tensor.into_iter().flat_map(|tensor| &tensor.views);
    views.all(|ViewSpec { crop, ops }| {
        matches!(crop, CropSpec::RandomResized { .. } | CropSpec::Resize {})
            && ops.iter().all(|op| op.reach() != Reach::Warp)
    })
}

// === impl Follower ===

impl Follower {
    /// The list of the recipe that it is written in.
    fn list(self) -> &'static str {
        if matches!(self, Self::Boxes | Self::Geometry) { "fields" } else { "tensors" }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Levels => "masks",
            Self::SmoothLevels => "levels with interpolation = \"bilinear\"",
            Self::Colours => "colours",
            Self::Boxes => "boxes",
            Self::Geometry => "tensors of geometry",
        }
    }

    /// The first part of a view that it cannot follow.
    fn lacks(self, view: &ViewSpec) -> Option<String> {
        let crop = match view.crop {
            CropSpec::Base { .. } | CropSpec::WindowOfBase { .. } if self == Self::Geometry => None,
            CropSpec::Base { .. } => Some("crop base"),
            CropSpec::WindowOfBase { .. } => Some("crop window_of_base"),
            CropSpec::Random { padding_mode, .. }
                if matches!(self, Self::Boxes | Self::Geometry) =>
            {
                match padding_mode {
                    PaddingMode::Constant => None,
                    PaddingMode::Edge => Some("padding_mode edge"),
                    PaddingMode::Reflect => Some("padding_mode reflect"),
                    PaddingMode::Symmetric => Some("padding_mode symmetric"),
                }
            }
            CropSpec::RandomResized { .. }
            | CropSpec::CenterAfterResize { .. }
            | CropSpec::RandomAfterResize { .. }
            | CropSpec::Resize {}
            | CropSpec::Sequence { .. }
            | CropSpec::RandomResizedSequence { .. }
            | CropSpec::Random { .. }
            | CropSpec::Center { .. } => None,
        };
        crop.map(str::to_owned).or_else(|| self.lacking(&view.ops))
    }

    /// Whether it cannot follow an operation.
    fn lacks_op(self, op: &OpSpec) -> bool {
        match op.reach() {
            Reach::Colours | Reach::Neighbours | Reach::Mirror | Reach::Normalised => false,
            Reach::Warp => !matches!(self, Self::Levels | Self::Colours),
            Reach::Chosen | Reach::Unknown => true,
        }
    }

    fn lacking(self, ops: &[OpSpec]) -> Option<String> {
        ops.iter().find(|op| self.lacks_op(op)).map(|op| format!("op {}", op.name()))
    }
}
