//! What a policy chooses for a view.
//!
//! Sources: torchvision `transforms/autoaugment.py` with Pillow images; timm `data/auto_augment.py`.

use super::layers::{Augment, Layer, Layers};
use super::{AutoAugment, AutoPolicy, RandAugment, TimmRandAugment, TrivialAugmentWide};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::op::{
    AffineWarp, AutoContrasted, DrawnOp, Enhanced, Equalized, Inverted, JitterStep, Posterized,
    Sharpened, Solarized, SolarizedAdd, warp,
};
use crate::recipe::Interpolation;

use Augment::{
    AutoContrast, Brightness, Color, Contrast, Equalize, Identity, Invert, Posterize, Rotate,
    Sharpness, ShearX, ShearY, Solarize, SolarizeAdd, TranslateX, TranslateY,
};

/// The library whose arithmetic turns a value into a change of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Torchvision,
    Timm,
}

/// torchvision's choices, in its order; `AutoAugment` also has [`Invert`].
pub(super) const SPACE: [Augment; 14] = [
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
];

/// timm's choices, in its order.
pub(super) const TIMM_SPACE: [Augment; 15] = [
    AutoContrast,
    Equalize,
    Invert,
    Rotate,
    Posterize,
    Solarize,
    SolarizeAdd,
    Color,
    Contrast,
    Brightness,
    Sharpness,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
];

/// The choices of timm's AugMix, in its order.
pub(super) const AUGMIX_SPACE: [Augment; 13] = [
    AutoContrast,
    Color,
    Contrast,
    Brightness,
    Sharpness,
    Equalize,
    Rotate,
    Posterize,
    Solarize,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
];

/// Magnitudes of torchvision's `AutoAugment`.
const AUTO_BINS: u32 = 10;
/// timm's levels are tenths of this.
const LEVEL_MAX: f64 = TimmRandAugment::MAGNITUDE_MAX;
/// Share of a side that timm's RandAugment translates by at most.
const TIMM_TRANSLATE: f64 = 0.45;
/// The same of AugMix, as `create_transform` of timm sets it (`translate_pct`).
pub(super) const AUGMIX_TRANSLATE: f64 = 0.3;

/// The greatest magnitudes of torchvision's operations.
pub(super) struct Strength {
    shear: f32,
    /// Of the columns, and of the rows, in pixels.
    translate: [f32; 2],
    rotate: f32,
    enhance: f32,
    /// Bits that posterising takes away at most.
    posterize: f32,
}

/// A pair of operations: each with its probability and the number of its magnitude.
type AutoPair = [(Augment, f64, u32); 2];

// === impl RandAugment ===

impl RandAugment {
    /// The operations for a view of size `view`.
    pub fn layers(&self, view: Extent, rng: &mut DrawRng) -> Layers {
        let strength = Strength::of_view(view);
        let layer = |_| {
            let augment = SPACE[rng.below(SPACE.len() as u64) as usize];
            let value = strength.value(augment, self.magnitude, self.num_magnitude_bins);
            Layer { augment, value: signed(augment, value, rng), level: 0.0 }
        };
        (0..self.num_ops).map(layer).collect()
    }
}

// === impl TrivialAugmentWide ===

impl TrivialAugmentWide {
    /// The operation for a view.
    pub fn layers(&self, rng: &mut DrawRng) -> Layers {
        let augment = SPACE[rng.below(SPACE.len() as u64) as usize];
        let bin = rng.below(self.num_magnitude_bins.into()) as u32;
        let value = Strength::WIDE.value(augment, bin, self.num_magnitude_bins);
        let value = signed(augment, value, rng);
        Layers::from_iter([Layer { augment, value, level: 0.0 }])
    }
}

// === impl AutoAugment ===

impl AutoAugment {
    /// The operations for a view of size `view`.
    pub fn layers(&self, view: Extent, rng: &mut DrawRng) -> Layers {
        let strength = Strength::of_view(view);
        let pairs = self.policy.pairs();
        let pair = &pairs[rng.below(pairs.len() as u64) as usize];
        let layer = |&(augment, p, bin): &(Augment, f64, u32)| {
            rng.gate(p).then(|| {
                let value = strength.value(augment, bin, AUTO_BINS);
                Layer { augment, value: signed(augment, value, rng), level: 0.0 }
            })
        };
        pair.iter().filter_map(layer).collect()
    }
}

// === impl TimmRandAugment ===

