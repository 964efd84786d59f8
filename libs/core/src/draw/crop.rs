//! The box of a view and its place after the resize.
//!
//! Source: torchvision `transforms.RandomResizedCrop.get_params`, `functional.resize` and
//! `functional.center_crop`; windows of a base: facebookresearch/dinov3 `data/augmentations.py`.

use super::key::DrawRng;
use super::sequence;
use crate::geometry::{CropBox, Extent, Origin};
use crate::padding::{Padding, PaddingMode};
use crate::recipe::CropSpec;

/// Tries before `RandomResizedCrop` falls back to a centred box.
const TRIES: usize = 10;

/// What a [`CropSpec`] comes to for one image.
pub(super) struct Framing {
    pub(super) crop: CropBox,
    pub(super) resized: Extent,
    pub(super) window: Origin,
    pub(super) cut: Option<Origin>,
    pub(super) padding: Option<Padding>,
}

const CORNER: Origin = Origin { left: 0, top: 0 };

pub(super) fn draw(spec: &CropSpec, image: Extent, view: Extent, rng: &mut DrawRng) -> Framing {
    match *spec {
        CropSpec::RandomResized { scale, ratio } => Framing {
            crop: random_resized(scale, ratio, 1.0, image, rng),
            resized: view,
            window: CORNER,
            cut: None,
            padding: None,
        },
        CropSpec::CenterAfterResize { resize } => center_after_resize(resize, image, view),
        CropSpec::RandomAfterResize { resize } => {
            let framing = center_after_resize(resize, image, view);
            let mut place = |whole: u32, part: u32| rng.below(u64::from(whole - part) + 1) as u32;
            let top = place(framing.resized.height, view.height);
            let left = place(framing.resized.width, view.width);
            Framing { window: Origin { left, top }, ..framing }
        }
        CropSpec::Random { padding, padding_mode, fill } => {
            let mut place = |whole: u32, part: u32| random_place(whole, part, padding, rng);
            let top = place(image.height, view.height);
            let left = place(image.width, view.width);
            Padding { left, top, mode: padding_mode, fill }.frame(image, view)
        }
        CropSpec::Center { fill } => {
            let left = centre_place(image.width, view.width);
            let top = centre_place(image.height, view.height);
            Padding { left, top, mode: PaddingMode::Constant, fill }.frame(image, view)
        }
        CropSpec::Resize {} | CropSpec::Base { .. } => Framing {
            crop: CropBox::whole(image),
            resized: view,
            window: CORNER,
            cut: None,
            padding: None,
        },
        CropSpec::Sequence { max_ratio } => in_patches(CropBox::whole(image), view, max_ratio),
        CropSpec::RandomResizedSequence { scale, ratio, max_ratio } => {
            let own = f64::from(image.width) / f64::from(image.height);
            in_patches(random_resized(scale, ratio, own, image, rng), view, max_ratio)
        }
        CropSpec::WindowOfBase { within, stride, .. } => {
            let mut place = |side: u32| {
                let places = within.saturating_sub(side) / stride;
                rng.below(places.max(1).into()) as u32 * stride
            };
            let (top, left) = (place(view.height), place(view.width));
            let cut = Some(Origin { left, top });
            let crop = CropBox::whole(image);
            Framing { crop, resized: image, window: CORNER, cut, padding: None }
        }
    }
}

/// A box as a sequence of patches; `view` has all of them in a row.
fn in_patches(crop: CropBox, view: Extent, max_ratio: Option<f64>) -> Framing {
    let (side, patches) = (view.height, view.width / view.height);
    let resized = sequence::extent(crop.extent(), side, patches, max_ratio);
    Framing { crop, resized, window: CORNER, cut: None, padding: None }
}

/// `ratio` is in units of `unit`: 1 in torchvision, the image's own ratio in timm's `RandomResizedCropToSequence`.
fn random_resized(
    scale: [f64; 2],
    ratio: [f64; 2],
    unit: f64,
    image: Extent,
    rng: &mut DrawRng,
) -> CropBox {
    let area = f64::from(image.width) * f64::from(image.height);
    let log_ratio = ratio.map(libm::log);
    for _ in 0..TRIES {
        let target_area = area * rng.uniform(scale[0], scale[1]);
        let aspect = unit * libm::exp(rng.uniform(log_ratio[0], log_ratio[1]));
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
    centred(ratio.map(|ratio| unit * ratio), image)
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
/// than the view is refused when it is validated, so the window is always inside. No library can resize an
/// image whose longer side would have `u32::MAX` pixels: it ends there, and so does the window.
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
        padding: None,
    }
}

/// torchvision's `RandomCrop` along one side: it is padded by `padding` at both ends. If that is
/// still too short, the missing length is added at both ends.
fn random_place(whole: u32, part: u32, padding: u32, rng: &mut DrawRng) -> i32 {
    let padded = i64::from(whole) + 2 * i64::from(padding);
    let lacks = (i64::from(part) - padded).max(0);
    let places = padded + 2 * lacks - i64::from(part) + 1;
    (rng.below(places as u64) as i64 - i64::from(padding) - lacks) as i32
}

/// torchvision's `CenterCrop` along one side.
fn centre_place(whole: u32, part: u32) -> i32 {
    if part > whole {
        return -(((part - whole) / 2) as i32);
    }
    (f64::from(whole - part) / 2.0).round_ties_even() as i32
}

// === impl Padding ===

impl Padding {
    /// The view at this place, without padding if it is within the image.
    fn frame(self, image: Extent, view: Extent) -> Framing {
        let across = self.reach(self.left, view.width, image.width);
        let down = self.reach(self.top, view.height, image.height);
        let crop = CropBox {
            left: across.0,
            top: down.0,
            width: across.1 - across.0 + 1,
            height: down.1 - down.0 + 1,
        };
        let ends = |start: i32, part: u32| i64::from(start) + i64::from(part);
        let within = self.left >= 0
            && self.top >= 0
            && ends(self.left, view.width) <= image.width.into()
            && ends(self.top, view.height) <= image.height.into();
        let padding = (!within).then_some(self);
        Framing { crop, resized: crop.extent(), window: CORNER, cut: None, padding }
    }

    /// The least and the greatest position of a side that a view from `start` on shows.
    fn reach(&self, start: i32, count: u32, side: u32) -> (u32, u32) {
        let shown = (0..count as i32).filter_map(|n| self.mode.source(start + n, side));
        let reach = shown.fold(None, |reach: Option<(u32, u32)>, at| match reach {
            None => Some((at, at)),
            Some((least, greatest)) => Some((least.min(at), greatest.max(at))),
        });
        reach.unwrap_or((0, 0))
    }
}

// === impl PaddingMode ===

impl PaddingMode {
    /// The position in the image's side that is shown at `at`, counted from the side's beginning;
    /// `None` for the fill. The rule is that of numpy's `pad`.
    #[must_use]
    pub fn source(self, at: i32, side: u32) -> Option<u32> {
        let (at, side) = (i64::from(at), i64::from(side));
        let source = match self {
            Self::Constant => return (0..side).contains(&at).then_some(at as u32),
            Self::Edge => at.clamp(0, side - 1),
            Self::Reflect if side == 1 => 0,
            Self::Reflect => {
                let at = at.rem_euclid(2 * (side - 1));
                at.min(2 * (side - 1) - at)
            }
            Self::Symmetric => {
                let at = at.rem_euclid(2 * side);
                at.min(2 * side - 1 - at)
            }
        };
        Some(source as u32)
    }
}
