//! Samples that were kept give the colours that the file gives.

use headwater_jpeg::{Decoder, Layout, Output, Request, Window};
use headwater_simd::Simd;

use crate::support::{Made, files};

/// Bytes where nobody has to look.
const ELSEWHERE: u8 = 0xa5;

/// The samples of an image as they are kept.
struct Kept {
    layout: [u8; 12],
    planes: Vec<Vec<u8>>,
}

fn kept(decoder: &mut Decoder) -> Kept {
    let (layout, planes) = decoder.samples().expect("the samples of a whole image");
    Kept { layout: layout.write(), planes: planes.map(<[u8]>::to_vec).collect() }
}

fn decoded(decoder: &mut Decoder, file: &[u8], window: Window) -> Vec<u8> {
    let mut pixels = vec![0; 3 * window.width * window.height];
    let output = Output::Rgb { pixels: &mut pixels, stride: 3 * window.width };
    let request = Request { window, entries: None, record: false };
    decoder.read(file).expect("an image").decode(&request, output).expect("an image");
    pixels
}

/// The colours of a window; only rows that are asked for are there.
fn converted(decoder: &mut Decoder, kept: &Kept, window: Window) -> Vec<u8> {
    let layout = Layout::read(&kept.layout).expect("a layout");
    let mut pixels = vec![0; 3 * window.width * window.height];
    let output = Output::Rgb { pixels: &mut pixels, stride: 3 * window.width };
    let strides: Vec<usize> = layout.planes().map(|plane| plane.stride).collect();
    let is_read = decoder.convert(&layout, window, output, |n, rows, plane| {
        assert_eq!(plane.len(), kept.planes[n].len());
        plane.fill(ELSEWHERE);
        let bytes = rows.start * strides[n]..rows.end * strides[n];
        plane[bytes.clone()].copy_from_slice(&kept.planes[n][bytes]);
        true
    });
    assert!(is_read);
    pixels
}

fn windows(width: usize, height: usize) -> impl Iterator<Item = Window> {
    let all = Window { left: 0, top: 0, width, height };
    let parts = (0..12).map(move |n| {
        let (left, top) = (n * 5 % width, n * 7 % height);
        let (columns, rows) = (1 + (n * 11) % (width - left), 1 + (n * 3) % (height - top));
        Window { left, top, width: columns, height: rows }
    });
    std::iter::once(all).chain(parts)
}

#[test]
fn each_window_is_the_one_that_the_file_gives() {
    for simd in Simd::available() {
        let (mut decoder, mut reader) = (Decoder::new(*simd), Decoder::new(*simd));
        for Made { name, file } in files() {
            let image = decoder.read(&file).expect("an image");
            let (width, height) = (image.width() as usize, image.height() as usize);
            decoded(&mut decoder, &file, Window { left: 0, top: 0, width, height });
            let kept = kept(&mut decoder);
            for window in windows(width, height) {
                let found = converted(&mut reader, &kept, window);
                let expected = decoded(&mut decoder, &file, window);
                assert!(found == expected, "{name}, {window:?} with {}", simd.name());
            }
        }
    }
}

#[test]
fn there_are_no_samples_of_a_part_or_of_nothing() {
    let mut decoder = Decoder::new(Simd::best());
    let Made { file, .. } = files().into_iter().max_by_key(|made| made.file.len()).expect("a file");
    assert!(decoder.samples().is_none());
    let image = decoder.read(&file).expect("an image");
    let (width, height) = (image.width() as usize, image.height() as usize);
    assert!(width > 32 && height > 32, "{width} x {height}");
    decoded(&mut decoder, &file, Window { left: 0, top: 0, width: 4, height: 4 });
    assert!(decoder.samples().is_none());
    decoded(&mut decoder, &file, Window { left: 0, top: 0, width, height });
    assert!(decoder.samples().is_some());
    decoder.forget_samples();
    assert!(decoder.samples().is_none());
    decoded(&mut decoder, &file, Window { left: 0, top: 0, width, height });
    let _ = decoder.read(&file[..2]);
    assert!(decoder.samples().is_none());
    // A reader that fails ends it.
    let kept = {
        decoded(&mut decoder, &file, Window { left: 0, top: 0, width, height });
        kept(&mut decoder)
    };
    let layout = Layout::read(&kept.layout).expect("a layout");
    let mut pixels = [0; 3];
    let output = Output::Rgb { pixels: &mut pixels, stride: 3 };
    let window = Window { left: 0, top: 0, width: 1, height: 1 };
    assert!(!decoder.convert(&layout, window, output, |_, _, _| false));
}

#[test]
fn what_is_no_layout_is_refused() {
    let mut decoder = Decoder::new(Simd::best());
    let Made { file, .. } = files().into_iter().next().expect("a file");
    let image = decoder.read(&file).expect("an image");
    let (width, height) = (image.width() as usize, image.height() as usize);
    decoded(&mut decoder, &file, Window { left: 0, top: 0, width, height });
    let good = kept(&mut decoder).layout;
    assert!(Layout::read(&good).is_some_and(|layout| layout.write() == good));
    for (at, byte) in [(3, 1), (8, 3), (9, 0x00), (9, 0x13), (9, 0x44), (10, 0x50)] {
        let mut bad = good;
        bad[at] = byte;
        assert!(Layout::read(&bad).is_none(), "byte {at}: {byte:#x}");
    }
    assert!(Layout::read(&[0; 12]).is_none());
}
