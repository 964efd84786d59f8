//! The filters of a resize.

use serde::{Deserialize, Serialize};

use crate::draw::DrawRng;
use crate::filter::Filter;

/// The filter by which boxes are resized, as in Pillow: antialiased, except `nearest`.
///
/// Source: `Resample.c` and `ImagingScaleAffine` in Pillow's `Geometry.c`; `random` is that of
/// timm's `RandomResizedCropAndInterpolation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The pixel that is nearest.
    Nearest,
    /// The mean of the pixels that are covered.
    Box,
    /// A triangle over two pixels; torchvision's default.
    Bilinear,
    /// Keys' cubic over four pixels, with a = -0.5.
    #[default]
    Bicubic,
    /// Bilinear or bicubic, drawn for each view.
    Random,
}

// === impl Interpolation ===

impl Interpolation {
    /// Whether it is [`Interpolation::Bicubic`], which a recipe's digest does not show: it is as
    /// old as recipes are.
    #[must_use]
    pub fn is_bicubic(&self) -> bool {
        *self == Self::Bicubic
    }

    /// The filter. [`Interpolation::Random`] is bilinear here.
    #[must_use]
    pub fn filter(self) -> Filter {
        match self {
            Self::Nearest => Filter::Nearest,
            Self::Box => Filter::Box,
            Self::Bilinear | Self::Random => Filter::Bilinear,
            Self::Bicubic => Filter::Bicubic,
        }
    }

    /// The filter of a view.
    pub(crate) fn draw(self, rng: &mut DrawRng) -> Filter {
        match self {
            Self::Random if rng.below(2) == 0 => Filter::Bilinear,
            Self::Random => Filter::Bicubic,
            one => one.filter(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Recipe};

    #[test]
    fn only_another_filter_changes_what_a_recipe_is() {
        let usual = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let written = serde_json::to_string(&usual).expect("plain data");
        assert!(!written.contains("interpolation"), "{written}");
        let other = Recipe { interpolation: Interpolation::Bilinear, ..usual.clone() };
        assert_ne!(other.digest(), usual.digest());
        let written = serde_json::to_string(&other).expect("plain data");
        assert!(written.contains(r#""interpolation":"bilinear""#), "{written}");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), other);
    }
}