impl TimmRandAugment {
    /// The operations for a view.
    pub fn layers(&self, rng: &mut DrawRng) -> Layers {
        let layer = |_| {
            let augment = TIMM_SPACE[rng.below(TIMM_SPACE.len() as u64) as usize];
            rng.gate(self.p).then(|| {
                let level = if self.magnitude_std > 0.0 {
                    self.magnitude + self.magnitude_std * rng.normal()
                } else {
                    self.magnitude
                };
                let level = level.clamp(0.0, LEVEL_MAX);
                let value = timm_value(augment, level, TIMM_TRANSLATE, self.increasing, rng);
                Layer { augment, value, level }
            })
        };
        (0..self.num_ops).filter_map(layer).collect()
    }
}

/// timm's `LEVEL_TO_ARG`. `translate`: the share of a side that it translates by at most.
pub(super) fn timm_value(
    augment: Augment,
    level: f64,
    translate: f64,
    increasing: bool,
    rng: &mut DrawRng,
) -> f64 {
    let share = level / LEVEL_MAX;
    let mut either = |value: f64| if rng.gate(0.5) { -value } else { value };
    match augment {
        Rotate => either(share * 30.0),
        ShearX | ShearY => either(share * 0.3),
        TranslateX | TranslateY => either(share * translate),
        Color | Contrast | Brightness | Sharpness if increasing => {
            (1.0 + either(share * 0.9)).max(0.1)
        }
        Color | Contrast | Brightness | Sharpness => share * 1.8 + 0.1,
        Posterize if increasing => 4.0 - (share * 4.0).trunc(),
        Posterize => (share * 4.0).trunc(),
        Solarize if increasing => 256.0 - (share * 256.0).trunc(),
        Solarize => (share * 256.0).trunc(),
        SolarizeAdd => (share * 110.0).trunc(),
        Identity | AutoContrast | Equalize | Invert => 0.0,
    }
}

// === impl Strength ===

impl Strength {
    pub(super) const WIDE: Self =
        Self { shear: 0.99, translate: [32.0; 2], rotate: 135.0, enhance: 0.99, posterize: 6.0 };

    pub(super) fn of_view(view: Extent) -> Self {
        let most = |side: u32| (150.0 / 331.0 * f64::from(side)) as f32;
        let translate = [most(view.width), most(view.height)];
        Self { shear: 0.3, translate, rotate: 30.0, enhance: 0.9, posterize: 4.0 }
    }

    /// The magnitude of a number, without its sign.
    pub(super) fn value(&self, augment: Augment, bin: u32, bins: u32) -> f64 {
        let upwards = |most| f64::from(linspace(0.0, most, bin, bins));
        match augment {
            ShearX | ShearY => upwards(self.shear),
            TranslateX => upwards(self.translate[0]),
            TranslateY => upwards(self.translate[1]),
            Rotate => upwards(self.rotate),
            Brightness | Color | Contrast | Sharpness => upwards(self.enhance),
            Posterize => {
                let step = (f64::from(bins - 1) / f64::from(self.posterize)) as f32;
                f64::from(8.0 - (bin as f32 / step).round_ties_even())
            }
            Solarize => f64::from(linspace(255.0, 0.0, bin, bins)),
            Identity | AutoContrast | Equalize | Invert | SolarizeAdd => 0.0,
        }
    }
}

/// `torch.linspace(start, end, steps)[index]` in binary32.
fn linspace(start: f32, end: f32, index: u32, steps: u32) -> f32 {
    let step = (end - start) / (steps - 1) as f32;
    if index < steps / 2 {
        step.mul_add(index as f32, start)
    } else {
        step.mul_add(-((steps - index - 1) as f32), end)
    }
}

/// The value or its opposite, if the operation has both signs.
fn signed(augment: Augment, value: f64, rng: &mut DrawRng) -> f64 {
    let has_sign = matches!(
        augment,
        ShearX
            | ShearY
            | TranslateX
            | TranslateY
            | Rotate
            | Brightness
            | Color
            | Contrast
            | Sharpness
    );
    if has_sign && rng.gate(0.5) { -value } else { value }
}

// === impl Layer ===

impl Layer {
    pub(super) fn draw_all(
        layers: &[Self],
        style: Style,
        view: Extent,
        (interpolation, fill): (Interpolation, [u8; 3]),
        rng: &mut DrawRng,
        to: &mut Vec<DrawnOp>,
    ) {
        for layer in layers {
            // Drawn for each layer, so that the number of draws does not depend on the choice.
            let filter = interpolation.draw(rng);
            let matrix = layer.matrix(style, view);
            let moved = matrix.map(|matrix| AffineWarp { matrix, filter, fill }.into());
            to.extend(moved.or_else(|| layer.recolour(style)));
        }
    }

