//! Random draws of a view, made once on the host for every back end.

mod crop;
mod key;
mod ops;
mod params;
mod sample;
#[cfg(test)]
mod tests;
mod view;

pub use crate::geometry::{CropBox, Extent, Origin};
pub use key::{DrawKey, DrawRng};
pub use params::{DrawnOp, JitterStep, ViewParams};
pub use sample::SampleParams;
