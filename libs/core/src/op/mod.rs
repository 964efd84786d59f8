//! The operations of a recipe: what each is asked for with, what of it is drawn, and what else must be known of it.
//! One file each, and one line in each table here. What it does to pixels is in libs/pixels.

#[macro_use]
mod tables;

mod affine;
mod auto_contrast;
mod color_jitter;
mod equalize;
mod erase;
mod flip;
mod gaussian_blur;
mod gaussian_noise;
mod grayscale;
mod invert;
mod perspective;
mod pil_blur;
mod policy;
mod posterize;
mod python;
mod rotation;
mod rules;
mod sharpness;
mod sines;
mod solarize;
#[cfg(test)]
mod tests;
mod vertical_flip;
mod warp;

use serde::{Deserialize, Serialize};

use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::RecipeError;

pub use affine::{Affine, AffineWarp};
pub use auto_contrast::{AutoContrast, AutoContrasted};
pub use color_jitter::{ColorJitter, Enhanced, Jitter, JitterStep};
pub use equalize::{Equalize, Equalized};
pub use erase::{Erase, EraseMode, EraseWith, Erased};
pub use flip::{Flip, Flipped, split_flip};
pub use gaussian_blur::{Blurred, GaussianBlur};
pub use gaussian_noise::{GaussianNoise, Noised};
pub use grayscale::{Grayscale, Grayscaled};
pub use invert::{Invert, Inverted};
pub use perspective::{Perspective, PerspectiveWarp};
pub use pil_blur::{PilBlur, PilBlurred};
pub use policy::{
    Augment, AutoAugment, AutoPolicy, Chain, ChainMixed, Layer, Layers, MixBegun, Mixed,
    RandAugment, TimmAugMix, TimmRandAugment, TrivialAugmentWide,
};
pub use posterize::{Posterize, Posterized};
pub(crate) use python::is_sha256;
pub use python::{FunctionId, Python, PythonCall};
pub use rotation::Rotation;
pub(crate) use rules::range;
pub use sharpness::{Sharpened, Sharpness};
pub use solarize::{Solarize, Solarized, SolarizedAdd};
pub use vertical_flip::{FlippedDown, VerticalFlip};

operations! {
    Flip = "flip",
    VerticalFlip = "vertical_flip",
    ColorJitter = "color_jitter",
    Grayscale = "grayscale",
    GaussianBlur = "gaussian_blur",
    Solarize = "solarize",
    Invert = "invert",
    Posterize = "posterize",
    Equalize = "equalize",
    AutoContrast = "auto_contrast",
    Sharpness = "sharpness",
    PilBlur = "pil_blur",
    GaussianNoise = "gaussian_noise",
    Rotation = "rotation",
    Affine = "affine",
    Perspective = "perspective",
    RandAugment = "rand_augment",
    TrivialAugmentWide = "trivial_augment_wide",
    AutoAugment = "auto_augment",
    TimmRandAugment = "timm_rand_augment",
    TimmAugMix = "timm_aug_mix",
    Erase = "erase",
    Python = "python",
}

drawn! {
    Flip(Flipped) = "flip",
    VerticalFlip(FlippedDown) = "vertical_flip",
    ColorJitter(Jitter) = "color_jitter",
    Grayscale(Grayscaled) = "grayscale",
    GaussianBlur(Blurred) = "gaussian_blur",
    Solarize(Solarized) = "solarize",
    Enhance(Enhanced) = "enhance",
    Sharpness(Sharpened) = "sharpness",
    Posterize(Posterized) = "posterize",
    SolarizeAdd(SolarizedAdd) = "solarize_add",
    AutoContrast(AutoContrasted) = "auto_contrast",
    Equalize(Equalized) = "equalize",
    Invert(Inverted) = "invert",
    MixBegin(MixBegun) = "mix_begin",
    MixChain(ChainMixed) = "mix_chain",
    MixEnd(Mixed) = "mix_end",
    Affine(AffineWarp) = "affine",
    Perspective(PerspectiveWarp) = "perspective",
    PilBlur(PilBlurred) = "pil_blur",
    GaussianNoise(Noised) = "gaussian_noise",
    Erase(Erased) = "erase",
    Python(PythonCall) = "python",
}

/// An operation as a recipe asks for it. Nothing has a default: a new operation answers each question, or does not
/// compile.
pub(crate) trait Operation {
    /// One that the configuration allows: what a GPU proves itself with, if there is a kernel.
    fn example() -> Self
    where
        Self: Sized;

    /// What it changes.
    fn reach(&self) -> Reach;

    /// Whether GPUs can do it; a worker with a GPU renders recipes with others by its processor.
    fn has_kernel(&self) -> bool;

    /// With which probability it is done at all; `None` for a policy, which has probabilities of its own.
    fn probability(&self) -> Option<f64>;

    /// Checks its keys; `at` is their path. The probability is checked by whoever calls this.
    fn validate(&self, at: &str) -> Result<(), RecipeError>;

    /// Appends what it comes to on a view of this size, after it was decided that it is done. The order in which it
    /// takes numbers is a part of what a batch is.
    fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>);
}

/// An operation with its drawn values.
trait Drawn {
    /// In words, for people.
    fn text(&self) -> String;

    /// Where it takes pixels from.
    fn motion(&self) -> Motion;
}

/// What an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Values of pixels where they are, in the same way on a view of any size: it may be done to whole images.
    Colours,
    /// Values of pixels where they are, but by a measure in pixels.
    Neighbours,
    /// Where pixels are: the view is mirrored.
    Mirror,
    /// Where pixels are, by a matrix.
    Warp,
    /// Values of the normalised view.
    Normalised,
    /// What a policy chooses.
    Chosen,
    /// What a function of the user's does, which nothing else can follow.
    Unknown,
}

/// Where a drawn operation takes pixels from. Centres of pixels are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Motion {
    /// From where they are.
    Stays,
    /// From the other side: left and right are exchanged.
    MirrorAcross,
    /// From the other side: top and bottom are exchanged.
    MirrorDown,
    /// From (m0 x + m1 y + m2, m3 x + m4 y + m5).
    Affine([f64; 6]),
    /// From (c0 x + c1 y + c2, c3 x + c4 y + c5), divided by (c6 x + c7 y + 1).
    Perspective([f64; 8]),
}

// === impl OpSpec ===

impl OpSpec {
    /// With which probability it is done at all; policies have probabilities of their own.
    #[must_use]
    pub fn probability(&self) -> f64 {
        self.asked().probability().unwrap_or(1.0)
    }

    /// Whether GPUs can do it.
    #[must_use]
    pub fn has_kernel(&self) -> bool {
        self.asked().has_kernel()
    }

    pub(crate) fn reach(&self) -> Reach {
        self.asked().reach()
    }

    pub(crate) fn validate(&self, at: &str) -> Result<(), RecipeError> {
        self.asked().validate(at)?;
        rules::probability(at, self.probability())
    }

    /// Appends the operation with its values, or nothing if its probability decides against it. A
    /// policy appends as many operations as it chooses, and takes no number to decide. `view` is the size of the image
    /// that they change.
    pub(crate) fn draw(&self, view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let op = self.asked();
        if op.probability().is_none_or(|p| rng.gate(p)) {
            op.draw(view, rng, to);
        }
    }
}

// === impl DrawnOp ===

impl DrawnOp {
    /// In words, for people.
    #[must_use]
    pub fn text(&self) -> String {
        self.drawn().text()
    }

    /// Where it takes pixels from.
    #[must_use]
    pub fn motion(&self) -> Motion {
        self.drawn().motion()
    }
}