    /// Where each pixel comes from, if pixels are moved.
    pub(super) fn matrix(&self, style: Style, view: Extent) -> Option<[f64; 6]> {
        let Self { augment, value, .. } = *self;
        let (width, height) = (f64::from(view.width), f64::from(view.height));
        let shear = |value: f64| libm::atan(value).to_degrees();
        Some(match (augment, style) {
            (Rotate, _) => return Some(warp::rotation(value, view)),
            (ShearX, Style::Timm) => [1.0, value, 0.0, 0.0, 1.0, 0.0],
            (ShearY, Style::Timm) => [1.0, 0.0, 0.0, value, 1.0, 0.0],
            (TranslateX, Style::Timm) => [1.0, 0.0, value * width, 0.0, 1.0, 0.0],
            (TranslateY, Style::Timm) => [1.0, 0.0, 0.0, 0.0, 1.0, value * height],
            (ShearX, _) => warp::inverse([0.0; 2], 0.0, [0.0; 2], 1.0, [shear(value), 0.0]),
            (ShearY, _) => warp::inverse([0.0; 2], 0.0, [0.0; 2], 1.0, [0.0, shear(value)]),
            (TranslateX, _) => {
                let centre = [width * 0.5, height * 0.5];
                warp::inverse(centre, 0.0, [value.trunc(), 0.0], 1.0, [0.0; 2])
            }
            (TranslateY, _) => {
                let centre = [width * 0.5, height * 0.5];
                warp::inverse(centre, 0.0, [0.0, value.trunc()], 1.0, [0.0; 2])
            }
            _ => return None,
        })
    }

    /// What is done to levels, if anything is.
    fn recolour(&self, style: Style) -> Option<DrawnOp> {
        let Self { augment, value, .. } = *self;
        let factor = match style {
            Style::Torchvision => 1.0 + value,
            Style::Timm => value,
        } as f32;
        Some(match augment {
            Brightness => Enhanced { step: JitterStep::Brightness, factor }.into(),
            Color => Enhanced { step: JitterStep::Saturation, factor }.into(),
            Contrast => Enhanced { step: JitterStep::Contrast, factor }.into(),
            Sharpness => Sharpened { factor }.into(),
            // Bits that stay; all of them change nothing.
            Posterize if value >= 8.0 => return None,
            Posterize => Posterized { bits: value as u8 }.into(),
            // Levels are whole: one that is not below a threshold is not below the next level.
            Solarize if value > 255.0 => return None,
            Solarize => Solarized { threshold: value.ceil() as u8 }.into(),
            SolarizeAdd => SolarizedAdd { add: value as u8, threshold: 128 }.into(),
            AutoContrast => AutoContrasted.into(),
            Equalize => Equalized.into(),
            Invert => Inverted.into(),
            _ => return None,
        })
    }
}

// === impl AutoPolicy ===

impl AutoPolicy {
    /// torchvision's `_get_policies`. Operations without a magnitude have number 0.
    fn pairs(self) -> &'static [AutoPair; 25] {
        match self {
            Self::Imagenet => &IMAGENET,
            Self::Cifar10 => &CIFAR10,
            Self::Svhn => &SVHN,
        }
    }
}

const IMAGENET: [AutoPair; 25] = [
    [(Posterize, 0.4, 8), (Rotate, 0.6, 9)],
    [(Solarize, 0.6, 5), (AutoContrast, 0.6, 0)],
    [(Equalize, 0.8, 0), (Equalize, 0.6, 0)],
    [(Posterize, 0.6, 7), (Posterize, 0.6, 6)],
    [(Equalize, 0.4, 0), (Solarize, 0.2, 4)],
    [(Equalize, 0.4, 0), (Rotate, 0.8, 8)],
    [(Solarize, 0.6, 3), (Equalize, 0.6, 0)],
    [(Posterize, 0.8, 5), (Equalize, 1.0, 0)],
    [(Rotate, 0.2, 3), (Solarize, 0.6, 8)],
    [(Equalize, 0.6, 0), (Posterize, 0.4, 6)],
    [(Rotate, 0.8, 8), (Color, 0.4, 0)],
    [(Rotate, 0.4, 9), (Equalize, 0.6, 0)],
    [(Equalize, 0.0, 0), (Equalize, 0.8, 0)],
    [(Invert, 0.6, 0), (Equalize, 1.0, 0)],
    [(Color, 0.6, 4), (Contrast, 1.0, 8)],
    [(Rotate, 0.8, 8), (Color, 1.0, 2)],
    [(Color, 0.8, 8), (Solarize, 0.8, 7)],
    [(Sharpness, 0.4, 7), (Invert, 0.6, 0)],
    [(ShearX, 0.6, 5), (Equalize, 1.0, 0)],
    [(Color, 0.4, 0), (Equalize, 0.6, 0)],
    [(Equalize, 0.4, 0), (Solarize, 0.2, 4)],
    [(Solarize, 0.6, 5), (AutoContrast, 0.6, 0)],
    [(Invert, 0.6, 0), (Equalize, 1.0, 0)],
    [(Color, 0.6, 4), (Contrast, 1.0, 8)],
    [(Equalize, 0.8, 0), (Equalize, 0.6, 0)],
];

