//! Resize.

use headwater_core::draw::{CropBox, DrawRng, Extent, Filter, Origin};
use headwater_core::recipe::ResizePasses;
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::ops::flip;
use headwater_pixels::ops::resize::{Geometry, KEPT_BYTES, Resizer, plain};
use headwater_pixels::simd::Simd;

use super::pictures::{from_range, image, planes, rng, twins};

fn views(simd: Simd, image: &RgbImage, geometries: &[(Geometry, bool)]) -> Vec<Planes> {
    let mut resizer = Resizer::new(simd);
    let view = |(geometry, mirrored): &(Geometry, bool)| {
        let mut view = Planes::new();
        resizer.resize(image, geometry, *mirrored, &mut view);
        view
    };
    geometries.iter().map(view).collect()
}

/// The same by either rule for the order of the passes.
fn both_orders(geometries: &[(Geometry, bool)]) -> Vec<(Geometry, bool)> {
    let passes = [ResizePasses::HorizontalFirst, ResizePasses::Pillow13];
    let with = |passes| {
        geometries
            .iter()
            .map(move |&(geometry, mirrored)| (Geometry { passes, ..geometry }, mirrored))
    };
    passes.into_iter().flat_map(with).collect()
}

fn all_equal(image: &RgbImage, geometries: &[(Geometry, bool)]) {
    let geometries = &both_orders(geometries);
    let plain = views(Simd::Plain, image, geometries);
    for simd in twins() {
        let twin = views(*simd, image, geometries);
        for ((plain, twin), case) in plain.iter().zip(&twin).zip(geometries) {
            assert!(plain == twin, "{} of {:?}: {case:?}", simd.name(), image.extent());
        }
    }
}

fn geometry(rng: &mut DrawRng, image: Extent, side_max: u32) -> (Geometry, bool) {
    let width = from_range(rng, 1, image.width);
    let height = from_range(rng, 1, image.height);
    let crop = CropBox {
        left: from_range(rng, 0, image.width - width),
        top: from_range(rng, 0, image.height - height),
        width,
        height,
    };
    let resized =
        Extent { width: from_range(rng, 1, side_max), height: from_range(rng, 1, side_max) };
    let view = Extent {
        width: from_range(rng, 1, resized.width),
        height: from_range(rng, 1, resized.height),
    };
    let window = Origin {
        left: from_range(rng, 0, resized.width - view.width),
        top: from_range(rng, 0, resized.height - view.height),
    };
    let passes = [ResizePasses::HorizontalFirst, ResizePasses::Pillow13][rng.below(2) as usize];
    let filters =
        [Filter::Nearest, Filter::Box, Filter::Bilinear, Filter::Bicubic, Filter::Bicubic];
    let filter = filters[rng.below(5) as usize];
    (Geometry { crop, resized, window, view, passes, filter }, rng.gate(0.5))
}

#[test]
fn random_boxes_of_random_images_are_equal() {
    for seed in 0..150 {
        let mut rng = rng(seed);
        let extent =
            Extent { width: from_range(&mut rng, 1, 130), height: from_range(&mut rng, 1, 130) };
        let image = image(&mut rng, extent);
        let cases: Vec<_> = (0..6).map(|_| geometry(&mut rng, extent, 120)).collect();
        all_equal(&image, &cases);
    }
}

/// A stretch of an axis: anywhere, all of it, at an edge, or a single position.
fn stretch(rng: &mut DrawRng, len: u32) -> (u32, u32) {
    let (start, kind) = (from_range(rng, 0, len - 1), rng.below(6));
    match kind {
        0 => (0, len),
        1 => (0, start + 1),
        2 => (start, len - start),
        3 => (start, 1),
        _ => (start, from_range(rng, 1, len - start)),
    }
}

