//! Images that EXIF or XMP turn: what is seen equals Pillow's `ImageOps.exif_transpose`.

use headwater_core::draw::{CropBox, Extent};
use headwater_core::recipe::ExifOrientation;
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_pixels::image::RgbImage;
use headwater_render::decode::{DecodeLimits, Decoder, Wanted};
use headwater_render::{RenderKey, Renderer, ViewSink};

use super::fixtures::{bytes, path, png};

/// Windows of each image.
const WINDOWS: u32 = 40;
const KEY: RenderKey = RenderKey { seed: 5, epoch: 2, pass: 0, sample: SampleId(3) };

struct Row(Vec<u8>);

impl ViewSink for Row {
    fn row(&mut self, _: usize, _: usize) -> &mut [u8] {
        &mut self.0
    }
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(path("turned")).expect("fixtures");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("ASCII"));
    let names: Vec<String> = names.filter(|name| name != "expected").collect();
    assert!(names.len() >= 30, "{}", names.len());
    names
}

fn encoded(name: &str) -> Vec<u8> {
    bytes(&format!("turned/{name}"))
}

fn shown(name: &str) -> RgbImage {
    png(&format!("turned/expected/{name}.png"))
}

fn recipe(exif_orientation: ExifOrientation) -> Recipe {
    let recipe = Recipe::preset("imagenet-train", Dtype::U8).expect("a preset");
    Recipe { exif_orientation, ..recipe }
}

fn decoder(exif_orientation: ExifOrientation) -> Decoder {
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    decoder.follow(&recipe(exif_orientation)).expect("a decoder");
    decoder
}

fn rows_of(image: &RgbImage, window: CropBox) -> Vec<u8> {
    let CropBox { left, top, width, height } = window;
    let columns = left as usize..(left + width) as usize;
    let rows = |channel| image.rows(channel).skip(top as usize).take(height as usize);
    (0..3).flat_map(|channel| rows(channel).flat_map(|row| row[columns.clone()].to_vec())).collect()
}

#[test]
fn an_image_is_seen_as_pillow_shows_it_where_a_recipe_asks_for_it() {
    let mut applying = decoder(ExifOrientation::Apply);
    let mut ignoring = decoder(ExifOrientation::Ignore);
    for name in names() {
        let expected = shown(&name);
        let header = applying.header(&encoded(&name)).expect("a header");
        let image = applying.decode(&encoded(&name)).expect("an image");
        assert_eq!([image.extent(), header], [expected.extent(); 2], "{name}");
        assert!(image.pixels() == expected.pixels(), "{name}");
        let stored = ignoring.decode(&encoded(&name)).expect("an image").extent();
        assert_eq!(stored, Extent { width: 43, height: 29 }, "{name}");
    }
}

#[test]
fn a_window_has_the_pixels_of_the_whole() {
    let mut decoder = decoder(ExifOrientation::Apply);
    let mut rng = KEY.view(0).rng();
    for name in names() {
        let (file, expected) = (encoded(&name), shown(&name));
        for _ in 0..WINDOWS {
            let Extent { width, height } = expected.extent();
            let mut below = |limit: u32| rng.below(limit.into()) as u32;
            let (left, top) = (below(width), below(height));
            let (width, height) = (1 + below(width - left), 1 + below(height - top));
            let window = CropBox { left, top, width, height };
            let choose = |seen| {
                assert_eq!(seen, expected.extent(), "{name}");
                Wanted { reduction: 1, window }
            };
            let image = decoder.decode_wanted(&file, choose).expect("an image");
            assert!(rows_of(image, window) == rows_of(&expected, window), "{name} {window:?}");
        }
    }
}

/// The views of a turned image are those of a PNG of what is seen.
#[test]
fn views_are_cut_from_what_is_seen() {
    let mut renderer = Renderer::new().expect("a renderer");
    let mut view = |exif_orientation, file: &[u8]| {
        let mut row = Row(vec![0; 3 * 224 * 224]);
        let rendered = renderer.render(&recipe(exif_orientation), KEY, file, &mut row);
        (rendered.expect("a view").source, row.0)
    };
    for name in names() {
        let expected = bytes(&format!("turned/expected/{name}.png"));
        let found = view(ExifOrientation::Apply, &encoded(&name));
        assert!(found == view(ExifOrientation::Ignore, &expected), "{name}");
    }
}

/// The place in the stored image of a pixel that is seen, by the names that Pillow has for the numbers.
fn stored_place(
    number: u32,
    (x, y): (usize, usize),
    (width, height): (usize, usize),
) -> (usize, usize) {
    match number {
        1 => (x, y),
        2 => (width - 1 - x, y),
        3 => (width - 1 - x, height - 1 - y),
        4 => (x, height - 1 - y),
        5 => (y, x),
        6 => (y, height - 1 - x),
        7 => (width - 1 - y, height - 1 - x),
        8 => (width - 1 - y, x),
        _ => unreachable!("EXIF has eight"),
    }
}

#[test]
fn an_image_at_a_fraction_of_its_size_is_turned_as_it_is_then() {
    let (mut applying, mut ignoring) =
        (decoder(ExifOrientation::Apply), decoder(ExifOrientation::Ignore));
    for (number, reduction) in (1..=8).flat_map(|number| [2, 4, 8].map(|by| (number, by))) {
        let file = encoded(&format!("{number}.jpg"));
        let choose = |extent| Wanted::reduced(extent, reduction);
        let stored = ignoring.decode_wanted(&file, choose).expect("an image");
        assert_eq!(stored.reduction(), reduction);
        let size = (stored.extent().width as usize, stored.extent().height as usize);
        let pixels = stored.pixels();
        let seen = applying.decode_wanted(&file, choose).expect("an image");
        let columns = seen.extent().width as usize;
        for (place, pixel) in seen.pixels().chunks_exact(3).enumerate() {
            let (x, y) = stored_place(number, (place % columns, place / columns), size);
            assert_eq!(pixel, &pixels[3 * (y * size.0 + x)..][..3], "{number} {reduction} {place}");
        }
    }
}
