//! What was drawn for a view.

use serde::{Deserialize, Serialize};

use crate::geometry::{CropBox, Extent, Origin};
use crate::recipe::FunctionId;

/// All that is random about one view of one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewParams {
    /// Number of the base from which the view is made, in place of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<usize>,
    /// The box that is cut.
    pub crop: CropBox,
    /// Size to which the whole box is resized.
    pub resized: Extent,
    /// Position of the view in the resized box. The view's size is the tensor's; it ends within
    /// the resized box. Pixels outside the view are never computed.
    pub window: Origin,
    /// The operations whose gate opened, in order, with their drawn values.
    pub ops: Vec<DrawnOp>,
    /// Where the view is cut out after the operations, which are then done to all of the resized
    /// box; `window` is its top left corner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Origin>,
    /// The filter of the resize.
    #[serde(default, skip_serializing_if = "Filter::is_bicubic")]
    pub filter: Filter,
    /// The area around the box, if the view is larger than the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<Padding>,
}

/// A filter that finds values between pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// The pixel that is nearest.
    Nearest,
    /// The mean of the pixels that are covered.
    Box,
    /// A triangle over two pixels.
    Bilinear,
    /// A cubic over four pixels.
    #[default]
    Bicubic,
}

/// How a view reaches beyond the image. Columns and rows are counted from the image's top left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padding {
    /// The view's first column.
    pub left: i32,
    /// The view's first row.
    pub top: i32,
    /// What lies outside.
    pub mode: PaddingMode,
    /// Levels (R, G, B) of what lies outside, if that is [`PaddingMode::Constant`].
    pub fill: [u8; 3],
}

/// The pixels outside an image, as in torchvision's `pad`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaddingMode {
    /// One colour.
    #[default]
    Constant,
    /// The pixel at the edge, again and again.
    Edge,
    /// The image mirrored, without its edge.
    Reflect,
    /// The image mirrored, with its edge.
    Symmetric,
}

/// An operation with its drawn values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum DrawnOp {
    /// Horizontal flip.
    Flip,
    /// Colour jitter.
    ColorJitter(Jitter),
    /// Grayscale.
    Grayscale,
    /// Gaussian blur with this standard deviation in pixels.
    GaussianBlur {
        /// Standard deviation in pixels.
        sigma: f32,
    },
    /// Solarise from this value upwards.
    Solarize {
        /// First value that is inverted.
        threshold: u8,
    },
    /// One of the three adjustments that blend, by itself.
    Enhance {
        /// Which one; never [`JitterStep::Hue`].
        step: JitterStep,
        /// Its factor.
        factor: f32,
    },
    /// Blends with a smoothed copy.
    Sharpness {
        /// 0 is the smoothed copy, 1 changes nothing.
        factor: f32,
    },
    /// Keeps the upper bits of each level.
    Posterize {
        /// How many.
        bits: u8,
    },
    /// Adds to dark levels.
    SolarizeAdd {
        /// What is added.
        add: u8,
        /// First level that stays.
        threshold: u8,
    },
    /// Stretches the levels of each channel from 0 to 255.
    AutoContrast,
    /// Makes the levels of each channel equally frequent.
    Equalize,
    /// Inverts all levels.
    Invert,
    /// Keeps the present view. All chains until [`DrawnOp::MixEnd`] begin with it.
    MixBegin,
    /// The end of a chain: its result is added to the mixture, and the view is the kept one again.
    MixChain {
        /// What values are multiplied by before.
        weight: f32,
    },
    /// Blends the kept view with the mixture.
    MixEnd {
        /// Share of the mixture, from 0 to 1.
        share: f32,
    },
    /// Moves pixels. A pixel whose centre is at (x, y) comes from
    /// (m0 x + m1 y + m2, m3 x + m4 y + m5).
    Affine {
        /// m0 to m5.
        matrix: [f64; 6],
        /// How values between pixels are found.
        filter: Filter,
        /// Levels (R, G, B) of what comes from outside.
        fill: [u8; 3],
    },
    /// Moves pixels. A pixel whose centre is at (x, y) comes from (c0 x + c1 y + c2, c3 x + c4 y + c5), divided
    /// by (c6 x + c7 y + 1).
    Perspective {
        /// c0 to c7.
        coefficients: [f64; 8],
        /// How values between pixels are found.
        filter: Filter,
        /// Levels (R, G, B) of what comes from outside.
        fill: [u8; 3],
    },
    /// Pillow's Gaussian blur: three box blurs.
    PilBlur {
        /// Standard deviation in pixels.
        radius: f32,
    },
    /// Adds noise to each value.
    GaussianNoise {
        /// Mean, as a share of 255.
        mean: f64,
        /// Standard deviation, as a share of 255.
        sigma: f64,
        /// What the noise follows from.
        seed: [u64; 2],
    },
    /// Erases a box after the view has been normalised.
    Erase {
        /// The box.
        area: CropBox,
        /// What is put there.
        with: EraseWith,
    },
    /// A Python function of the recipe.
    Python {
        /// Which one.
        function: FunctionId,
        /// What its generator is seeded with.
        seed: [u64; 2],
    },
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

// === impl ViewParams ===

impl ViewParams {
    /// The whole image at its own size, unchanged: a place for [`crate::recipe::ViewSpec::draw_into`].
    #[must_use]
    pub fn whole(image: Extent) -> Self {
        Self {
            base: None,
            crop: CropBox::whole(image),
            resized: image,
            window: Origin::default(),
            ops: Vec::new(),
            cut: None,
            filter: Filter::Bicubic,
            padding: None,
        }
    }
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

// === impl Filter ===

impl Filter {
    /// Whether it is [`Filter::Bicubic`], which is not written down.
    #[must_use]
    pub fn is_bicubic(&self) -> bool {
        *self == Self::Bicubic
    }
}
