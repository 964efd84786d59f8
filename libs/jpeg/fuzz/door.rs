//! Any bytes as a JPEG with any entries: libjpeg-turbo's pixels, or a doubt.
//!
//! Used by the fuzz target, and by `tests/corpus.rs`, which replays what it has found.

use headwater_jpeg::{Choice, Declined, Decoder, Entries, Output, Request, Window};
use headwater_simd::Simd;
use turbojpeg::PixelFormat;

/// Large images would make the fuzzer slow, not find more.
const PIXELS_MAX: usize = 1 << 18;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 14;

/// The first byte is the number of entries, which follow; then come four bytes for a window, and then the file.
pub(crate) fn pixels(bytes: &[u8]) {
    let Some((&entries, rest)) = bytes.split_first() else { return };
    let Some((entries, rest)) = rest.split_at_checked(usize::from(entries) * ENTRY_BYTES) else {
        return;
    };
    let Some((&cut, file)) = rest.split_first_chunk::<4>() else { return };
    let entries = Entries::read(entries);
    let mut judged = None;
    // Not what measures best: each run of a file is the same.
    let streams = 1 + usize::from(cut[0] % 4);
    let choice = Choice { streams, lanes_from: Some(8), speculates_from: None, windows_from: None };
    // Some of the decoders fall into step in images of any size.
    let in_step = Choice { speculates_from: Some(0), ..choice };
    let in_windows =
        Choice { streams: 2 + usize::from(cut[0] % 3), windows_from: Some(0), ..choice };
    let decoders = Simd::available().iter().map(|simd| Decoder::new(*simd).choosing(choice));
    let guessing = [in_step, in_windows].map(|choice| Decoder::new(Simd::best()).choosing(choice));
    for mut decoder in decoders.chain(guessing) {
        let Ok(image) = decoder.read(file) else { return };
        let (width, height) = (image.width() as usize, image.height() as usize);
        if width * height > PIXELS_MAX {
            return;
        }
        let all = Window { left: 0, top: 0, width, height };
        let part = part(width, height, cut);
        let made = decode(&mut decoder, file, all, None, true).inspect(|(pixels, _)| {
            check(file, &mut judged, pixels, width, all);
        });
        let made = made.ok().and_then(|(_, made)| made);
        let changed = made.as_ref().and_then(|made| changed(made, cut));
        for entries in [None, entries.as_ref(), made.as_ref(), changed.as_ref()] {
            for window in [all, part] {
                if let Ok((pixels, _)) = decode(&mut decoder, file, window, entries, false) {
                    check(file, &mut judged, &pixels, width, window);
                }
            }
        }
    }
}

/// Entries with one bit changed.
fn changed(made: &Entries, [high, low, bit, _]: [u8; 4]) -> Option<Entries> {
    let mut bytes = Vec::new();
    made.write(&mut bytes);
    let at = usize::from(u16::from_be_bytes([high, low])) % bytes.len().max(1);
    *bytes.get_mut(at)? ^= 1 << (bit % 8);
    Entries::read(&bytes)
}

fn part(width: usize, height: usize, cut: [u8; 4]) -> Window {
    let [left, top, right, bottom] = cut.map(usize::from);
    let (left, top) = (left * width / 256, top * height / 256);
    let side = |start: usize, len: usize, cut: usize| ((len - start) * cut / 256).max(1);
    Window { left, top, width: side(left, width, right), height: side(top, height, bottom) }
}

fn decode(
    decoder: &mut Decoder,
    file: &[u8],
    window: Window,
    entries: Option<&Entries>,
    record: bool,
) -> Result<(Vec<u8>, Option<Entries>), Declined> {
    let mut pixels = vec![0; 3 * window.width * window.height];
    let output = Output::Rgb { pixels: &mut pixels, stride: 3 * window.width };
    let decoded = decoder.read(file)?.decode(&Request { window, entries, record }, output)?;
    Ok((pixels, decoded.entries))
}

/// Panics unless these are libjpeg-turbo's pixels of the window, and the file one without fault.
///
/// A part of an image may be read without what lies below it, and from proven entries without what lies above: then a
/// fault in the rest goes unnoticed, and does not change the part. Whether libjpeg-turbo warns of it is not asked.
fn check(
    file: &[u8],
    judged: &mut Option<(Vec<u8>, bool)>,
    found: &[u8],
    width: usize,
    window: Window,
) {
    let (expected, is_clean) = judged.get_or_insert_with(|| judge(file));
    let height = expected.len() / 3 / width;
    let is_whole = window.top + window.height == height && window.top == 0 && window.left == 0;
    assert!(*is_clean || !is_whole, "pixels of a file of which libjpeg-turbo warns");
    let rows = expected.chunks_exact(3 * width).skip(window.top).take(window.height);
    let expected = rows.flat_map(|row| &row[3 * window.left..3 * (window.left + window.width)]);
    assert!(expected.eq(found), "other pixels in {window:?}");
}

/// libjpeg-turbo's pixels, also of a file that it warns of, and whether it does not.
fn judge(file: &[u8]) -> (Vec<u8>, bool) {
    let mut turbo = turbojpeg::Decompressor::new().expect("libjpeg-turbo");
    let header = turbo.read_header(file).expect("a header that was read here");
    let (width, height) = (header.width, header.height);
    let mut pixels = vec![0; 3 * width * height];
    let image = turbojpeg::Image {
        pixels: &mut pixels[..],
        width,
        pitch: 3 * width,
        height,
        format: PixelFormat::RGB,
    };
    let is_clean = turbo.decompress(file, image).is_ok();
    (pixels, is_clean)
}
