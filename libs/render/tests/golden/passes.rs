//! Either order of the passes has the pixels of the Pillow releases that have it, on boxes of all
//! photographs of `tests/data`. `tests/fixtures/make_passes.py` wrote the digests.

use headwater_core::draw::{CropBox, Extent, Filter, Origin};
use headwater_core::recipe::ResizePasses;
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_render::decode::{DecodeLimits, Decoder, Wanted};
use headwater_simd::Simd;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::fixtures::json;
use crate::photos;

#[derive(Deserialize)]
struct Case {
    key: String,
    divisor: u32,
    crop: [u32; 4],
    size: [u32; 2],
}

// === impl Case ===

impl Case {
    fn geometry(&self, passes: ResizePasses) -> Geometry {
        let [left, top, width, height] = self.crop;
        let view = Extent { width: self.size[0], height: self.size[1] };
        Geometry {
            crop: CropBox { left, top, width, height },
            resized: view,
            window: Origin::default(),
            view,
            passes,
            filter: Filter::Bicubic,
        }
    }
}

/// The first half of the SHA-256 of the pixels, interleaved, in hexadecimal.
fn digest(view: &Planes) -> String {
    let mut image = RgbImage::new();
    image.set_planes(view, 1);
    let digest = Sha256::digest(image.pixels());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Views whose digest is not the expected one.
fn wrong(release: &str, passes: ResizePasses, simd: Simd) -> Vec<String> {
    let photos = photos::all();
    let cases: Vec<Case> = json("passes/cases.json");
    let expected: Vec<String> = json(&format!("passes/{release}.json"));
    assert_eq!((cases.len(), photos.len()), (expected.len(), 256));
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let mut resizer = Resizer::new(simd);
    let mut view = Planes::new();
    let mut wrong = Vec::new();
    for (case, expected) in cases.iter().zip(&expected) {
        let geometry = case.geometry(passes);
        let reduction = case.divisor;
        let wanted = |_| Wanted { reduction, window: geometry.source(reduction) };
        // Keys run on through the shards.
        let photo = &photos[case.key.parse::<usize>().expect("a number")];
        let image = decoder.decode_wanted(photo, wanted).expect("a photograph");
        assert_eq!(image.reduction(), reduction, "{}", case.key);
        resizer.resize(image, &geometry, false, &mut view);
        if digest(&view) != *expected {
            wrong.push(format!("{} {:?} to {:?}", case.key, case.crop, case.size));
        }
    }
    wrong
}

#[test]
fn the_horizontal_pass_first_has_the_pixels_of_pillow_12() {
    for simd in [Simd::Plain, Simd::best()] {
        let wrong = wrong("pillow-12.1.1", ResizePasses::HorizontalFirst, simd);
        assert!(wrong.is_empty(), "{}: {wrong:?}", simd.name());
    }
}

#[test]
fn the_order_of_pillow_13_has_the_pixels_of_pillow_13() {
    for simd in [Simd::Plain, Simd::best()] {
        let wrong = wrong("pillow-13.0.0", ResizePasses::Pillow13, simd);
        assert!(wrong.is_empty(), "{}: {wrong:?}", simd.name());
    }
}

/// Without this the two tests above could pass by one and the same order.
#[test]
fn the_two_releases_differ_on_the_cases() {
    let digests = |release| json::<Vec<String>>(&format!("passes/{release}.json"));
    let (older, newer) = (digests("pillow-12.1.1"), digests("pillow-13.0.0"));
    let differ = older.iter().zip(&newer).filter(|(older, newer)| older != newer).count();
    assert!(differ > 400, "{differ} of {} views differ", older.len());
}
