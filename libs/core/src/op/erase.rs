//! Erased boxes.
//!
//! Sources: torchvision `transforms.RandomErasing.get_params`; timm `data/random_erasing.py`, which draws alike.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules};
use crate::draw::DrawRng;
use crate::geometry::{CropBox, Extent};
use crate::recipe::RecipeError;

/// Tries before nothing is erased.
const TRIES: usize = 10;

/// `RandomErasing` of torchvision and timm: a box of the normalised view. Comes after all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erase {
    /// Probability.
    pub p: f64,
    /// Minimum and maximum share of the view's area.
    #[serde(default = "scale")]
    pub scale: [f64; 2],
    /// Minimum and maximum height / width.
    #[serde(default = "ratio")]
    pub ratio: [f64; 2],
    /// What is put there.
    #[serde(default)]
    pub mode: EraseMode,
}

/// What takes the place of erased pixels, in units of the normalised tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraseMode {
    /// 0: torchvision's `value = 0`, timm's `const`.
    #[default]
    Zero,
    /// A colour of the normal distribution: timm's `rand`.
    Color,
    /// Noise of the normal distribution for each value: torchvision's `value = "random"`, timm's `pixel`.
    Noise,
}

/// Erases a box after the view has been normalised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Erased {
    /// The box.
    pub area: CropBox,
    /// What is put there.
    pub with: EraseWith,
}

/// What is put in the place of erased pixels, in units of the normalised tensor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraseWith {
    /// 0 in all channels.
    Zero,
    /// A colour (R, G, B).
    Color([f32; 3]),
    /// Normal noise for each value, from this seed.
    Noise([u64; 2]),
}

fn scale() -> [f64; 2] {
    [0.02, 0.33]
}

fn ratio() -> [f64; 2] {
    [0.3, 3.3]
}

// === impl Erase ===

impl Operation for Erase {
    fn example() -> Self {
        Self { p: 1.0, scale: scale(), ratio: ratio(), mode: EraseMode::Zero }
    }

    fn reach(&self) -> Reach {
        Reach::Normalised
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        rules::range(format!("{at}.scale"), self.scale, [0.0, 1.0])?;
        rules::range(format!("{at}.ratio"), self.ratio, [1e-3, 1e3])
    }

    /// A box, if one fits.
    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let Self { scale, ratio, mode, .. } = *self;
        let area = f64::from(view.width) * f64::from(view.height);
        let log_ratio = ratio.map(libm::log);
        for _ in 0..TRIES {
            let erased = area * rng.uniform(scale[0], scale[1]);
            // Rows by columns.
            let aspect = libm::exp(rng.uniform(log_ratio[0], log_ratio[1]));
            let height = (erased * aspect).sqrt().round_ties_even();
            let width = (erased / aspect).sqrt().round_ties_even();
            if height < f64::from(view.height) && width < f64::from(view.width) {
                let (width, height) = (width as u32, height as u32);
                let top = rng.below(u64::from(view.height - height) + 1) as u32;
                let left = rng.below(u64::from(view.width - width) + 1) as u32;
                let with = match mode {
                    EraseMode::Zero => EraseWith::Zero,
                    EraseMode::Color => EraseWith::Color([(); 3].map(|()| rng.normal() as f32)),
                    EraseMode::Noise => EraseWith::Noise([rng.word(), rng.word()]),
                };
                to.push(Erased { area: CropBox { left, top, width, height }, with }.into());
                return;
            }
        }
    }
}

// === impl Erased ===

impl Drawn for Erased {
    fn text(&self) -> String {
        let with = match self.with {
            EraseWith::Zero => "zero",
            EraseWith::Color(_) => "a colour",
            EraseWith::Noise(_) => "noise",
        };
        let CropBox { left, top, width, height } = self.area;
        format!("erase {width}x{height} at ({left}, {top}) with {with}")
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}
