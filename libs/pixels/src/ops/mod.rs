//! The operations of a recipe on uint8 pixels, and the cuts of levels that follow them.
//!
//! In each folder `plain.rs` is the definition: readable, always built, equal to Pillow and
//! torchvision as its header says. Any other file there must give the same bytes.

pub mod amax;
pub mod blend;
pub mod blur;
pub mod brightness;
pub mod cast;
pub mod contrast;
pub mod erase;
pub mod flip;
pub mod grayscale;
pub mod hue;
pub mod level;
pub mod levels;
pub(crate) mod lookup;
pub mod luma;
pub mod mix;
pub mod noise;
pub mod pad;
pub mod pil_blur;
pub mod resize;
pub mod saturation;
pub mod sharpness;
pub mod solarize;
pub mod warp;
