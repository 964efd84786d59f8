//! Filters that find values between pixels.

use serde::{Deserialize, Serialize};

/// A filter that finds values between pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// The pixel that is nearest.
    Nearest,
    /// The mean of the pixels that are covered.
    Box,
    /// A triangle over two pixels.
    Bilinear,
    /// A cubic over four pixels.
    #[default]
    Bicubic,
}

// === impl Filter ===

impl Filter {
    /// Whether it is [`Filter::Bicubic`], which is not written down.
    #[must_use]
    pub fn is_bicubic(&self) -> bool {
        *self == Self::Bicubic
    }

    /// Its name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Box => "box",
            Self::Bilinear => "bilinear",
            Self::Bicubic => "bicubic",
        }
    }
}
