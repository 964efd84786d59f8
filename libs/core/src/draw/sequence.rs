//! Sizes of views that are sequences of patches.
//!
//! Source: timm `data/naflex_transforms.py` (1.0.30), `get_image_size_for_seq` and
//! `RandomResizedCropToSequence.get_params`. Every operation is one of binary64, in their order.

use super::key::DrawRng;
use crate::geometry::{CropBox, Extent};

/// Tries before the box falls back to a centred one.
const TRIES: usize = 10;
const EPSILON: f64 = 1e-5;
/// No image is enlarged further; timm raises an error where one would be.
const RATIO_MAX: f64 = 100.0;

/// Size of an image of `patches` patches at most, with the aspect ratio of `image` as far as whole patches allow.
/// `ratio_max` is the most that it is enlarged by.
pub(super) fn extent(image: Extent, side: u32, patches: u32, ratio_max: Option<f64>) -> Extent {
    let scaled = |whole: u32, ratio: f64| {
        let length = f64::from(side) * (f64::from(whole) * ratio / f64::from(side)).ceil();
        length.max(f64::from(side)) as u32
    };
    let of = |ratio: f64| Extent {
        height: scaled(image.height, ratio),
        width: scaled(image.width, ratio),
    };
    let fits = |ratio: f64| {
        let Extent { height, width } = of(ratio);
        u64::from(height / side) * u64::from(width / side) <= patches.into()
    };
    let (mut low, mut high) = (EPSILON / 10.0, RATIO_MAX);
    while high - low >= EPSILON {
        let middle = (low + high) / 2.0;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let ratio = ratio_max.map_or(low, |most| low.min(most));
    let found = of(ratio);
    // An image so long that one row of it has more patches: timm raises an error.
    let most = patches * side;
    Extent { height: found.height.min(most), width: found.width.min(most) }
}

/// A box of a share of the area and an aspect ratio within `ratio` of the image's own.
pub(super) fn random_box(
    scale: [f64; 2],
    ratio: [f64; 2],
    image: Extent,
    rng: &mut DrawRng,
) -> CropBox {
    let Extent { width, height } = image;
    let area = f64::from(width) * f64::from(height);
    let own = f64::from(width) / f64::from(height);
    let log_ratio = ratio.map(libm::log);
    for _ in 0..TRIES {
        let target = area * rng.uniform(scale[0], scale[1]);
        let aspect = own * libm::exp(rng.uniform(log_ratio[0], log_ratio[1]));
        let found_height = (target / aspect).sqrt().round_ties_even();
        let found_width = (target * aspect).sqrt().round_ties_even();
        let fits = |side: f64, whole: u32| side > 0.0 && side <= f64::from(whole);
        if fits(found_width, width) && fits(found_height, height) {
            let (found_width, found_height) = (found_width as u32, found_height as u32);
            let top = rng.below(u64::from(height - found_height) + 1) as u32;
            let left = rng.below(u64::from(width - found_width) + 1) as u32;
            return CropBox { left, top, width: found_width, height: found_height };
        }
    }
    let (least, most) = (own * ratio[0], own * ratio[1]);
    let side = |value: f64, whole: u32| (value.round_ties_even() as u32).min(whole).max(1);
    let (found_width, found_height) = if own < least {
        (width, side(f64::from(width) / least, height))
    } else if own > most {
        (side(f64::from(height) * most, width), height)
    } else {
        (width, height)
    };
    CropBox {
        left: (width - found_width) / 2,
        top: (height - found_height) / 2,
        width: found_width,
        height: found_height,
    }
}