/// Windows of vectors, their edges and what is too wide for them: sides from far more than the
/// view's to one pixel, boxes at every edge, images at a fraction of their size, whose boxes then begin and end
/// between pixels.
#[test]
fn any_scale_of_any_box_of_a_large_image_is_equal() {
    let (mut fractional, mut scales) = (0, [0; 4]);
    for seed in 0..200 {
        let mut rng = rng(seed);
        let sides = [(5, 700), (600, 40), (333, 250), (1, 400), (400, 1)][rng.below(5) as usize];
        let extent = Extent {
            width: from_range(&mut rng, sides.0.min(65), sides.0),
            height: from_range(&mut rng, sides.1.min(65), sides.1),
        };
        let reduction = 1 << rng.below(4);
        let mut image = RgbImage::new();
        image.set_planes(&planes(&mut rng, extent), reduction);
        // The image in the file, whose last pixels may fill less than one here.
        let whole =
            |side: u32, rng: &mut DrawRng| side * reduction - rng.below(reduction.into()) as u32;
        let file = (whole(extent.width, &mut rng), whole(extent.height, &mut rng));
        let cases: Vec<_> = (0..6)
            .map(|_| {
                let (mut case, mirrored) = geometry(&mut rng, extent, 120);
                let ((left, width), (top, height)) =
                    (stretch(&mut rng, file.0), stretch(&mut rng, file.1));
                case.crop = CropBox { left, top, width, height };
                fractional += usize::from(left % reduction != 0);
                let scale = width as f64 / f64::from(case.resized.width * reduction);
                scales[[1.0, 3.0, 6.0].iter().filter(|least| scale > **least).count()] += 1;
                (case, mirrored)
            })
            .collect();
        all_equal(&image, &cases);
    }
    assert!(fractional > 200, "{fractional} boxes that begin between pixels");
    assert!(scales.iter().all(|&count| count > 60), "boxes by scale: {scales:?}");
}

#[test]
fn the_views_of_dinov2_of_a_photo_sized_image_are_equal() {
    let mut rng = rng(1);
    let extent = Extent { width: 500, height: 375 };
    let image = image(&mut rng, extent);
    let mut cases = Vec::new();
    for side in [224, 96, 98, 96, 224] {
        let (mut geometry, mirrored) = geometry(&mut rng, extent, side);
        geometry.resized = Extent { width: side, height: side };
        geometry.view = geometry.resized;
        geometry.window = Origin::default();
        cases.push((geometry, mirrored));
    }
    all_equal(&image, &cases);
}

#[test]
fn sides_that_are_kept_and_extreme_scales_are_equal() {
    let mut rng = rng(2);
    let sizes = [(64, 48), (1, 1), (1, 300), (300, 1), (7, 5), (1000, 3)];
    for (width, height) in sizes {
        let extent = Extent { width, height };
        let image = image(&mut rng, extent);
        let crop = CropBox { left: 0, top: 0, width, height };
        let case = |width, height, mirrored| {
            let resized = Extent { width, height };
            let (window, view) = (Origin::default(), resized);
            let passes = ResizePasses::HorizontalFirst;
            (Geometry { crop, resized, window, view, passes, filter: Filter::Bicubic }, mirrored)
        };
        all_equal(
            &image,
            &[
                case(width, height, false),
                case(width, height, true),
                case(width, 33, false),
                case(33, height, true),
                case(1, 1, false),
                case(200, 2, false),
                case(2, 200, true),
            ],
        );
    }
}

#[test]
fn a_resizer_forgets_the_image_before() {
    let mut rng = rng(3);
    for simd in twins() {
        let mut resizer = Resizer::new(*simd);
        for (width, height) in [(90, 70), (20, 30), (128, 128), (5, 3)] {
            let extent = Extent { width, height };
            let image = image(&mut rng, extent);
            let (geometry, mirrored) = geometry(&mut rng, extent, 60);
            let mut view = Planes::new();
            resizer.resize(&image, &geometry, mirrored, &mut view);
            assert!([view] == views(Simd::Plain, &image, &[(geometry, mirrored)])[..]);
        }
    }
}

/// An image with other values outside a box.
fn changed_outside(image: &RgbImage, kept: CropBox, other: &RgbImage) -> RgbImage {
    let extent = image.extent();
    let (kept_pixels, mut pixels) = (image.pixels(), other.pixels());
    let row_bytes = 3 * extent.width as usize;
    for row in kept.top..kept.top + kept.height {
        let start = row as usize * row_bytes + 3 * kept.left as usize;
        let columns = start..start + 3 * kept.width as usize;
        pixels[columns.clone()].copy_from_slice(&kept_pixels[columns]);
    }
    RgbImage::from_pixels(extent, pixels)
}

