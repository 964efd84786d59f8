//! How an image is turned before it is looked at.

use serde::{Deserialize, Serialize};

/// Whether an image is turned as its EXIF data says: a camera that is held upright often stores a lying image and says how
/// it is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExifOrientation {
    /// Images stay as they are stored, as with `PIL.Image.open` and torchvision's `ImageFolder`.
    #[default]
    Ignore,
    /// Images are turned first, as by `PIL.ImageOps.exif_transpose`; Hugging Face's `datasets` and DALI do so.
    Apply,
}

// === impl ExifOrientation ===

impl ExifOrientation {
    /// Whether it is [`ExifOrientation::Ignore`], which a recipe's digest does not show: it is as old as recipes are.
    #[must_use]
    pub fn is_ignored(&self) -> bool {
        *self == Self::Ignore
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Recipe};

    #[test]
    fn it_is_part_of_what_identifies_a_recipe_and_not_of_recipes_before_it() {
        let ignored = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let applied = Recipe { exif_orientation: ExifOrientation::Apply, ..ignored.clone() };
        assert_ne!(ignored.digest(), applied.digest());
        let written = |recipe: &Recipe| serde_json::to_string(recipe).expect("plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&written(&applied)).expect("a recipe"), applied);
        assert!(!written(&ignored).contains("exif_orientation"));
    }
}
