//! Random draws of a view, made once on the host for every back end.

mod augmix;
mod crop;
mod erase;
pub(crate) mod gamma;
mod key;
mod layers;
mod normal;
mod ops;
mod params;
mod policy;
#[cfg(test)]
mod policy_tests;
mod sample;
mod sines;
#[cfg(test)]
mod tests;
mod view;
mod warp;

pub use crate::geometry::{CropBox, Extent, Origin};
pub use augmix::Chain;
pub use key::{DrawKey, DrawRng};
pub use layers::Layers;
pub use normal::Normals;
pub use params::{
    DrawnOp, EraseWith, Filter, Jitter, JitterStep, Padding, PaddingMode, ViewParams,
};
pub use policy::{Augment, Layer};
pub use sample::SampleParams;
