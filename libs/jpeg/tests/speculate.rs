//! Images without entry points that are decoded by falling into step: what one stream gives, or the same doubt.

use std::fs;
use std::path::Path;

use headwater_jpeg::{Choice, Declined, Decoder, Entries, Output, Request, Way, Window};
use headwater_simd::Simd;

use crate::support::{Made, SUBSAMPLINGS, compressed, files, judge, made, picture};

/// Pixels of an image, the way to them and the entries that were made.
type Found = (Vec<u8>, Way, Option<Entries>);

fn found(
    decoder: &mut Decoder,
    file: &[u8],
    entries: Option<&Entries>,
    record: bool,
) -> Result<Found, Declined> {
    let image = decoder.read(file)?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    let window = Window { left: 0, top: 0, width, height };
    let mut pixels = vec![1; 3 * width * height];
    let output = Output::Rgb { pixels: &mut pixels, stride: 3 * width };
    let decoded = image.decode(&Request { window, entries, record }, output)?;
    Ok((pixels, decoded.way, decoded.entries))
}

/// Falls into step in images of `from` MCUs and more, by the streams of scalar code or, with one, in the lanes of vectors,
/// whatever measures best here.
fn decoder(streams: usize, from: Option<u32>) -> Decoder {
    let [in_lanes, in_windows] = [streams == 1, streams > 1].map(|is| from.filter(|_| is));
    let choice = Choice {
        streams,
        lanes_from: Some(8),
        speculates_from: in_lanes,
        windows_from: in_windows,
    };
    Decoder::new(Simd::best()).choosing(choice)
}

/// One that never tries.
fn one() -> Decoder {
    decoder(1, None)
}

/// Numbers of streams, each with whether its decoder can fall into step here.
fn all_streams() -> impl Iterator<Item = (usize, bool)> {
    let in_lanes = match Simd::best() {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => proof.vbmi2().is_some(),
        _ => false,
    };
    [(1, in_lanes)].into_iter().chain((2..=4).map(|streams| (streams, Simd::best() != Simd::Plain)))
}

#[test]
fn all_images_have_the_pixels_of_one_stream() {
    for (streams, can) in all_streams() {
        images_have_the_pixels_of_one_stream(streams, can);
    }
}

fn images_have_the_pixels_of_one_stream(streams: usize, can: bool) {
    let (mut decoder, mut one) = (decoder(streams, Some(0)), one());
    let mut in_step = 0;
    for Made { name, file } in files() {
        let (expected, way, _) = found(&mut one, &file, None, true).unwrap();
        assert_eq!(way, Way::One, "{name}");
        let (pixels, way, entries) = found(&mut decoder, &file, None, true).unwrap();
        assert!(pixels == expected, "{name} by {way:?}");
        if way != Way::Speculative {
            continue;
        }
        in_step += 1;
        let entries = entries.expect("entries of a whole image");
        assert!(entries.are_proven(), "{name}");
        let (pixels, _, _) = found(&mut one, &file, Some(&entries), false).unwrap();
        assert!(pixels == expected, "{name} from its entries");
        let mut bytes = Vec::new();
        entries.write(&mut bytes);
        let unproven = Entries::read(&bytes).expect("entries in order");
        let (pixels, _, _) = found(&mut one, &file, Some(&unproven), false).unwrap();
        assert!(pixels == expected, "{name} from its entries, proven anew");
    }
    assert!(in_step > 100 || !can, "{in_step}");
}

#[test]
fn only_images_of_the_chosen_size_fall_into_step() {
    for ((streams, can), subsampling) in
        all_streams().flat_map(|streams| SUBSAMPLINGS.map(|subsampling| (streams, subsampling)))
    {
        let mut decoder = decoder(streams, Some(1024));
        let large = if can { Way::Speculative } else { Way::One };
        for (size, expected) in [((800, 600), large), ((60, 50), Way::One)] {
            let Made { name, file } = made(size, subsampling, 85, true);
            for record in [false, true] {
                let (pixels, way, entries) = found(&mut decoder, &file, None, record).unwrap();
                assert_eq!((way, entries.is_some()), (expected, record), "{name}");
                let expected = judge(&file).unwrap();
                assert!(expected.width == size.0 && pixels == expected.pixels, "{name}");
            }
        }
    }
}

