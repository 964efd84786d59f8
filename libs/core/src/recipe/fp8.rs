//! The scales of FP8 tensors.

use serde::{Deserialize, Serialize};

use super::error::{RecipeError, wrong};

/// Largest finite value of E4M3.
pub const FP8_E4M3_MAX: f32 = 448.0;

/// Elements of MXFP8 that share a scale.
pub const MX_BLOCK: u32 = 32;

/// Largest window, delay.
const BATCHES_MAX: u32 = 1024;
/// Largest margin, in powers of two. With a larger one, less than the mantissa would be left of
/// E4M3's range.
const MARGIN_MAX: u32 = 8;

/// What the scales of FP8 tensors follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scaling", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fp8Scaling {
    /// Only from mean and standard deviation: [`crate::Recipe::fp8_scale`].
    // With braces, it refuses keys.
    Static {},
    /// The largest magnitudes of earlier batches.
    Delayed(DelayedScaling),
}

/// Delayed scaling, by the rule of Transformer Engine: see [`crate::fp8`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelayedScaling {
    /// Batches whose largest magnitudes count.
    pub window: u32,
    /// Powers of two that are left free above the largest of them.
    pub margin: u32,
    /// From the newest batch that counts to the one that is scaled; 1 is Transformer Engine's. So
    /// many batches can be made ahead of the trainer.
    pub delay: u32,
}

// === impl DelayedScaling ===

impl Default for DelayedScaling {
    fn default() -> Self {
        Self { window: 16, margin: 0, delay: 8 }
    }
}

// === impl Fp8Scaling ===

impl Default for Fp8Scaling {
    fn default() -> Self {
        Self::Static {}
    }
}

impl Fp8Scaling {
    /// Whether it is [`Fp8Scaling::Static`], which a recipe's digest does not show.
    #[must_use]
    pub fn is_static(&self) -> bool {
        *self == Self::Static {}
    }

    pub(super) fn validate(&self) -> Result<(), RecipeError> {
        let Self::Delayed(DelayedScaling { window, margin, delay }) = *self else { return Ok(()) };
        for (key, value) in [("fp8.window", window), ("fp8.delay", delay)] {
            if !(1..=BATCHES_MAX).contains(&value) {
                return Err(wrong(key.into(), value, "must be from 1 to 1024 batches"));
            }
        }
        if margin > MARGIN_MAX {
            return Err(wrong("fp8.margin".into(), margin, "must be from 0 to 8"));
        }
        Ok(())
    }
}
