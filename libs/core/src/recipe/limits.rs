//! Which images are too large to be decoded.

use serde::{Deserialize, Serialize};

use super::error::{RecipeError, wrong};

/// Most scans that a recipe may ask for.
const JPEG_SCANS_LIMIT: u32 = 1 << 16;

/// Limits that are compared with the header of an image before memory is allocated for it. An
/// image beyond them is a bad sample, so they are part of the recipe's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeLimits {
    /// Most pixels of an image, width times height.
    pub pixels_max: u64,
    /// Most scans of a progressive JPEG: each one costs a pass over the whole image.
    pub jpeg_scans_max: u32,
}

// === impl DecodeLimits ===

impl DecodeLimits {
    /// 64 Mi pixels, 192 MiB of RGB.
    pub const PIXELS_MAX_DEFAULT: u64 = 64 << 20;
    /// Most pixels that a recipe may ask for.
    pub const PIXELS_LIMIT: u64 = 1 << 32;
    /// Encoders write about ten.
    pub const JPEG_SCANS_MAX_DEFAULT: u32 = 500;

    /// Whether they are the default, which a recipe's digest does not show: workers had it before
    /// recipes had a say.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn validate(&self) -> Result<(), RecipeError> {
        if !(1..=Self::PIXELS_LIMIT).contains(&self.pixels_max) {
            let rule = format!("must be from 1 to {}", Self::PIXELS_LIMIT);
            return Err(wrong("decode_pixels_max".into(), self.pixels_max, rule));
        }
        if !(1..=JPEG_SCANS_LIMIT).contains(&self.jpeg_scans_max) {
            let rule = format!("must be from 1 to {JPEG_SCANS_LIMIT}");
            return Err(wrong("decode_jpeg_scans_max".into(), self.jpeg_scans_max, rule));
        }
        Ok(())
    }
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { pixels_max: Self::PIXELS_MAX_DEFAULT, jpeg_scans_max: Self::JPEG_SCANS_MAX_DEFAULT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Recipe};

    #[test]
    fn they_are_part_of_what_identifies_a_recipe_unless_they_are_the_default() {
        let usual = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let written = serde_json::to_string(&usual).expect("plain data");
        assert!(!written.contains("decode_limits"), "{written}");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), usual);

        let default = DecodeLimits::default();
        let pixels = DecodeLimits { pixels_max: 1 << 20, ..default };
        let scans = DecodeLimits { jpeg_scans_max: 20, ..default };
        let with = |decode_limits| Recipe { decode_limits, ..usual.clone() };
        let digests = [default, pixels, scans].map(|limits| with(limits).digest());
        assert_eq!(digests[0], usual.digest());
        assert!(digests[1] != digests[0] && digests[2] != digests[0] && digests[1] != digests[2]);
        let written = serde_json::to_string(&with(pixels)).expect("plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), with(pixels));
    }

    #[test]
    fn a_recipe_without_an_image_is_refused_by_its_key() {
        let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let refused = |decode_limits| {
            let recipe = Recipe { decode_limits, ..recipe.clone() };
            recipe.validate().expect_err("out of range").to_string()
        };
        let default = DecodeLimits::default();
        let none = refused(DecodeLimits { pixels_max: 0, ..default });
        assert!(none.starts_with("`recipe.decode_pixels_max` is 0: must be from 1"), "{none}");
        let none = refused(DecodeLimits { jpeg_scans_max: 0, ..default });
        assert!(none.starts_with("`recipe.decode_jpeg_scans_max` is 0"), "{none}");
    }
}
