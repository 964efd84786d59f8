//! Random draws of a view, made once on the host for every back end.

mod key;

pub use key::{DrawKey, DrawRng};

use crate::recipe::OpSpec;

/// A box of the source image, in pixels; never empty, always within the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropBox {
    /// Leftmost column.
    pub left: u32,
    /// Topmost row.
    pub top: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// All that is random about one view of one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewParams {
    /// The box that is cut.
    pub crop: CropBox,
    /// The operations whose gate opened, in order, with their drawn values.
    pub ops: Vec<DrawnOp>,
}

/// An operation with its drawn values.
#[derive(Clone, Copy, Debug, PartialEq)]
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
}

/// One adjustment of colour jitter; the numbers are torchvision's `fn_idx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
