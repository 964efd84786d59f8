//! The order of the two passes of a resize.

use serde::{Deserialize, Serialize};

/// Which pass of a resize comes first. Values are rounded to levels between the passes, so the
/// order changes pixels by a few levels.
///
/// Source: `ImagingResampleInner` in Pillow's `Resample.c`, and `Image.resize` in 12.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResizePasses {
    /// The horizontal pass, always: Pillow up to 12.1, and 12.2 and 12.3 but for boxes that are more
    /// than 100 times as tall as wide.
    HorizontalFirst,
    /// The vertical pass where the height loses more than twice as many pixels as the width, and
    /// more than none; else the horizontal pass: Pillow from 13.0 on.
    #[default]
    #[serde(rename = "pillow-13")]
    Pillow13,
}

// === impl ResizePasses ===

impl ResizePasses {
    /// Whether it is [`ResizePasses::HorizontalFirst`], which a recipe's digest does not show: it is
    /// as old as recipes are.
    #[must_use]
    pub fn is_horizontal_first(&self) -> bool {
        *self == Self::HorizontalFirst
    }

    /// What a written recipe means that does not name an order.
    pub(super) fn of_unnamed() -> Self {
        Self::HorizontalFirst
    }

    /// Whether the vertical pass comes first where a box of `from` (width, height) pixels becomes `to`.
    #[must_use]
    pub fn is_vertical_first(self, from: (u32, u32), to: (u32, u32)) -> bool {
        let lost = |from: u32, to: u32| i64::from(from) - i64::from(to);
        let (columns, rows) = (lost(from.0, to.0), lost(from.1, to.1));
        self == Self::Pillow13 && rows > 0 && rows > 2 * columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Recipe};

    fn preset(name: &str) -> Recipe {
        Recipe::preset(name, Dtype::Bf16).expect("a preset")
    }

    #[test]
    fn published_code_ran_with_the_horizontal_pass_first() {
        for name in ["dinov2", "dinov2-paper", "dinov3", "dinov3-gram", "dinov3-vitl"] {
            assert_eq!(preset(name).resize_passes, ResizePasses::HorizontalFirst, "{name}");
        }
        for name in ["imagenet-train", "imagenet-eval"] {
            assert_eq!(preset(name).resize_passes, ResizePasses::default(), "{name}");
        }
    }

    #[test]
    fn it_is_part_of_what_identifies_a_recipe() {
        let old = preset("dinov2");
        let new = Recipe { resize_passes: ResizePasses::Pillow13, ..old.clone() };
        assert_ne!(old.digest(), new.digest());
        let written = serde_json::to_string(&new).expect("plain data");
        assert!(written.contains(r#""resize_passes":"pillow-13""#), "{written}");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), new);
        let written = serde_json::to_string(&old).expect("plain data");
        assert!(!written.contains("resize_passes"), "{written}");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), old);
    }

    #[test]
    fn the_vertical_pass_comes_first_where_far_more_rows_than_columns_go() {
        let vertical = |from, to| ResizePasses::Pillow13.is_vertical_first(from, to);
        // 21 rows and 10 columns go, then 20 and 10.
        assert!(vertical((110, 121), (100, 100)));
        assert!(!vertical((110, 120), (100, 100)));
        // Columns are added; of the rows one goes, then none, then one is added.
        assert!(vertical((50, 101), (100, 100)));
        assert!(!vertical((50, 100), (100, 100)));
        assert!(!vertical((50, 99), (100, 100)));
        assert!(vertical((100, 101), (100, 100)), "a kept width loses none");
        assert!(!ResizePasses::HorizontalFirst.is_vertical_first((50, 500), (100, 100)));
    }
}
