//! What was drawn for a view.

use serde::{Deserialize, Serialize};

use crate::geometry::{CropBox, Extent, Origin};
use crate::recipe::FunctionId;

/// All that is random about one view of one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewParams {
    /// Number of the base that the view is made of, in place of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<usize>,
    /// The box that is cut.
    pub crop: CropBox,
    /// Size to which the whole box is resized.
    pub resized: Extent,
    /// Where the view lies in the resized box. The view's size is the tensor's; it ends within
    /// the resized box. Pixels outside the view are never computed.
    pub window: Origin,
    /// The operations whose gate opened, in order, with their drawn values.
    pub ops: Vec<DrawnOp>,
    /// Where the view is cut out after the operations, which are then done to all of the resized
    /// box; `window` is its top left corner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Origin>,
}

/// An operation with its drawn values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum DrawnOp {
    /// Horizontal flip.
    Flip,
    /// Colour jitter: the order in which the four adjustments are applied, and their factors.
    ColorJitter {
        /// A permutation of the four adjustments.
        order: [JitterStep; 4],
        /// Brightness factor.
        brightness: f32,
        /// Contrast factor.
        contrast: f32,
        /// Saturation factor.
        saturation: f32,
        /// Hue shift in turns.
        hue: f32,
    },
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
    /// A Python function of the recipe.
    Python {
        /// Which one.
        function: FunctionId,
        /// What its generator is seeded with.
        seed: [u64; 2],
    },
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
        }
    }
}
