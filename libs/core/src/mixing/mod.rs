//! Mixup and cutmix: which samples of a batch are mixed, and how.
//!
//! Drawn for a whole batch, from the batch's own coordinates. So every caller gets the same draws, each time.
//! Sources: torchvision `transforms.v2.{MixUp, CutMix}`; timm `data/mixup.py`. Papers: Zhang et al., "mixup: Beyond
//! Empirical Risk Minimization", 2018; Yun et al., "CutMix", 2019.
//!
//! Deliberately absent: pixels and labels. They are mixed where the batch is, on the trainer's device.

mod spec;

use crate::draw::gamma;
use crate::masks::MaskKey;
use crate::{DrawKey, DrawRng, SampleId};

pub use spec::{MixError, MixMode, MixSpec, MixStyle};

/// Draws the mixing of a recipe's batches.
#[derive(Clone, Debug)]
pub struct MixPlan {
    spec: MixSpec,
    height: u32,
    width: u32,
}

/// How the samples of one batch are mixed. Sample `i` becomes `lam[i]` of itself and the rest of sample
/// `partner[i]`; if it has a box, the pixels in the box are the partner's, and all others its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixing {
    partner: Vec<i64>,
    lam: Vec<f32>,
    boxes: Vec<[i64; 4]>,
}

/// Share of a sample's own, and the box that is not.
type Share = (f32, [i64; 4]);

const NO_BOX: [i64; 4] = [0; 4];

// === impl MixPlan ===

impl MixPlan {
    /// How the batch of a key is mixed. By timm's rule, the middle sample of an odd number is
    /// mixed with itself, and does not change.
    #[must_use]
    pub fn mixing(&self, key: MaskKey, samples: u32) -> Mixing {
        let MaskKey { seed, epoch, step, rank } = key;
        let stream = DrawKey::MIXING;
        let mut rng = DrawKey { seed, epoch, pass: rank, sample: SampleId(step), stream }.rng();
        let count = samples as usize;
        let shares: Vec<Share> = match self.spec.mode {
            MixMode::Batch => vec![self.share(&mut rng); count],
            MixMode::Elem => (0..count).map(|_| self.share(&mut rng)).collect(),
            MixMode::Pair => {
                let half = count.div_ceil(2);
                let half: Vec<Share> = (0..half).map(|_| self.share(&mut rng)).collect();
                (0..count).map(|sample| half[sample.min(count - 1 - sample)]).collect()
            }
        };
        let last = i64::from(samples) - 1;
        let partner = |sample: i64| match self.spec.style {
            MixStyle::Torchvision if sample == 0 => last,
            MixStyle::Torchvision => sample - 1,
            MixStyle::Timm => last - sample,
        };
        let (lam, boxes) = shares.into_iter().unzip();
        Mixing { partner: (0..=last).map(partner).collect(), lam, boxes }
    }

    /// Draws whether, which, how much and where, in timm's order.
    fn share(&self, rng: &mut DrawRng) -> Share {
        let MixSpec { prob, switch_prob, mixup_alpha, cutmix_alpha, .. } = self.spec;
        if !rng.gate(prob) {
            return (1.0, NO_BOX);
        }
        let has_cutmix = cutmix_alpha > 0.0 || self.spec.cutmix_minmax.is_some();
        let cuts = has_cutmix && (mixup_alpha == 0.0 || rng.gate(switch_prob));
        if !cuts {
            return (gamma::beta(mixup_alpha, rng) as f32, NO_BOX);
        }
        let (height, width) = (i64::from(self.height), i64::from(self.width));
        let cut = match self.spec.cutmix_minmax {
            Some(minmax) => box_of_sides(minmax, (height, width), rng),
            None => {
                let lam = gamma::beta(cutmix_alpha, rng);
                match self.spec.style {
                    MixStyle::Timm => timm_box(lam, (height, width), rng),
                    MixStyle::Torchvision => torchvision_box(lam, (height, width), rng),
                }
            }
        };
        let area = (cut[1] - cut[0]) * (cut[3] - cut[2]);
        ((1.0 - area as f64 / (height * width) as f64) as f32, cut)
    }
}

/// timm's `rand_bbox`.
fn timm_box(lam: f64, (height, width): (i64, i64), rng: &mut DrawRng) -> [i64; 4] {
    let ratio = (1.0 - lam).sqrt();
    let mut along = |side: i64| {
        let cut = (side as f64 * ratio) as i64;
        let centre = rng.below(side as u64) as i64;
        [(centre - cut / 2).clamp(0, side), (centre + cut / 2).clamp(0, side)]
    };
    let ([top, bottom], [left, right]) = (along(height), along(width));
    [top, bottom, left, right]
}

/// timm's `rand_bbox_minmax`.
fn box_of_sides(minmax: [f64; 2], (height, width): (i64, i64), rng: &mut DrawRng) -> [i64; 4] {
    let mut cut = |side: i64| {
        let bounds = minmax.map(|share| (side as f64 * share) as i64);
        let cut = bounds[0] + rng.below((bounds[1] - bounds[0]).max(1) as u64) as i64;
        cut.min(side)
    };
    let (cut_height, cut_width) = (cut(height), cut(width));
    let mut place = |side: i64, cut: i64| rng.below((side - cut).max(1) as u64) as i64;
    let (top, left) = (place(height, cut_height), place(width, cut_width));
    [top, top + cut_height, left, left + cut_width]
}

/// torchvision's `CutMix.make_params`.
fn torchvision_box(lam: f64, (height, width): (i64, i64), rng: &mut DrawRng) -> [i64; 4] {
    let (x, y) = (rng.below(width as u64) as i64, rng.below(height as u64) as i64);
    let reach = 0.5 * (1.0 - lam).sqrt();
    let along = |centre: i64, side: i64| {
        let half = (reach * side as f64) as i64;
        [(centre - half).max(0), (centre + half).min(side)]
    };
    let ([left, right], [top, bottom]) = (along(x, width), along(y, height));
    [top, bottom, left, right]
}

// === impl Mixing ===

impl Mixing {
    /// `i64[samples]`: the sample that each is mixed with.
    #[must_use]
    pub fn partner(&self) -> &[i64] {
        &self.partner
    }

    /// `f32[samples]`: the share of each that is its own, of its pixels and of its label.
    #[must_use]
    pub fn lam(&self) -> &[f32] {
        &self.lam
    }

    /// `i64[samples, 4]`: first row, one past the last, first column, one past the last of the box that is the
    /// partner's. Zeros where the whole sample is mixed.
    #[must_use]
    pub fn boxes(&self) -> &[[i64; 4]] {
        &self.boxes
    }
}

#[cfg(test)]
mod tests;