#[test]
fn no_more_is_decoded_than_is_wanted() {
    let (width, height) = (800, 600);
    for ((streams, can), subsampling) in
        all_streams().flat_map(|streams| SUBSAMPLINGS.map(|subsampling| (streams, subsampling)))
    {
        let mut decoder = decoder(streams, Some(0));
        let Made { name, file } = made((width, height), subsampling, 85, false);
        let expected = judge(&file).unwrap().pixels;
        let speculative = if can { Way::Speculative } else { Way::One };
        for (top, rows) in [(0, 40), (300, 200)] {
            let window = Window { left: 99, top, width: 300, height: rows };
            let mut pixels = vec![1; 3 * 300 * rows];
            let output = Output::Rgb { pixels: &mut pixels, stride: 3 * 300 };
            let request = Request { window, entries: None, record: false };
            let decoded = decoder.read(&file).unwrap().decode(&request, output).unwrap();
            assert_eq!((decoded.way, decoded.entries), (speculative, None), "{name}");
            let expected = expected.chunks_exact(3 * width).skip(top).take(rows);
            let expected = expected.flat_map(|row| &row[3 * 99..3 * 399]);
            assert!(expected.eq(&pixels), "{name} from row {top}");
        }
    }
}

/// White blocks take so few bits that lanes have no room for those in their part of the scan.
#[test]
fn lanes_without_room_change_no_pixel() {
    let (width, height) = (1000, 720);
    let picture = picture(width, height, 1);
    for subsampling in SUBSAMPLINGS {
        for (from, to) in [(300, 340), (340, 360), (400, 720), (500, 720), (600, 720), (680, 720)] {
            let mut pixels = picture.clone();
            pixels[from * 3 * width..to * 3 * width].fill(255);
            let Made { name, file } = compressed(&pixels, (width, height), subsampling, 90, true);
            let expected = judge(&file).unwrap().pixels;
            for (streams, _) in all_streams() {
                let mut decoder = decoder(streams, Some(0));
                let (found, way, entries) = found(&mut decoder, &file, None, true).unwrap();
                assert!(found == expected, "{name} by {way:?}, white in {from}..{to}");
                let entries = entries.expect("entries of a whole image");
                for rows in [360, 500, 650, 720] {
                    for entries in [None, Some(&entries)] {
                        let window = Window { left: 0, top: 0, width, height: rows };
                        let mut pixels = vec![1; 3 * width * rows];
                        let output = Output::Rgb { pixels: &mut pixels, stride: 3 * width };
                        let request = Request { window, entries, record: false };
                        decoder.read(&file).unwrap().decode(&request, output).unwrap();
                        let is_right = pixels == expected[..pixels.len()];
                        assert!(is_right, "{name}, white in {from}..{to}, {rows} rows");
                    }
                }
            }
        }
    }
}

/// Fuzzing reaches what it begins with: made by `fuzz/begin.py`.
#[test]
fn the_fuzzers_files_fall_into_step() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/pixels");
    let samplings = ["420", "422", "444"];
    for ((streams, can), sampling) in
        all_streams().flat_map(|streams| samplings.map(|sampling| (streams, sampling)))
    {
        let mut decoder = decoder(streams, Some(0));
        let file = &fs::read(folder.join(format!("steps_{sampling}"))).expect("a file")[5..];
        let (pixels, way, _) = found(&mut decoder, file, None, true).unwrap();
        assert!(pixels == judge(file).unwrap().pixels, "{sampling}");
        assert!(way == Way::Speculative || !can, "{sampling} by {way:?}");
    }
}

