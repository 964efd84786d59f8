//! The chains of timm's `AugMixAugment` for a view.
//!
//! Source: timm `data/auto_augment.py`, `_apply_basic`.

use super::gamma;
use super::key::DrawRng;
use super::layers::Layers;
use super::params::DrawnOp;
use super::policy::{AUGMIX_SPACE, AUGMIX_TRANSLATE, Layer, Style, timm_value};
use crate::geometry::Extent;
use crate::recipe::{TimmAugMix, TimmRandAugment};

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

    pub(super) fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let look = (self.interpolation, self.fill);
        let (share, weights) = self.shares(rng);
        to.push(DrawnOp::MixBegin);
        for &weight in &weights[..self.width as usize] {
            let Chain { weight, layers } = self.chain(weight, rng);
            Layer::draw_all(&layers, Style::Timm, view, look, rng, to);
            to.push(DrawnOp::MixChain { weight });
        }
        to.push(DrawnOp::MixEnd { share });
    }
}
