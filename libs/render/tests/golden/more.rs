//! The operations of policies, warps, filters and padding equal Pillow's, by the SHA-256 of their pixels, which
//! `fixtures/make_more.py` took; the definition and every twin.

use headwater_core::draw::{CropBox, Extent, Filter, Origin, Padding, PaddingMode};
use headwater_core::recipe::ResizePasses;
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::ops::levels::{self, Change};
use headwater_pixels::ops::mix::Mixture;
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_pixels::ops::warp::{self, Map, Warp};
use headwater_pixels::ops::{pad, pil_blur, sharpness};
use headwater_simd::Simd;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::fixtures::{json, planes, png};

#[derive(Debug, Deserialize)]
struct Case {
    #[serde(flatten)]
    op: Op,
    /// Left, top, right and bottom.
    source: [u32; 4],
    /// How often that is repeated across and down.
    #[serde(default = "once")]
    tiles: u32,
    sha256: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Invert,
    Equalize,
    AutoContrast,
    Posterize { bits: u8 },
    SolarizeAdd { add: u8, threshold: u8 },
    Sharpness { factor: f32 },
    PilBlur { radius: f32 },
    Affine { filter: Filter, matrix: [f64; 6], fill: [u8; 3] },
    Perspective { filter: Filter, coefficients: [f64; 8], fill: [u8; 3] },
    Resize { filter: Filter, size: [u32; 2] },
    Mix { share: f32, chains: Vec<Chain> },
    Pad { mode: PaddingMode, left: i32, top: i32, size: [u32; 2], fill: [u8; 3] },
}

#[derive(Clone, Debug, Deserialize)]
struct Chain {
    weight: f32,
    ops: Vec<Op>,
}

#[test]
fn they_are_pillows_on_all_sets_of_instructions() {
    let image = png("ops/source.png");
    let whole = planes(&image);
    let cases: Vec<Case> = json("ops/more.json");
    assert!(cases.len() > 800);
    for Case { op, source: [left, top, right, bottom], tiles, sha256 } in &cases {
        let crop = CropBox { left: *left, top: *top, width: right - left, height: bottom - top };
        let mut source = Planes::new();
        source.set_window(&whole, Origin { left: *left, top: *top }, crop.extent());
        for &simd in Simd::available() {
            let mut view = tiled(&source, *tiles);
            apply(op, simd, &image, crop, &mut view);
            assert_eq!(&digest(&view), sha256, "{op:?} of {crop:?} on {}", simd.name());
        }
    }
}

fn once() -> u32 {
    1
}

/// A view that is repeated as often across and down.
fn tiled(view: &Planes, tiles: u32) -> Planes {
    let Extent { width, height } = view.extent();
    let mut tiled = Planes::new();
    tiled.reset(Extent { width: width * tiles, height: height * tiles });
    for (plane, to) in view.planes().into_iter().zip(tiled.planes_mut()) {
        let wide: Vec<u8> =
            plane.chunks(width as usize).flat_map(|row| row.repeat(tiles as usize)).collect();
        to.copy_from_slice(&wide.repeat(tiles as usize));
    }
    tiled
}

/// Does an operation to a view, which is what `crop` shows of `image`.
fn apply(op: &Op, simd: Simd, image: &RgbImage, crop: CropBox, view: &mut Planes) {
    let mut spare = Planes::new();
    match *op {
        Op::Invert => levels::apply(simd, view, Change::Invert),
        Op::Equalize => levels::apply(simd, view, Change::Equalize),
        Op::AutoContrast => levels::apply(simd, view, Change::AutoContrast),
        Op::Posterize { bits } => levels::apply(simd, view, Change::Posterize(bits)),
        Op::SolarizeAdd { add, threshold } => {
            levels::apply(simd, view, Change::SolarizeAdd(add, threshold));
        }
        Op::Sharpness { factor } => sharpness::apply(simd, view, factor, &mut spare),
        Op::PilBlur { radius } => {
            pil_blur::apply(simd, view, radius, &mut pil_blur::Scratch::default());
        }
        Op::Affine { filter, matrix, fill } => {
            let warp = Warp { map: Map::Affine(matrix), filter, fill };
            warp::apply(simd, view, &warp, &mut spare, &mut Default::default());
        }
        Op::Perspective { filter, coefficients, fill } => {
            let warp = Warp { map: Map::Perspective(coefficients), filter, fill };
            warp::apply(simd, view, &warp, &mut spare, &mut Default::default());
        }
        Op::Resize { filter, size: [width, height] } => {
            let resized = Extent { width, height };
            let (window, passes) = (Origin::default(), ResizePasses::Pillow13);
            let geometry = Geometry { crop, resized, window, view: resized, passes, filter };
            Resizer::new(simd).resize(image, &geometry, false, view);
        }
        Op::Mix { share, ref chains } => {
            let mut mixture = Mixture::new();
            mixture.begin(view);
            for Chain { weight, ops } in chains {
                ops.iter().for_each(|op| apply(op, simd, image, crop, view));
                mixture.end_chain(simd, view, *weight);
            }
            mixture.end(simd, view, share);
        }
        Op::Pad { mode, left, top, size: [width, height], fill } => {
            let padding = Padding { left, top, mode, fill };
            let extent = Extent { width, height };
            let inside = CropBox { left: 0, top: 0, ..crop };
            let shown = view.clone();
            pad::plain::apply(&padding, crop.extent(), inside, &shown, extent, view);
        }
    }
}

/// SHA-256 of interleaved pixels.
fn digest(view: &Planes) -> String {
    let [red, green, blue] = view.planes();
    let pixels = red.iter().zip(green).zip(blue).flat_map(|((r, g), b)| [*r, *g, *b]);
    let pixels: Vec<u8> = pixels.collect();
    Sha256::digest(&pixels).iter().map(|byte| format!("{byte:02x}")).collect()
}
