//! The box of a view and its place after the resize.
//!
//! Source: torchvision `transforms.RandomResizedCrop.get_params`, `functional.resize` and
//! `functional.center_crop`; windows of a base: facebookresearch/dinov3 `data/augmentations.py`.

use super::key::DrawRng;
use crate::geometry::{CropBox, Extent, Origin};
use crate::recipe::CropSpec;

/// Tries before `RandomResizedCrop` falls back to a centred box.
const TRIES: usize = 10;

/// What a [`CropSpec`] comes to for one image.
pub(super) struct Framing {
    pub(super) crop: CropBox,
    pub(super) resized: Extent,
    pub(super) window: Origin,
    pub(super) cut: Option<Origin>,
}

const CORNER: Origin = Origin { left: 0, top: 0 };

pub(super) fn draw(spec: &CropSpec, image: Extent, view: Extent, rng: &mut DrawRng) -> Framing {
    match *spec {
        CropSpec::RandomResized { scale, ratio } => Framing {
            crop: random_resized(scale, ratio, image, rng),
            resized: view,
            window: CORNER,
            cut: None,
        },
        CropSpec::CenterAfterResize { resize } => center_after_resize(resize, image, view),
        CropSpec::Base { .. } => {
            Framing { crop: CropBox::whole(image), resized: view, window: CORNER, cut: None }
        }
        CropSpec::WindowOfBase { within, stride, .. } => {
            let mut place = |side: u32| {
                let places = within.saturating_sub(side) / stride;
                rng.below(places.max(1).into()) as u32 * stride
            };
            let (top, left) = (place(view.height), place(view.width));
            let cut = Some(Origin { left, top });
            Framing { crop: CropBox::whole(image), resized: image, window: CORNER, cut }
        }
    }
}

fn random_resized(scale: [f64; 2], ratio: [f64; 2], image: Extent, rng: &mut DrawRng) -> CropBox {
    let area = f64::from(image.width) * f64::from(image.height);
    let log_ratio = ratio.map(libm::log);
    for _ in 0..TRIES {
        let target_area = area * rng.uniform(scale[0], scale[1]);
        let aspect = libm::exp(rng.uniform(log_ratio[0], log_ratio[1]));
        let width = (target_area * aspect).sqrt().round_ties_even();
        let height = (target_area / aspect).sqrt().round_ties_even();
        let fits = |side: f64, whole: u32| side > 0.0 && side <= f64::from(whole);
        if fits(width, image.width) && fits(height, image.height) {
            let (width, height) = (width as u32, height as u32);
            let top = rng.below(u64::from(image.height - height) + 1) as u32;
            let left = rng.below(u64::from(image.width - width) + 1) as u32;
            return CropBox { left, top, width, height };
        }
    }
    centred(ratio, image)
}

/// The largest centred box whose aspect is within `ratio`.
fn centred(ratio: [f64; 2], image: Extent) -> CropBox {
    let Extent { width, height } = image;
    let aspect = f64::from(width) / f64::from(height);
    let side = |value: f64, whole: u32| (value.round_ties_even() as u32).clamp(1, whole);
    let (width, height) = if aspect < ratio[0] {
        (width, side(f64::from(width) / ratio[0], height))
    } else if aspect > ratio[1] {
        (side(f64::from(height) * ratio[1], width), height)
    } else {
        (width, height)
    };
    CropBox { left: (image.width - width) / 2, top: (image.height - height) / 2, width, height }
}

/// The whole image is resized; the view is a window of the result. torchvision truncates the
/// longer side and rounds the window's origin half to even. A recipe whose `resize` is smaller
/// than the view is refused when it is validated, so the window is always inside.
fn center_after_resize(resize: u32, image: Extent, view: Extent) -> Framing {
    let (short, long) = (image.width.min(image.height), image.width.max(image.height));
    let resized_long = (f64::from(resize) * f64::from(long) / f64::from(short)) as u32;
    let resized = if image.width <= image.height {
        Extent { width: resize, height: resized_long }
    } else {
        Extent { width: resized_long, height: resize }
    };
    let origin = |whole: u32, part: u32| {
        (f64::from(whole.saturating_sub(part)) / 2.0).round_ties_even() as u32
    };
    Framing {
        crop: CropBox::whole(image),
        resized,
        window: Origin {
            left: origin(resized.width, view.width),
            top: origin(resized.height, view.height),
        },
        cut: None,
    }
}
