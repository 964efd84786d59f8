//! Crop and resize equal torchvision's `resized_crop` and `center_crop(resize(..))` on Pillow
//! images.

use headwater_core::SampleId;
use headwater_core::draw::{CropBox, DrawKey, Extent, Filter, Origin, ViewParams};
use headwater_core::recipe::{CropSpec, ResizePasses, ViewSpec};
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::ops::resize::{Geometry, plain};
use serde::Deserialize;

use super::fixtures::{json, planes, png};

#[derive(Deserialize)]
struct Cases {
    boxes: Vec<BoxCase>,
    centres: Vec<CentreCase>,
}

#[derive(Deserialize)]
struct BoxCase {
    crop: [u32; 4],
    size: [u32; 2],
    expected: String,
}

#[derive(Deserialize)]
struct CentreCase {
    name: String,
    resize: u32,
    view: u32,
}

/// The order of the Pillow that made the fixtures.
const PASSES: ResizePasses = ResizePasses::HorizontalFirst;

fn resize(image: &RgbImage, geometry: &Geometry) -> Planes {
    let mut view = Planes::new();
    plain::resize(image, geometry, &mut plain::Scratch::default(), &mut view);
    view
}

#[test]
fn a_resized_box_has_pillows_pixels() {
    let image = png("resize/source.png");
    for case in json::<Cases>("resize/cases.json").boxes {
        let [left, top, width, height] = case.crop;
        let size = Extent { width: case.size[0], height: case.size[1] };
        let crop = CropBox { left, top, width, height };
        let params = ViewParams { crop, resized: size, ..ViewParams::whole(image.extent()) };
        let geometry = Geometry::new(&params, size, PASSES);
        let expected = planes(&png(&format!("resize/{}", case.expected)));
        assert!(resize(&image, &geometry) == expected, "{:?} to {:?}", case.crop, case.size);
    }
}

#[test]
fn a_centre_crop_after_a_resize_has_torchvisions_pixels() {
    for case in json::<Cases>("resize/cases.json").centres {
        let image = png(&format!("resize/{}-source.png", case.name));
        let view = Extent { width: case.view, height: case.view };
        let spec =
            ViewSpec { crop: CropSpec::CenterAfterResize { resize: case.resize }, ops: Vec::new() };
        let key = DrawKey { seed: 0, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 };
        let params = spec.draw(image.extent(), view, &mut key.rng());
        let geometry = Geometry::new(&params, view, PASSES);
        let expected = planes(&png(&format!("resize/{}.png", case.name)));
        assert!(resize(&image, &geometry) == expected, "{}", case.name);
    }
}

#[test]
fn a_window_has_the_pixels_of_the_whole() {
    let image = png("resize/source.png");
    let crop = CropBox { left: 4, top: 9, width: 80, height: 60 };
    let window = Origin { left: 17, top: 3 };
    let view = Extent { width: 30, height: 41 };
    for (passes, is_vertical_first) in
        [(ResizePasses::HorizontalFirst, false), (ResizePasses::Pillow13, true)]
    {
        let resized = Extent { width: 77, height: 45 };
        let whole = Geometry {
            crop,
            resized,
            window: Origin::default(),
            view: resized,
            passes,
            filter: Filter::Bicubic,
        };
        assert_eq!(whole.is_vertical_first(1), is_vertical_first);
        let whole = resize(&image, &whole);
        let part = resize(
            &image,
            &Geometry { crop, resized, window, view, passes, filter: Filter::Bicubic },
        );
        for channel in 0..3 {
            for y in 0..view.height as usize {
                let row = (window.top as usize + y) * 77 + window.left as usize;
                let expected = &whole.planes()[channel][row..][..30];
                assert_eq!(&part.planes()[channel][y * 30..][..30], expected);
            }
        }
    }
}
