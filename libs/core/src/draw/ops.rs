//! The values of the operations after the crop.
//!
//! Source: torchvision `transforms.{RandomHorizontalFlip, RandomApply, ColorJitter,
//! RandomGrayscale, GaussianBlur, RandomSolarize, RandomRotation, RandomAffine, RandomPerspective,
//! RandomErasing}`.

use super::key::DrawRng;
use super::params::{DrawnOp, Jitter, JitterStep};
use super::{erase, warp};
use crate::geometry::Extent;
use crate::recipe::{FunctionId, OpSpec};

/// Appends the operation with its values, or nothing if its probability decides against it. A
/// policy appends as many operations as it chooses. `view` is the size of the image that they
/// change.
pub(super) fn draw(op: &OpSpec, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
    match op {
        OpSpec::RandAugment(policy) => policy.draw(view, rng, to),
        OpSpec::TrivialAugmentWide(policy) => policy.draw(view, rng, to),
        OpSpec::AutoAugment(policy) => policy.draw(view, rng, to),
        OpSpec::TimmRandAugment(policy) => policy.draw(view, rng, to),
        OpSpec::TimmAugMix(policy) => policy.draw(view, rng, to),
        op => to.extend(one(op, view, rng)),
    }
}

fn one(op: &OpSpec, view: Extent, rng: &mut DrawRng) -> Option<DrawnOp> {
    if !rng.gate(op.probability()) {
        return None;
    }
    let mut value = |range: [f64; 2]| rng.uniform(range[0], range[1]) as f32;
    Some(match *op {
        OpSpec::Flip { .. } => DrawnOp::Flip,
        OpSpec::ColorJitter { brightness, contrast, saturation, hue, .. } => {
            let order = permutation(rng);
            // One number for each, whether it is used or not.
            let mut factor = |range: [f64; 2], neutral: f64| {
                let value = rng.uniform(range[0], range[1]) as f32;
                (range != [neutral; 2]).then_some(value)
            };
            DrawnOp::ColorJitter(Jitter {
                order,
                brightness: factor(brightness, 1.0),
                contrast: factor(contrast, 1.0),
                saturation: factor(saturation, 1.0),
                hue: factor(hue, 0.0),
            })
        }
        OpSpec::Grayscale { .. } => DrawnOp::Grayscale,
        OpSpec::GaussianBlur { sigma, .. } => DrawnOp::GaussianBlur { sigma: value(sigma) },
        OpSpec::Solarize { threshold, .. } => DrawnOp::Solarize { threshold },
        OpSpec::Invert { .. } => DrawnOp::Invert,
        OpSpec::Posterize { bits, .. } => DrawnOp::Posterize { bits },
        OpSpec::Equalize { .. } => DrawnOp::Equalize,
        OpSpec::AutoContrast { .. } => DrawnOp::AutoContrast,
        OpSpec::Sharpness { factor, .. } => DrawnOp::Sharpness { factor: value(factor) },
        OpSpec::PilBlur { radius, .. } => DrawnOp::PilBlur { radius: value(radius) },
        OpSpec::GaussianNoise { mean, sigma, .. } => {
            DrawnOp::GaussianNoise { mean, sigma, seed: [rng.word(), rng.word()] }
        }
        OpSpec::Rotation { degrees, interpolation, fill, .. } => {
            let matrix = warp::rotation(rng.uniform(degrees[0], degrees[1]), view);
            warp::affine(matrix, interpolation.draw(rng), fill)
        }
        OpSpec::Affine { degrees, translate, scale, shear, interpolation, fill, .. } => {
            let mut value = |range: [f64; 2]| rng.uniform(range[0], range[1]);
            let degrees = value(degrees);
            let sides = [f64::from(view.width), f64::from(view.height)];
            let far = [translate[0] * sides[0], translate[1] * sides[1]];
            let translate = far.map(|far| value([-far, far]).round_ties_even());
            let (scale, shear) = (value(scale), shear.map(&mut value));
            let centre = sides.map(|side| side * 0.5);
            let matrix = warp::inverse(centre, degrees, translate, scale, shear);
            warp::affine(matrix, interpolation.draw(rng), fill)
        }
        OpSpec::Perspective { distortion_scale, interpolation, fill, .. } => {
            let ends = warp::corners(distortion_scale, view, rng);
            let coefficients = warp::perspective(view, &ends);
            DrawnOp::Perspective { coefficients, filter: interpolation.draw(rng), fill }
        }
        OpSpec::Erase { scale, ratio, mode, .. } => {
            return erase::draw(scale, ratio, mode, view, rng);
        }
        OpSpec::Python { ref function, .. } => {
            DrawnOp::Python { function: FunctionId::of(function), seed: [rng.word(), rng.word()] }
        }
        OpSpec::RandAugment(_)
        | OpSpec::TrivialAugmentWide(_)
        | OpSpec::AutoAugment(_)
        | OpSpec::TimmRandAugment(_)
        | OpSpec::TimmAugMix(_) => return None,
    })
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
