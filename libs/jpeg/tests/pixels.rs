//! Whole images and windows against libjpeg-turbo: the same bytes, or a doubt.

use std::fs;
use std::path::Path;

use headwater_jpeg::{Choice, Declined, Decoder, Entries, Output, Request, Way, Window};
use headwater_simd::Simd;

use crate::support::{Made, files, judge};

/// What a decoder makes of a file, with the entries it made if it was asked to.
struct Found {
    pixels: Vec<u8>,
    way: Way,
    entries: Option<Entries>,
}

fn found(
    decoder: &mut Decoder,
    file: &[u8],
    window: impl FnOnce(usize, usize) -> Window,
    entries: Option<&Entries>,
    record: bool,
) -> Result<Found, Declined> {
    let image = decoder.read(file)?;
    let window = window(image.width() as usize, image.height() as usize);
    let mut pixels = vec![1; 3 * window.width * window.height];
    let output = Output::Rgb { pixels: &mut pixels, stride: 3 * window.width };
    let decoded = image.decode(&Request { window, entries, record }, output)?;
    Ok(Found { pixels, way: decoded.way, entries: decoded.entries })
}

fn all(width: usize, height: usize) -> Window {
    Window { left: 0, top: 0, width, height }
}

fn cut(pixels: &[u8], width: usize, window: Window) -> Vec<u8> {
    let rows = pixels.chunks_exact(3 * width).skip(window.top).take(window.height);
    rows.flat_map(|row| &row[3 * window.left..3 * (window.left + window.width)]).copied().collect()
}

/// All ways to decode segments, by each set of instructions.
fn decoders() -> impl Iterator<Item = (Decoder, String)> {
    let choices = [(1, None), (2, None), (3, None), (4, None), (1, Some(2)), (1, Some(8))];
    Simd::available().iter().flat_map(move |simd| {
        choices.map(|(streams, lanes_from)| {
            let choice = Choice { streams, lanes_from, speculates_from: None, windows_from: None };
            (Decoder::new(*simd).choosing(choice), format!("{} and {choice:?}", simd.name()))
        })
    })
}

#[test]
fn whole_images_have_libjpegs_pixels() {
    for simd in Simd::available() {
        let mut decoder = Decoder::new(*simd);
        let mut ways = std::collections::HashSet::new();
        for Made { name, file } in files() {
            let expected = judge(&file).unwrap();
            let first = found(&mut decoder, &file, all, None, true).unwrap();
            assert!(first.pixels == expected.pixels, "{name} with {}", simd.name());
            let Some(entries) = first.entries else {
                ways.insert(first.way);
                continue;
            };
            let alone = decoder.read(&file).unwrap().entries().unwrap();
            assert_eq!(alone, entries, "{name}");
            let second = found(&mut decoder, &file, all, Some(&entries), false).unwrap();
            assert!(second.pixels == expected.pixels, "{name} with {} from entries", simd.name());
            ways.extend([first.way, second.way]);
        }
        assert!(ways.contains(&Way::One), "{ways:?}");
        assert!(ways.len() > 1, "{ways:?}");
    }
}

/// Made by `fuzz/begin.py`: markers after each 1 to 9 MCUs, and after each row.
#[test]
fn restart_markers_are_entry_points() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/pixels");
    let (mut files, mut ways) = (0, std::collections::HashSet::new());
    for entry in fs::read_dir(folder).expect("a corpus") {
        let path = entry.expect("a file").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with("restarts_") {
            continue;
        }
        let file = &fs::read(&path).expect("a file")[5..];
        let expected = judge(file).unwrap();
        let width = expected.width;
        for (mut decoder, with) in decoders() {
            let whole = found(&mut decoder, file, all, None, true).unwrap();
            assert!(whole.pixels == expected.pixels, "{name} with {with}");
            assert!(whole.way != Way::One && whole.entries.is_none(), "{name}: {:?}", whole.way);
            ways.insert(whole.way);
            let window = Window { left: 9, top: 25, width: 30, height: 9 };
            let part = found(&mut decoder, file, |_, _| window, None, false).unwrap();
            assert!(part.pixels == cut(&expected.pixels, width, window), "{name} with {with}");
        }
        files += 1;
    }
    assert_eq!(files, 30);
    assert!(ways.contains(&Way::Segments), "{ways:?}");
    assert_eq!(ways.contains(&Way::Interleaved), Simd::best() != Simd::Plain, "{ways:?}");
}

/// A folder of photographs, as large as there is time for: `HEADWATER_JPEG_PHOTOS=FOLDER cargo test -p headwater-jpeg
/// --test all -- --ignored photographs`.
#[test]
#[ignore = "needs HEADWATER_JPEG_PHOTOS"]
fn photographs_of_a_folder_have_libjpegs_pixels() {
    let folder = std::env::var_os("HEADWATER_JPEG_PHOTOS").expect("HEADWATER_JPEG_PHOTOS");
    let (mut same, mut doubts) = (0, 0);
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "jpg") {
            continue;
        }
        let file = fs::read(&path).expect("a file");
        for simd in Simd::available() {
            let mut decoder = Decoder::new(*simd);
            let Ok(first) = found(&mut decoder, &file, all, None, true) else {
                doubts += 1;
                continue;
            };
            let expected = judge(&file).unwrap();
            assert!(first.pixels == expected.pixels, "{} with {}", path.display(), simd.name());
            let second = found(&mut decoder, &file, all, first.entries.as_ref(), false).unwrap();
            assert!(second.pixels == expected.pixels, "{} with {}", path.display(), simd.name());
            same += 1;
        }
    }
    println!("{same} times the same pixels, {doubts} times a doubt");
    assert!(same > 0);
}

#[test]
fn windows_are_cut_out_of_the_whole() {
    for simd in Simd::available() {
        let mut decoder = Decoder::new(*simd);
        for Made { name, file } in files().into_iter().step_by(3) {
            let expected = judge(&file).unwrap();
            let (width, height) = (expected.width, expected.pixels.len() / 3 / expected.width);
            let entries = found(&mut decoder, &file, all, None, true).unwrap().entries;
            let windows = [
                (0, 0, 1, 1),
                (1, 1, 9, 9),
                (15, 17, 20, 3),
                (width / 2, height / 3, 40, 70),
                (width - 1, height - 1, 9, 9),
            ];
            for (left, top, w, h) in windows {
                let window = Window {
                    left: left.min(width - 1),
                    top: top.min(height - 1),
                    width: w.min(width - left.min(width - 1)),
                    height: h.min(height - top.min(height - 1)),
                };
                for entries in [None, entries.as_ref()] {
                    let found = found(&mut decoder, &file, |_, _| window, entries, false).unwrap();
                    assert!(
                        found.pixels == cut(&expected.pixels, width, window),
                        "{name}, {window:?} with {}",
                        simd.name()
                    );
                }
            }
        }
    }
}