#[test]
fn damaged_images_have_the_pixels_or_the_doubt_of_one_stream() {
    for (streams, can) in all_streams() {
        damaged_images_have_those_of_one_stream(streams, can);
    }
}

fn damaged_images_have_those_of_one_stream(streams: usize, can: bool) {
    let (mut decoder, mut one) = (decoder(streams, Some(0)), one());
    let (mut doubts, mut in_step) = (0, 0);
    for subsampling in SUBSAMPLINGS {
        for (size, quality) in [((320, 240), 60), ((90, 70), 90)] {
            let Made { name, file } = made(size, subsampling, quality, true);
            for at in (file.len() / 8..file.len() - 2).step_by(file.len() / 60) {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << (at % 8);
                let cut = [&file[..at], &[0xff, 0xd9]].concat();
                let longer =
                    [&file[..file.len() - 2], &vec![0x55; at % 70], &[0xff, 0xd9]].concat();
                for damaged in [flipped, cut, longer] {
                    let expected = found(&mut one, &damaged, None, true);
                    let answer = found(&mut decoder, &damaged, None, true);
                    doubts += usize::from(answer.is_err());
                    in_step +=
                        answer.as_ref().is_ok_and(|found| found.1 == Way::Speculative) as usize;
                    let pixels = |found: Result<Found, Declined>| found.map(|(pixels, ..)| pixels);
                    assert!(pixels(answer) == pixels(expected), "{name} damaged at {at}");
                }
            }
        }
    }
    assert!(doubts > 200 && (in_step > 200 || !can), "{doubts} doubts, {in_step} in step");
}

/// A gray image, `side` by `side`. Codes have 1, 2, 3 .. bits: DC differences of 0 to 7 bits, and as AC symbols those of
/// `ac` and then others. The scan is `bits` again and again, as often as there are blocks.
fn periodic(side: u16, ac: &[u8], bits: &str) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    file.extend([1; 64]);
    let [high, low] = side.to_be_bytes();
    file.extend([0xff, 0xc0, 0, 11, 8, high, low, high, low, 1, 1, 0x11, 0]);
    let ac = [ac, &[0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]].concat();
    for (table, symbols) in [(0, &[0, 1, 2, 3, 4, 5, 6, 7][..]), (0x10, &ac)] {
        file.extend([0xff, 0xc4, 0, 19 + symbols.len() as u8, table]);
        file.extend((0..16).map(|n| u8::from(n < symbols.len())));
        file.extend(symbols);
    }
    file.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0]);
    let blocks = usize::from(side).div_ceil(8).pow(2);
    let mut bits: Vec<u8> = bits.bytes().cycle().take(blocks * bits.len()).collect();
    bits.resize(bits.len().next_multiple_of(8), b'1');
    for byte in bits.chunks(8) {
        let byte = byte.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0'));
        file.push(byte);
        if byte == 0xff {
            file.push(0);
        }
    }
    file.extend([0xff, 0xd9]);
    file
}

/// Guesses at other bits than those at which MCUs begin stay wrong.
#[test]
fn images_whose_guesses_do_not_fall_into_step_have_the_pixels_of_one_stream() {
    // The DC difference is none. Then comes the end of the block, with or without a coefficient before it.
    for (ac, bits) in
        [(&[0x00][..], "00"), (&[0x01, 0x00], "00110"), (&[0x00, 0x01, 0xf0], "01010")]
    {
        for side in [72, 264, 1000] {
            let file = periodic(side, ac, bits);
            let expected = judge(&file).unwrap().pixels;
            for (streams, _) in all_streams() {
                let mut decoder = decoder(streams, Some(0));
                let (pixels, way, _) = found(&mut decoder, &file, None, true).unwrap();
                assert!(pixels == expected, "{bits} by {way:?}");
            }
            let (pixels, way, _) = found(&mut one(), &file, None, true).unwrap();
            assert!(pixels == expected && way == Way::One, "{bits}");
        }
    }
}
