//! Random draws of a view, made once on the host for every back end.

mod crop;
pub(crate) mod gamma;
mod key;
mod normal;
mod params;
mod sample;
mod sequence;
#[cfg(test)]
mod tests;
mod view;

pub use crate::filter::Filter;
pub use crate::geometry::{CropBox, Extent, Origin};
pub use crate::padding::{Padding, PaddingMode};
pub use key::{DrawKey, DrawRng};
pub use normal::Normals;
pub use params::ViewParams;
pub use sample::SampleParams;
