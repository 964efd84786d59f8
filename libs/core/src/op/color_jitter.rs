//! Colour jitter: torchvision's `ColorJitter`, and its adjustments by themselves, as policies have them.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach, rules};
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

/// torchvision's `ColorJitter` in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColorJitter {
    /// Probability.
    pub p: f64,
    /// Minimum and maximum brightness factor.
    pub brightness: [f64; 2],
    /// Minimum and maximum contrast factor.
    pub contrast: [f64; 2],
    /// Minimum and maximum saturation factor.
    pub saturation: [f64; 2],
    /// Minimum and maximum hue shift, in turns, within [-0.5, 0.5].
    pub hue: [f64; 2],
}

/// The order in which the four adjustments of a colour jitter are applied, and their factors. An adjustment whose
/// range is neutral has none and is left out, as in torchvision: a hue shift of 0 changes pixels, too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jitter {
    /// A permutation of the four adjustments.
    pub order: [JitterStep; 4],
    /// Brightness factor.
    pub brightness: Option<f32>,
    /// Contrast factor.
    pub contrast: Option<f32>,
    /// Saturation factor.
    pub saturation: Option<f32>,
    /// Hue shift in turns.
    pub hue: Option<f32>,
}

/// One of the three adjustments that blend, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Enhanced {
    /// Which one; never [`JitterStep::Hue`].
    pub step: JitterStep,
    /// Its factor.
    pub factor: f32,
}

/// One adjustment of colour jitter; the numbers are torchvision's `fn_idx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JitterStep {
    /// `fn_idx` 0.
    Brightness,
    /// `fn_idx` 1.
    Contrast,
    /// `fn_idx` 2.
    Saturation,
    /// `fn_idx` 3.
    Hue,
}

// === impl ColorJitter ===

impl Operation for ColorJitter {
    fn example() -> Self {
        let about_one = |by: f64| [1.0 - by, 1.0 + by];
        Self {
            p: 1.0,
            brightness: about_one(0.4),
            contrast: about_one(0.4),
            saturation: about_one(0.2),
            hue: [-0.1, 0.1],
        }
    }

    fn reach(&self) -> Reach {
        Reach::Colours
    }

    fn has_kernel(&self) -> bool {
        true
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        rules::range(format!("{at}.brightness"), self.brightness, [0.0, 10.0])?;
        rules::range(format!("{at}.contrast"), self.contrast, [0.0, 10.0])?;
        rules::range(format!("{at}.saturation"), self.saturation, [0.0, 10.0])?;
        rules::range(format!("{at}.hue"), self.hue, [-0.5, 0.5])
    }

    fn draw(&self, _view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let order = permutation(rng);
        // One number for each, whether it is used or not.
        let mut factor = |range: [f64; 2], neutral: f64| {
            let value = rng.uniform(range[0], range[1]) as f32;
            (range != [neutral; 2]).then_some(value)
        };
        let jitter = Jitter {
            order,
            brightness: factor(self.brightness, 1.0),
            contrast: factor(self.contrast, 1.0),
            saturation: factor(self.saturation, 1.0),
            hue: factor(self.hue, 0.0),
        };
        to.push(jitter.into());
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

// === impl Jitter ===

impl Jitter {
    /// The adjustments that are applied, in order, with their factors.
    pub fn steps(self) -> impl Iterator<Item = (JitterStep, f32)> {
        self.order.into_iter().filter_map(move |step| {
            let factor = match step {
                JitterStep::Brightness => self.brightness,
                JitterStep::Contrast => self.contrast,
                JitterStep::Saturation => self.saturation,
                JitterStep::Hue => self.hue,
            };
            Some((step, factor?))
        })
    }
}

impl Drawn for Jitter {
    fn text(&self) -> String {
        let step = |(step, by): (JitterStep, f32)| match step {
            JitterStep::Hue => format!("hue {by:+.3}"),
            step => format!("{} {by:.3}", step.name()),
        };
        let steps: Vec<String> = self.steps().map(step).collect();
        format!("jitter ({})", steps.join(", "))
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}

// === impl Enhanced ===

impl Drawn for Enhanced {
    fn text(&self) -> String {
        format!("{} {:.3}", self.step.name(), self.factor)
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}

// === impl JitterStep ===

impl JitterStep {
    /// The four adjustments in the order of torchvision's `fn_idx`.
    pub const ALL: [Self; 4] = [Self::Brightness, Self::Contrast, Self::Saturation, Self::Hue];

    fn name(self) -> &'static str {
        match self {
            Self::Brightness => "brightness",
            Self::Contrast => "contrast",
            Self::Saturation => "saturation",
            Self::Hue => "hue",
        }
    }
}
