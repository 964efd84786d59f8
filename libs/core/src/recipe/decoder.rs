//! Who decodes JPEGs.

use serde::{Deserialize, Serialize};

/// Default share of JPEGs for a GPU's engines. It is about what they decode while the kernels
/// decode the rest. DALI has the same default.
pub const HW_DECODER_LOAD_DEFAULT: f64 = 0.65;

/// A decoder of JPEGs. Each makes different pixels, so it is part of the recipe's identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JpegDecoder {
    /// libjpeg-turbo, with Pillow's pixels.
    #[default]
    Turbojpeg,
    /// A GPU's: its engines or its kernels.
    Nvjpeg,
}

// === impl JpegDecoder ===

impl JpegDecoder {
    /// Whether it is [`JpegDecoder::Turbojpeg`], which a recipe's digest does not show: it is as old
    /// as recipes are.
    #[must_use]
    pub fn is_turbojpeg(&self) -> bool {
        *self == Self::Turbojpeg
    }
}

/// Whether a share is none, which a recipe's digest does not show.
pub(super) fn is_none(share: &f64) -> bool {
    *share == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::DecodeScaling;
    use crate::{Dtype, Recipe};

    fn nvjpeg(hw_decoder_load: f64) -> Recipe {
        let preset = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        Recipe { decoder: JpegDecoder::Nvjpeg, hw_decoder_load, ..preset }
    }

    #[test]
    fn decoder_and_share_are_part_of_what_identifies_a_recipe() {
        let turbo = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let digests = [turbo.digest(), nvjpeg(0.0).digest(), nvjpeg(0.65).digest()];
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
        let written = serde_json::to_string(&nvjpeg(0.65)).expect("plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&written).expect("a recipe"), nvjpeg(0.65));
    }

    #[test]
    fn recipes_that_do_not_ask_for_one_are_written_as_before_there_was_a_choice() {
        let turbo = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        let written = serde_json::to_string(&turbo).expect("plain data");
        assert!(!written.contains("decoder"), "{written}");
    }

    #[test]
    fn what_cannot_be_done_together_is_refused() {
        assert!(nvjpeg(0.0).validate().is_ok() && nvjpeg(1.0).validate().is_ok());
        let refused = |recipe: Recipe| recipe.validate().expect_err("not valid").to_string();
        for share in [-0.1, 1.1, f64::NAN] {
            let error = refused(nvjpeg(share));
            assert!(error.contains("hw_decoder_load"), "{error}");
        }
        let error = refused(Recipe { decode_scaling: DecodeScaling::Auto, ..nvjpeg(0.0) });
        assert!(error.contains("decode_scaling"), "{error}");
        let error = refused(Recipe { decoder: JpegDecoder::Turbojpeg, ..nvjpeg(0.5) });
        assert!(error.contains("hw_decoder_load"), "{error}");
    }
}
