//! The chains of timm's `AugMixAugment` for a view.
//!
//! Source: timm `data/auto_augment.py`, `_apply_basic`.

use serde::{Deserialize, Serialize};

use super::choose::{AUGMIX_SPACE, AUGMIX_TRANSLATE, Style, timm_value};
use super::{Layer, Layers, TimmAugMix, TimmRandAugment};
use crate::draw::{DrawRng, gamma};
use crate::geometry::Extent;
use crate::op::{Drawn, DrawnOp, Motion};

/// Operations of a chain whose number is drawn.
const DEPTH_DRAWN: u64 = 3;

/// A chain of operations, all done to the same view.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Its share of the mixture.
    pub weight: f32,
    /// Its operations.
    pub layers: Layers,
}

/// Keeps the present view. All chains until [`Mixed`] begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixBegun;

/// The end of a chain: its result is added to the mixture, and the view is the kept one again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainMixed {
    /// What values are multiplied by before.
    pub weight: f32,
}

/// Blends the kept view with the mixture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixed {
    /// Share of the mixture, from 0 to 1.
    pub share: f32,
}

// === impl TimmAugMix ===

impl TimmAugMix {
    /// The share of the mixture in the view, and the shares of the chains: those behind `width` are 0.
    fn shares(&self, rng: &mut DrawRng) -> (f32, [f64; Self::WIDTH_MAX]) {
        let weights = gamma::dirichlet(self.alpha, self.width as usize, rng);
        (gamma::beta(self.alpha, rng) as f32, weights)
    }

    fn chain(&self, weight: f64, rng: &mut DrawRng) -> Chain {
        let depth = match self.depth {
            0 => 1 + rng.below(DEPTH_DRAWN) as u32,
            depth => depth,
        };
        let layer = |_| {
            let augment = AUGMIX_SPACE[rng.below(AUGMIX_SPACE.len() as u64) as usize];
            let level = match self.magnitude_std {
                None => rng.uniform(0.0, self.magnitude),
                Some(std) if std > 0.0 => self.magnitude + std * rng.normal(),
                Some(_) => self.magnitude,
            };
            let level = level.clamp(0.0, TimmRandAugment::MAGNITUDE_MAX);
            let value = timm_value(augment, level, AUGMIX_TRANSLATE, true, rng);
            Layer { augment, value, level }
        };
        Chain { weight: weight as f32, layers: (0..depth).map(layer).collect() }
    }

    pub(super) fn choose(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let look = (self.interpolation, self.fill);
        let (share, weights) = self.shares(rng);
        to.push(MixBegun.into());
        for &weight in &weights[..self.width as usize] {
            let Chain { weight, layers } = self.chain(weight, rng);
            Layer::draw_all(&layers, Style::Timm, view, look, rng, to);
            to.push(ChainMixed { weight }.into());
        }
        to.push(Mixed { share }.into());
    }
}

// === impl MixBegun ===

impl Drawn for MixBegun {
    fn text(&self) -> String {
        "mix of chains (".to_owned()
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}

// === impl ChainMixed ===

impl Drawn for ChainMixed {
    fn text(&self) -> String {
        format!("* {:.3}", self.weight)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}

// === impl Mixed ===

impl Drawn for Mixed {
    fn text(&self) -> String {
        format!("), share {:.3}", self.share)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
