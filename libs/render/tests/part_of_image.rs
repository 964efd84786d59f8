//! Decoding a part of a JPEG gives the pixels that decoding all of it gives, and the same verdict.

use headwater_core::SampleId;
use headwater_core::draw::{CropBox, DrawKey, DrawRng, Extent};
use headwater_pixels::image::RgbImage;
use headwater_render::decode::{DecodeErrorKind, DecodeFailure, DecodeLimits, Decoder, Wanted};
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use crate::photos;

fn rng(seed: u64) -> DrawRng {
    DrawKey { seed, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 }.rng()
}

/// The pixels of a window, or why the image is none. With a decoder of its own, so that nothing
/// is left in its memory from an earlier window.
fn decode(encoded: &[u8], wanted: Option<Wanted>) -> Result<RgbImage, DecodeErrorKind> {
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let wanted = |image| wanted.map_or(Wanted::all(image), |wanted| within(wanted, image));
    let image = decoder.decode_wanted(encoded, wanted).map_err(|error| match error {
        DecodeFailure::Bytes(error) => error.kind(),
        DecodeFailure::Passing { reason } => panic!("no verdict: {reason}"),
    })?;
    Ok(RgbImage::from_pixels(image.extent(), image.pixels()))
}

/// The window, or all of an image that turns out to be smaller.
fn within(wanted: Wanted, image: Extent) -> Wanted {
    let Wanted { window, reduction } = wanted;
    let all = Wanted::reduced(image, reduction);
    let fits = |start, len, side| start + len <= side;
    let fits = fits(window.left, window.width, all.window.width)
        && fits(window.top, window.height, all.window.height);
    if fits { wanted } else { all }
}

/// More than any image has: all of it.
fn of_any_size(reduction: u32) -> Wanted {
    Wanted::reduced(Extent { width: u32::MAX / 2, height: u32::MAX / 2 }, reduction)
}

/// Everything at full size, or at a half, a quarter or an eighth.
fn reduced(rng: &mut DrawRng, image: Extent) -> Wanted {
    Wanted::reduced(image, 1 << rng.below(4))
}

/// The rows of a window, plane by plane.
fn rows(image: &RgbImage, window: CropBox) -> impl Iterator<Item = &[u8]> {
    let columns = window.left as usize..(window.left + window.width) as usize;
    let rows = (0..3).flat_map(move |channel| {
        image.rows(channel).skip(window.top as usize).take(window.height as usize)
    });
    rows.map(move |row| &row[columns.clone()])
}

/// A stretch of an axis: anywhere, at an edge, or a single pixel.
fn stretch(rng: &mut DrawRng, len: u32) -> (u32, u32) {
    let mut below = |bound: u32| rng.below(u64::from(bound)) as u32;
    let (start, kind) = (below(len), below(4));
    match kind {
        0 => (0, start + 1),
        1 => (start, len - start),
        2 => (start, 1),
        _ => (start, 1 + below(len - start)),
    }
}

fn window(rng: &mut DrawRng, image: Extent) -> CropBox {
    let (left, width) = stretch(rng, image.width);
    let (top, height) = stretch(rng, image.height);
    CropBox { left, top, width, height }
}

fn windows_equal(name: &str, encoded: &[u8], windows: usize, rng: &mut DrawRng) {
    let extent = decode(encoded, None).unwrap_or_else(|kind| panic!("{name}: {kind:?}")).extent();
    for _ in 0..windows {
        let all = reduced(rng, extent);
        let whole = decode(encoded, Some(all)).expect("it is good at full size");
        let window = window(rng, whole.extent());
        let part = decode(encoded, Some(Wanted { window, ..all })).expect("it is good as a whole");
        assert_eq!(part.extent(), whole.extent(), "{name}");
        assert!(rows(&part, window).eq(rows(&whole, window)), "{name}: {window:?} of {all:?}");
    }
}

/// The JPEG files of the fixtures: samplings, progressive, restarts, gray, four inks, tiny sizes.
fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decode");
    let entries =
        std::fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("an entry"));
    let jpegs = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "jpg"));
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("it"))
    };
    let mut files: Vec<_> = jpegs.map(file).collect();
    files.sort();
    files
}

#[test]
fn a_part_of_a_photograph_has_the_pixels_of_the_whole() {
    let mut rng = rng(1);
    for (number, photo) in photos::all().iter().enumerate() {
        windows_equal(&format!("photograph {number}"), photo, 6, &mut rng);
    }
}

#[test]
fn a_part_of_any_kind_of_jpeg_has_the_pixels_of_the_whole() {
    let mut rng = rng(2);
    let files = fixtures();
    assert!(files.len() >= 20, "{} fixtures", files.len());
    for (name, encoded) in files {
        windows_equal(&name, &encoded, 200, &mut rng);
    }
}

#[test]
fn whatever_the_sampling_and_however_odd_the_size() {
    use Subsamp::{Gray, None, Sub1x2, Sub1x4, Sub2x1, Sub2x2, Sub4x1};
    let photo = decode(&photos::all()[1], Option::None).expect("a photograph");
    let pixels = photo.pixels();
    let mut compressor = Compressor::new().expect("a compressor");
    let mut rng = rng(3);
    for subsamp in [None, Sub2x1, Sub2x2, Gray, Sub1x2, Sub4x1, Sub1x4] {
        compressor.set_subsamp(subsamp).expect("a sampling");
        for (width, height) in [(1, 1), (7, 40), (16, 16), (17, 33), (31, 9), (64, 48), (131, 97)] {
            let pitch = 3 * photo.extent().width as usize;
            let (pixels, format) = (&pixels[..], PixelFormat::RGB);
            let image = Image { pixels, width, pitch, height, format };
            let encoded = compressor.compress_to_vec(image).expect("a JPEG");
            windows_equal(&format!("{subsamp:?} {width}x{height}"), &encoded, 60, &mut rng);
        }
    }
}

#[test]
fn damage_is_judged_alike_whatever_part_is_wanted() {
    let mut rng = rng(4);
    let mut verdicts = [0; 2];
    for (name, encoded) in fixtures() {
        for _ in 0..150 {
            let mut damaged = encoded.clone();
            for _ in 0..=rng.below(3) {
                let at = 2 + rng.below(damaged.len() as u64 - 2) as usize;
                damaged[at] = rng.below(256) as u8;
            }
            if rng.gate(0.2) {
                damaged.truncate(2 + rng.below(damaged.len() as u64 - 2) as usize);
            }
            let all = reduced(&mut rng, Extent { width: 83, height: 61 });
            // Damage may have made the image larger.
            let whole = decode(&damaged, Some(of_any_size(all.reduction)));
            verdicts[usize::from(whole.is_ok())] += 1;
            let image = whole.as_ref().map_or(Extent { width: 9, height: 9 }, RgbImage::extent);
            let window = window(&mut rng, image);
            match (whole, decode(&damaged, Some(Wanted { window, ..all }))) {
                (Ok(whole), Ok(part)) => {
                    assert!(rows(&part, window).eq(rows(&whole, window)), "{name}: {window:?}");
                }
                (whole, part) => {
                    assert_eq!(part.map(|_| ()), whole.map(|_| ()), "{name}: {window:?}");
                }
            }
        }
    }
    assert!(verdicts.iter().all(|&count| count > 300), "bad and good: {verdicts:?}");
}
