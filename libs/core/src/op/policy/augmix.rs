//! AugMix: several chains of operations, blended.

use serde::{Deserialize, Serialize};

use super::TimmRandAugment;
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::op::rules::{self, count, number};
use crate::op::{DrawnOp, Operation, Reach};
use crate::recipe::{Interpolation, RecipeError, wrong};

/// timm's `AugMixAugment`. The default is what timm writes as `augmix-m3-w3`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimmAugMix {
    /// Magnitude of the operations, in tenths of the strongest: `m`.
    pub magnitude: f64,
    /// Standard deviation of the magnitude: `mstd`. Without it, magnitudes are uniform from 0 to
    /// `magnitude`, as in timm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub magnitude_std: Option<f64>,
    /// Chains that are blended: `w`.
    pub width: u32,
    /// Operations of a chain: `d`; 0 draws 1, 2 or 3 for each chain.
    pub depth: u32,
    /// Parameter of the distributions of the shares: `a`.
    pub alpha: f64,
    /// How rotations, shears and translations find their pixels.
    pub interpolation: Interpolation,
    /// Levels (R, G, B) of pixels from outside.
    pub fill: [u8; 3],
}

// === impl TimmAugMix ===

impl Default for TimmAugMix {
    fn default() -> Self {
        let TimmRandAugment { interpolation, fill, .. } = TimmRandAugment::default();
        let (magnitude, magnitude_std) = (3.0, None);
        Self { magnitude, magnitude_std, width: 3, depth: 0, alpha: 1.0, interpolation, fill }
    }
}

impl TimmAugMix {
    /// Most chains.
    pub(super) const WIDTH_MAX: usize = 8;
    /// Most operations of a chain.
    const DEPTH_MAX: u32 = 8;
}

impl Operation for TimmAugMix {
    fn example() -> Self {
        Self::default()
    }

    fn reach(&self) -> Reach {
        Reach::Chosen
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        None
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        rules::interpolation(at, self.interpolation)?;
        count(at, "width", self.width, 1..=Self::WIDTH_MAX as u32)?;
        count(at, "depth", self.depth, 0..=Self::DEPTH_MAX)?;
        number(at, "magnitude", self.magnitude, TimmRandAugment::MAGNITUDE_MAX)?;
        number(at, "magnitude_std", self.magnitude_std.unwrap_or_default(), 100.0)?;
        if !(0.01..=100.0).contains(&self.alpha) {
            return Err(wrong(format!("{at}.alpha"), self.alpha, "must be from 0.01 to 100"));
        }
        Ok(())
    }

    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        self.choose(view, rng, to);
    }
}
