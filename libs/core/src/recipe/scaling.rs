//! Decoding at a fraction of an image's size.

use serde::{Deserialize, Serialize};

/// Whether a decoder may leave out detail that all views of a sample throw away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecodeScaling {
    /// Images are decoded at their size.
    #[default]
    Off,
    /// If every view of a sample shrinks its box to a half or less in both directions, a JPEG is
    /// decoded at 1/2, 1/4 or 1/8 of its size: the smallest size at which no view has to be
    /// enlarged. The choice depends only on the draws.
    Auto,
}

// === impl DecodeScaling ===

impl DecodeScaling {
    /// Whether it is [`DecodeScaling::Off`], which a recipe's digest does not show: it is as old as
    /// recipes are.
    #[must_use]
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Recipe};

    #[test]
    fn it_is_part_of_what_identifies_a_recipe() {
        let off = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let auto = Recipe { decode_scaling: DecodeScaling::Auto, ..off.clone() };
        assert_ne!(off.digest(), auto.digest());
        let written = serde_json::to_string(&auto).expect("plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), auto);
    }

    #[test]
    fn recipes_that_do_not_use_it_are_written_as_before_it_was_there() {
        let off = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let written = serde_json::to_string(&off).expect("plain data");
        assert!(!written.contains("decode_scaling"), "{written}");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), off);
    }
}
