//! The values of the operations after the crop.
//!
//! Source: torchvision `transforms.{RandomHorizontalFlip, RandomApply, ColorJitter,
//! RandomGrayscale, GaussianBlur, RandomSolarize}`.

use super::key::DrawRng;
use super::params::{DrawnOp, JitterStep};
use crate::recipe::{FunctionId, OpSpec};

/// The operation with its values, or nothing where its gate stays shut.
pub(super) fn draw(op: &OpSpec, rng: &mut DrawRng) -> Option<DrawnOp> {
    match *op {
        OpSpec::Flip { p } => rng.gate(p).then_some(DrawnOp::Flip),
        OpSpec::ColorJitter { p, brightness, contrast, saturation, hue } => {
            rng.gate(p).then(|| {
                let order = permutation(rng);
                let mut value = |range: [f64; 2]| rng.uniform(range[0], range[1]) as f32;
                DrawnOp::ColorJitter {
                    order,
                    brightness: value(brightness),
                    contrast: value(contrast),
                    saturation: value(saturation),
                    hue: value(hue),
                }
            })
        }
        OpSpec::Grayscale { p } => rng.gate(p).then_some(DrawnOp::Grayscale),
        OpSpec::GaussianBlur { p, sigma } => rng
            .gate(p)
            .then(|| DrawnOp::GaussianBlur { sigma: rng.uniform(sigma[0], sigma[1]) as f32 }),
        OpSpec::Solarize { p, threshold } => rng.gate(p).then_some(DrawnOp::Solarize { threshold }),
        OpSpec::Python { p, ref function, .. } => rng.gate(p).then(|| DrawnOp::Python {
            function: FunctionId::of(function),
            seed: [rng.word(), rng.word()],
        }),
    }
}

/// All 24 orders alike (Fisher and Yates).
fn permutation(rng: &mut DrawRng) -> [JitterStep; 4] {
    let mut order = JitterStep::ALL;
    for last in (1..order.len()).rev() {
        let chosen = rng.below(last as u64 + 1) as usize;
        order.swap(last, chosen);
    }
    order
}

// === impl JitterStep ===

impl JitterStep {
    /// The four adjustments in the order of torchvision's `fn_idx`.
    pub const ALL: [Self; 4] = [Self::Brightness, Self::Contrast, Self::Saturation, Self::Hue];
}
