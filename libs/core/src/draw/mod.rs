//! Random draws of a view, made once on the host for every back end.

mod crop;
mod key;
mod ops;
mod sample;
#[cfg(test)]
mod tests;

pub use key::{DrawKey, DrawRng};
pub use sample::SampleParams;

use serde::{Deserialize, Serialize};

use crate::recipe::ViewSpec;

/// A size in pixels; neither side is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A place in an image, in pixels from its top left corner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Column.
    pub left: u32,
    /// Row.
    pub top: u32,
}

/// A box of the source image, in pixels; never empty, always within the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

// === impl CropBox ===

impl CropBox {
    /// All of an image.
    #[must_use]
    pub fn whole(image: Extent) -> Self {
        Self { left: 0, top: 0, width: image.width, height: image.height }
    }

    /// Size of the box.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { width: self.width, height: self.height }
    }
}

// === impl ViewParams ===

impl ViewParams {
    /// The whole image at its own size, unchanged: a place for [`ViewSpec::draw_into`].
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

// === impl ViewSpec ===

impl ViewSpec {
    /// Draws one view of an image, or of a base, of size `image` for a tensor of size `view`. The numbers are
    /// taken in torchvision's order: the tries of the crop, then for each operation its gate
    /// and, where the gate opens, its values. The recipe must have been validated.
    #[must_use]
    pub fn draw(&self, image: Extent, view: Extent, rng: &mut DrawRng) -> ViewParams {
        let mut params = ViewParams::whole(image);
        self.draw_into(image, view, rng, &mut params);
        params
    }

    /// As [`ViewSpec::draw`], into `params`, whose list of operations keeps its memory.
    pub fn draw_into(
        &self,
        image: Extent,
        view: Extent,
        rng: &mut DrawRng,
        params: &mut ViewParams,
    ) {
        let framing = crop::draw(&self.crop, image, view, rng);
        params.base = self.crop.base();
        params.crop = framing.crop;
        params.resized = framing.resized;
        params.window = framing.window;
        params.cut = framing.cut;
        params.ops.clear();
        params.ops.reserve(self.ops.len());
        params.ops.extend(self.ops.iter().filter_map(|op| ops::draw(op, rng)));
    }
}