const CIFAR10: [AutoPair; 25] = [
    [(Invert, 0.1, 0), (Contrast, 0.2, 6)],
    [(Rotate, 0.7, 2), (TranslateX, 0.3, 9)],
    [(Sharpness, 0.8, 1), (Sharpness, 0.9, 3)],
    [(ShearY, 0.5, 8), (TranslateY, 0.7, 9)],
    [(AutoContrast, 0.5, 0), (Equalize, 0.9, 0)],
    [(ShearY, 0.2, 7), (Posterize, 0.3, 7)],
    [(Color, 0.4, 3), (Brightness, 0.6, 7)],
    [(Sharpness, 0.3, 9), (Brightness, 0.7, 9)],
    [(Equalize, 0.6, 0), (Equalize, 0.5, 0)],
    [(Contrast, 0.6, 7), (Sharpness, 0.6, 5)],
    [(Color, 0.7, 7), (TranslateX, 0.5, 8)],
    [(Equalize, 0.3, 0), (AutoContrast, 0.4, 0)],
    [(TranslateY, 0.4, 3), (Sharpness, 0.2, 6)],
    [(Brightness, 0.9, 6), (Color, 0.2, 8)],
    [(Solarize, 0.5, 2), (Invert, 0.0, 0)],
    [(Equalize, 0.2, 0), (AutoContrast, 0.6, 0)],
    [(Equalize, 0.2, 0), (Equalize, 0.6, 0)],
    [(Color, 0.9, 9), (Equalize, 0.6, 0)],
    [(AutoContrast, 0.8, 0), (Solarize, 0.2, 8)],
    [(Brightness, 0.1, 3), (Color, 0.7, 0)],
    [(Solarize, 0.4, 5), (AutoContrast, 0.9, 0)],
    [(TranslateY, 0.9, 9), (TranslateY, 0.7, 9)],
    [(AutoContrast, 0.9, 0), (Solarize, 0.8, 3)],
    [(Equalize, 0.8, 0), (Invert, 0.1, 0)],
    [(TranslateY, 0.7, 9), (AutoContrast, 0.9, 0)],
];

const SVHN: [AutoPair; 25] = [
    [(ShearX, 0.9, 4), (Invert, 0.2, 0)],
    [(ShearY, 0.9, 8), (Invert, 0.7, 0)],
    [(Equalize, 0.6, 0), (Solarize, 0.6, 6)],
    [(Invert, 0.9, 0), (Equalize, 0.6, 0)],
    [(Equalize, 0.6, 0), (Rotate, 0.9, 3)],
    [(ShearX, 0.9, 4), (AutoContrast, 0.8, 0)],
    [(ShearY, 0.9, 8), (Invert, 0.4, 0)],
    [(ShearY, 0.9, 5), (Solarize, 0.2, 6)],
    [(Invert, 0.9, 0), (AutoContrast, 0.8, 0)],
    [(Equalize, 0.6, 0), (Rotate, 0.9, 3)],
    [(ShearX, 0.9, 4), (Solarize, 0.3, 3)],
    [(ShearY, 0.8, 8), (Invert, 0.7, 0)],
    [(Equalize, 0.9, 0), (TranslateY, 0.6, 6)],
    [(Invert, 0.9, 0), (Equalize, 0.6, 0)],
    [(Contrast, 0.3, 3), (Rotate, 0.8, 4)],
    [(Invert, 0.8, 0), (TranslateY, 0.0, 2)],
    [(ShearY, 0.7, 6), (Solarize, 0.4, 8)],
    [(Invert, 0.6, 0), (Rotate, 0.8, 4)],
    [(ShearY, 0.3, 7), (TranslateX, 0.9, 3)],
    [(ShearX, 0.1, 6), (Invert, 0.6, 0)],
    [(Solarize, 0.7, 2), (TranslateY, 0.6, 7)],
    [(ShearY, 0.8, 4), (Invert, 0.8, 0)],
    [(ShearX, 0.7, 9), (TranslateY, 0.8, 3)],
    [(ShearY, 0.8, 5), (AutoContrast, 0.7, 0)],
    [(ShearX, 0.7, 2), (Invert, 0.1, 0)],
];
