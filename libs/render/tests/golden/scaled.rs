//! A view of an image that is decoded at a fraction of its size equals Pillow's `draft`, `crop` and
//! `resize(box=..)` with edges between pixels.

use headwater_core::draw::{CropBox, Extent, Filter, Origin};
use headwater_core::recipe::ResizePasses;
use headwater_pixels::image::Planes;
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_render::decode::{DecodeLimits, Decoder, Wanted};
use headwater_simd::Simd;
use serde::Deserialize;

use super::fixtures::{bytes, json, planes, png};

#[derive(Deserialize)]
struct Case {
    file: String,
    divisor: u32,
    crop: [u32; 4],
    size: [u32; 2],
    expected: String,
}

#[test]
fn a_view_of_a_reduced_jpeg_has_pillows_pixels() {
    let cases: Vec<Case> = json("scaled/cases.json");
    assert!(cases.len() >= 12, "{} cases", cases.len());
    for Case { file, divisor, crop, size, expected } in cases {
        let [left, top, width, height] = crop;
        let view = Extent { width: size[0], height: size[1] };
        let geometry = Geometry {
            crop: CropBox { left, top, width, height },
            resized: view,
            window: Origin::default(),
            view,
            passes: ResizePasses::HorizontalFirst,
            filter: Filter::Bicubic,
        };
        let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
        let wanted = |_| Wanted { reduction: divisor, window: geometry.source(divisor) };
        let image = decoder.decode_wanted(&bytes(&file), wanted).expect("an image");
        assert_eq!(image.reduction(), divisor, "{file}");
        for &simd in Simd::available() {
            let mut found = Planes::new();
            Resizer::new(simd).resize(image, &geometry, false, &mut found);
            let pillow = planes(&png(&expected));
            assert!(found.values() == pillow.values(), "{expected} by {}: {file}", simd.name());
        }
    }
}

#[test]
fn an_image_that_is_no_jpeg_keeps_its_size() {
    for file in ["decode/rgb.png", "decode/lossy.webp"] {
        let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
        let whole = decoder.decode(&bytes(file)).expect("an image").extent();
        let wanted = |image| Wanted::reduced(image, 4);
        let image = decoder.decode_wanted(&bytes(file), wanted).expect("an image");
        assert_eq!((image.extent(), image.reduction()), (whole, 1), "{file}");
    }
}
