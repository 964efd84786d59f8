//! Antialiased bicubic resize of a box of an image.

pub mod plain;
mod taps;

pub use taps::Taps;

use headwater_core::draw::{CropBox, Extent, Origin};

/// Which part of an image becomes which view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The box that is cut; filter taps do not reach beyond it.
    pub crop: CropBox,
    /// Size to which the whole box is resized.
    pub resized: Extent,
    /// Where the view lies in the resized box.
    pub window: Origin,
    /// Size of the view.
    pub view: Extent,
}
