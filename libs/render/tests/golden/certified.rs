//! What is certified of presets: 64 photographs of `tests/data`, under these keys.

use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::RenderKey;

/// The presets that have a certificate.
pub(crate) const PRESETS: &[&str] = &[
    "mae",
    "clip-train",
    "clip-eval",
    "siglip",
    "ijepa",
    "supervised-timm",
    "torchvision-v2",
    "simclr",
    "mocov3",
    "byol",
    "ibot",
    "swav",
];
/// The photographs, by their place among all of `tests/data`. None of them is CMYK.
pub(crate) const PHOTOS: std::ops::Range<usize> = 80..144;

/// Each preset in binary32, as `ToTensor` and `Normalize` give it.
pub(crate) fn recipe(preset: &str) -> Recipe {
    Recipe::preset(preset, Dtype::F32).expect("a preset")
}

pub(crate) fn key(photo: usize) -> RenderKey {
    RenderKey { seed: 21, epoch: 3, pass: 0, sample: SampleId(photo as u64) }
}
