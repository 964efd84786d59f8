//! Sizes of views that are sequences of patches.
//!
//! Source: timm `data/naflex_transforms.py` (1.0.30), `get_image_size_for_seq`. Every
//! operation is one of binary64, in its order.

use crate::geometry::Extent;

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
