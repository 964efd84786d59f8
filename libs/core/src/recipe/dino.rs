//! Operations that all DINO presets share, some of them with BYOL's.

use crate::op::{ColorJitter, GaussianBlur, Grayscale, OpSpec, Solarize};

/// Colour jitter and grayscale as all DINO recipes have them, and those that follow BYOL.
pub(super) fn colour() -> [OpSpec; 2] {
    let jitter = OpSpec::ColorJitter(ColorJitter {
        p: 0.8,
        brightness: [0.6, 1.4],
        contrast: [0.6, 1.4],
        saturation: [0.8, 1.2],
        hue: [-0.1, 0.1],
    });
    [jitter, OpSpec::Grayscale(Grayscale { p: 0.2 })]
}

/// Blur with this probability, and where asked for the solarisation of the second global view.
pub(super) fn blur_and_solarize(p: f64, solarize: bool) -> impl Iterator<Item = OpSpec> {
    let blur = OpSpec::GaussianBlur(GaussianBlur { p, sigma: [0.1, 2.0] });
    [blur]
        .into_iter()
        .chain(solarize.then_some(OpSpec::Solarize(Solarize { p: 0.2, threshold: 128 })))
}