#[test]
fn no_pixel_outside_its_source_changes_a_view() {
    let (mut smaller, mut vertical) = (0, 0);
    for seed in 0..150 {
        let mut rng = rng(seed);
        let extent =
            Extent { width: from_range(&mut rng, 1, 90), height: from_range(&mut rng, 1, 90) };
        let (first, other) = (image(&mut rng, extent), image(&mut rng, extent));
        let case = geometry(&mut rng, extent, 80);
        let source = case.0.source(1);
        smaller += usize::from(source != case.0.crop);
        vertical += usize::from(case.0.is_vertical_first(1));
        let changed = changed_outside(&first, source, &other);
        for simd in Simd::available() {
            let alike = views(*simd, &first, &[case]) == views(*simd, &changed, &[case]);
            assert!(alike, "{} of {extent:?}: {case:?}, source {source:?}", simd.name());
        }
    }
    assert!(smaller > 50, "{smaller} windows that need less than their box");
    assert!(vertical > 10, "{vertical} whose vertical pass comes first");
}

/// Views that would take far more memory at once than their image has. `plain::resize`, which takes it, is the
/// judge.
#[test]
fn views_made_by_pieces_are_equal() {
    let mut rng = rng(4);
    let filters = [Filter::Nearest, Filter::Box, Filter::Bilinear, Filter::Bicubic];
    let (resized, view) = (Extent { width: 230, height: 228 }, Extent { width: 225, height: 224 });
    let window = Origin { left: 3, top: 2 };
    for (width, height) in [(1, 30_000), (5, 40_000), (150_000, 1), (140_000, 3)] {
        let extent = Extent { width, height };
        let image = image(&mut rng, extent);
        let crop = CropBox { left: 0, top: 0, width, height };
        for filter in filters {
            let passes = ResizePasses::HorizontalFirst;
            let case = (Geometry { crop, resized, window, view, passes, filter }, rng.gate(0.5));
            for case in both_orders(&[case]) {
                is_plain(&image, case);
            }
        }
        let horizontal_first = ResizePasses::HorizontalFirst;
        let filter = Filter::Bicubic;
        let case = Geometry { crop, resized, window, view, passes: horizontal_first, filter };
        assert!(case.is_piecewise(extent, 1), "{extent:?} is not made by pieces");
    }
}

/// Asserts that each resizer makes what `plain::resize` makes.
fn is_plain(image: &RgbImage, case: (Geometry, bool)) {
    let mut plain = Planes::new();
    plain::resize(image, &case.0, &mut plain::Scratch::default(), &mut plain);
    if case.1 {
        flip::plain::apply(&mut plain);
    }
    for simd in Simd::available() {
        assert!(views(*simd, image, &[case]) == [plain.clone()], "{}: {case:?}", simd.name());
    }
}

/// The positions of such a window have no place in 32 bits with a sign.
#[test]
fn a_window_far_into_an_image_that_is_resized_to_the_utmost_is_equal() {
    let extent = Extent { width: 1, height: 3_000_000 };
    let image = image(&mut rng(5), extent);
    let crop = CropBox { left: 0, top: 0, width: 1, height: extent.height };
    let resized = Extent { width: 256, height: u32::MAX };
    let view = Extent { width: 224, height: 224 };
    for top in [0, i32::MAX as u32 - 100, u32::MAX / 2, u32::MAX - 224] {
        for filter in [Filter::Bilinear, Filter::Bicubic] {
            let window = Origin { left: 16, top };
            let passes = ResizePasses::HorizontalFirst;
            let case = Geometry { crop, resized, window, view, passes, filter };
            assert_eq!(case.reduction_max(), 1);
            is_plain(&image, (case, top == 0));
        }
    }
}

#[test]
fn no_resizer_keeps_what_a_large_view_took() {
    let mut rng = rng(6);
    // Many rows between the passes, in tables and for one channel.
    let extent = Extent { width: 1200, height: 5000 };
    let image = image(&mut rng, extent);
    let crop = CropBox { left: 0, top: 0, width: 1200, height: 5000 };
    let view = Extent { width: 1100, height: 300 };
    let (window, passes) = (Origin::default(), ResizePasses::HorizontalFirst);
    let filter = Filter::Bicubic;
    let case = Geometry { crop, resized: view, window, view, passes, filter };
    assert!(case.work_bytes(1) > KEPT_BYTES && !case.is_piecewise(extent, 1));
    for simd in Simd::available() {
        let mut resizer = Resizer::new(*simd);
        let unused = format!("{resizer:?}");
        resizer.resize(&image, &case, false, &mut Planes::new());
        assert!(format!("{resizer:?}") == unused, "{} keeps memory", simd.name());
    }
}
