//! ImageNet's numbers, which presets share.

/// Mean of ImageNet's channels, in units of 1/1.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// Standard deviation of ImageNet's channels, in units of 1/1.
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];
/// Minimum and maximum width / height of a cut.
pub(super) const RATIO: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0];
