//! Bytes that are no whole image are refused, with the kind and a sentence that say why.

use headwater_render::decode::{
    DecodeError, DecodeErrorKind, DecodeFailure, DecodeLimits, Decoder,
};

use super::fixtures::bytes;

fn refusal(encoded: &[u8], limits: DecodeLimits) -> DecodeError {
    let mut decoder = Decoder::new(limits).expect("a decoder");
    match decoder.decode(encoded).expect_err("not a whole image") {
        DecodeFailure::Bytes(error) => error,
        DecodeFailure::Passing { reason } => panic!("no verdict: {reason}"),
    }
}

#[test]
fn an_image_cut_anywhere_in_its_pixels_is_truncated() {
    for name in ["baseline-420.jpg", "progressive-420.jpg", "gray.jpg", "cmyk.jpg", "rgb.png"] {
        let whole = bytes(&format!("decode/{name}"));
        for percent in [40, 50, 75, 95] {
            let part = &whole[..whole.len() * percent / 100];
            let error = refusal(part, DecodeLimits::default());
            assert_eq!(error.kind(), DecodeErrorKind::Truncated, "{name} {percent} %: {error}");
        }
    }
}

#[test]
fn a_jpeg_cut_at_any_byte_is_refused() {
    let whole = bytes("decode/baseline-420.jpg");
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    // All of its pixels are there without the end marker.
    for len in 0..whole.len() - 2 {
        assert!(decoder.decode(&whole[..len]).is_err(), "{len} of {} bytes", whole.len());
    }
    decoder.decode(&whole).expect("the decoder is as good as new");
}

/// Of a file that ends before its pixels libjpeg-turbo says nothing, and keeps the size of the image before.
#[test]
fn what_is_said_of_a_cut_file_does_not_follow_from_the_image_before() {
    let other = bytes("views/astronaut.jpg");
    let limits = DecodeLimits::default();
    let mut used = Decoder::new(limits).expect("a decoder");
    for name in ["baseline-420.jpg", "progressive-420.jpg", "gray.jpg", "cmyk.jpg"] {
        let whole = bytes(&format!("decode/{name}"));
        let mut known = 0;
        for len in 0..whole.len() {
            let cut = &whole[..len];
            let alone = Decoder::new(limits).expect("a decoder").header(cut);
            used.header(&other).expect("an image");
            assert_eq!(used.header(cut), alone, "{name} up to {len}");
            known += usize::from(alone.is_ok());
        }
        assert!(known > 0, "{name}");
    }
}

/// libjpeg goes on at a restart, whatever is missing before it, and takes zeros for pixels.
#[test]
fn what_follows_a_cut_makes_no_whole_jpeg() {
    let (restarts, plain) = (bytes("decode/restart.jpg"), bytes("decode/baseline-420.jpg"));
    let is_restart = |at: &usize| matches!(restarts[*at..*at + 2], [0xff, 0xd0..=0xd7]);
    let scan = restarts.windows(2).position(|pair| pair == [0xff, 0xda]).expect("a scan");
    let places: Vec<usize> = (scan..restarts.len() - 2).filter(is_restart).collect();
    for at in places.iter().skip(2).step_by(3) {
        for follows in [&[0; 200][..], &[7; 200], b"\0\0\x01\x0aSEFT"] {
            refusal(&[&restarts[..*at], follows].concat(), DecodeLimits::default());
            refusal(&[&restarts[..at + 2], follows].concat(), DecodeLimits::default());
        }
    }
    let half = &plain[..plain.len() / 2];
    refusal(&[half, &[0; 5000]].concat(), DecodeLimits::default());
}

#[test]
fn something_else_is_not_an_image() {
    for encoded in
        [&b""[..], b"GIF90a", b"P7\n", b"II*", b"\xff\xd8", b"<html>", b"RIFF\0\0\0\0WAVE"]
    {
        let error = refusal(encoded, DecodeLimits::default());
        assert_eq!(error.kind(), DecodeErrorKind::NotAnImage, "{error}");
    }
}

/// The crate gives other pixels than libtiff.
#[test]
fn a_tiff_with_a_predictor_and_further_channels_is_refused() {
    let mut file = bytes("decode/more-channels.tif");
    // Its tag 284, of channels together, becomes 317, of the predictor: 2.
    let mut entries = file[10..].chunks_exact_mut(12);
    let planes = entries.find(|entry| entry[..2] == 284_u16.to_le_bytes()).expect("a tag");
    planes[..2].copy_from_slice(&317_u16.to_le_bytes());
    planes[8..10].copy_from_slice(&2_u16.to_le_bytes());
    let error = refusal(&file, DecodeLimits::default());
    assert_eq!(error.kind(), DecodeErrorKind::Unsupported, "{error}");
}

#[test]
fn a_header_that_asks_for_too_many_pixels_is_refused_before_memory_is_taken() {
    let limits = DecodeLimits { pixels_max: 83 * 61 - 1, ..DecodeLimits::default() };
    for name in ["baseline-444.jpg", "progressive-420.jpg", "lossy.webp"] {
        let error = refusal(&bytes(&format!("decode/{name}")), limits);
        let expected = DecodeError::TooLarge { width: 83, height: 61, pixels_max: 83 * 61 - 1 };
        assert_eq!(error, expected, "{name}");
    }
    // A PNG header of 65535 x 65535 pixels on a small file.
    let mut bomb = bytes("decode/rgb.png");
    bomb[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let crc = crc32(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&crc.to_be_bytes());
    let error = refusal(&bomb, DecodeLimits::default());
    assert_eq!(error.kind(), DecodeErrorKind::TooLarge, "{error}");
}

/// Its chunks have checksums. One that is not needed may be damaged: it is left out.
#[test]
fn a_changed_bit_of_a_png_never_gives_other_pixels() {
    for name in ["decode/palette-2bit.png", "decode/bilevel.png", "levels/gray-4-interlaced.png"] {
        let whole = bytes(name);
        let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
        let expected = decoder.decode(&whole).expect("an image").pixels().to_vec();
        let (mut refused, mut by_checksum) = (0, 0);
        for byte in 0..whole.len() {
            let mut changed = whole.clone();
            changed[byte] ^= 1 << (byte % 8);
            match decoder.decode(&changed) {
                Ok(image) => assert_eq!(image.pixels()[..], expected[..], "{name}, byte {byte}"),
                Err(error) => {
                    refused += 1;
                    by_checksum += usize::from(error.to_string().contains("CRC"));
                }
            }
        }
        assert!(refused > whole.len() / 2 && by_checksum > 0, "{refused}, {by_checksum}, {name}");
    }
}

/// Each scan costs a pass over all pixels, and a file of a few bytes a scan may have many.
#[test]
fn a_progressive_image_of_more_scans_than_may_be_is_refused() {
    let progressive = bytes("decode/progressive-420.jpg");
    let limits = DecodeLimits { jpeg_scans_max: 3, ..DecodeLimits::default() };
    let error = refusal(&progressive, limits);
    assert!(error.to_string().contains("more than 3 scans"), "{error}");
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    decoder.decode(&progressive).expect("it has fewer than 500");
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

/// The decoder of PNG panics at a palette whose length is no multiple of three. That is a verdict on
/// these bytes, and the next image is decoded.
#[test]
fn a_decoder_that_panics_is_a_verdict_on_the_image() {
    let mut encoded = bytes("decode/palette.png");
    let at = encoded.windows(4).position(|name| name == b"PLTE").expect("a palette");
    let len = u32::from_be_bytes(*encoded[at - 4..].first_chunk().expect("its length")) as usize;
    // Four bytes are left of it.
    encoded.drain(at + 8..at + 4 + len);
    encoded[at - 4..at].copy_from_slice(&4u32.to_be_bytes());
    let crc = crc32(&encoded[at..at + 8]);
    encoded[at + 8..at + 12].copy_from_slice(&crc.to_be_bytes());
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    match decoder.decode(&encoded).expect_err("a palette without a colour") {
        DecodeFailure::Bytes(error) => {
            assert_eq!(error.kind(), DecodeErrorKind::Corrupt, "{error}")
        }
        DecodeFailure::Passing { reason } => panic!("no verdict: {reason}"),
    }
    decoder.decode(&bytes("decode/palette.png")).expect("the decoder is as good as new");
}

/// After a warning the library says of an error, too, that it is one.
#[test]
fn an_error_behind_a_warning_is_a_verdict_and_shows_no_image_before() {
    let whole = bytes("decode/progressive-444.jpg");
    let marker = |from: usize, marker: u8| {
        from + whole[from..].windows(2).position(|pair| pair == [0xff, marker]).expect("a marker")
    };
    // Codes in the first scan that there are none of: a warning. Then a table with more codes than there may be.
    let scan = marker(0, 0xda);
    let start = scan + 2 + usize::from(u16::from_be_bytes([whole[scan + 2], whole[scan + 3]]));
    let table = marker(start, 0xc4);
    let mut encoded = whole.clone();
    encoded[start + 5..start + 40].fill(0xfe);
    encoded[table + 5..table + 21].fill(0x80);
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    decoder.decode(&bytes("decode/baseline-444.jpg")).expect("an image before");
    match decoder.decode(&encoded).expect_err("a table of more codes than there are") {
        DecodeFailure::Bytes(error) => {
            assert_eq!(error.kind(), DecodeErrorKind::Corrupt, "{error}")
        }
        DecodeFailure::Passing { reason } => panic!("no verdict: {reason}"),
    }
    decoder.decode(&whole).expect("the decoder is as good as new");
}

#[test]
fn a_webp_that_is_cut_is_truncated() {
    for name in
        ["lossy.webp", "lossless.webp", "alpha.webp", "animated.webp", "animated-clear-lossy.webp"]
    {
        let whole = bytes(&format!("decode/{name}"));
        for cut in [1, 2, 3, 10, 100] {
            let error = refusal(&whole[..whole.len() - cut], DecodeLimits::default());
            assert_eq!(error.kind(), DecodeErrorKind::Truncated, "{name}, {cut} bytes: {error}");
        }
    }
}

/// A lossy WebP, cut at its alpha: what is before that chunk, what it holds, and what is behind.
fn cut_at_alpha() -> [Vec<u8>; 3] {
    let whole = bytes("decode/clear-lossy.webp");
    let at = whole.windows(4).position(|name| name == b"ALPH").expect("alpha");
    let len = u32::from_le_bytes(*whole[at + 4..].first_chunk().expect("its length")) as usize;
    let [start, end] = [at + 8, at + 8 + len];
    [whole[..at].to_vec(), whole[start..end].to_vec(), whole[end + len % 2..].to_vec()]
}

/// The same file with other alpha.
fn with_alpha(alpha: &[u8]) -> Vec<u8> {
    let [before, _, behind] = cut_at_alpha();
    let len = (alpha.len() as u32).to_le_bytes();
    let padding = &[0][..alpha.len() % 2];
    let mut file = [&before, &b"ALPH"[..], &len, alpha, padding, &behind].concat();
    let len = file.len() as u32 - 8;
    file[4..8].copy_from_slice(&len.to_le_bytes());
    file
}

/// Two bits each, from the lowest: compression, filter, pre-processing, reserved. Pillow refuses the same ones.
#[test]
fn alpha_that_libwebp_refuses_is_a_verdict_whatever_its_first_byte() {
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let opaque = decoder.decode(&bytes("decode/clear-lossy.webp")).expect("an image");
    let opaque = opaque.pixels().to_vec();
    let [_, compressed, _] = cut_at_alpha();
    let raw = vec![0; 1 + 32 * 24];
    for (compression, alpha) in [(0, raw), (1, compressed)] {
        let mut read = 0;
        for first in 0..=u8::MAX {
            let encoded = with_alpha(&[&[first], &alpha[1..]].concat());
            let [is, _, before, reserved] = [0, 2, 4, 6].map(|from| first >> from & 3);
            // Zeros are no lossless image, and the compressed bytes are fewer than the pixels.
            if is == compression && before <= 1 && reserved == 0 {
                let image = decoder.decode(&encoded).expect("an image").pixels();
                assert!(image[..] == opaque[..], "first byte {first}");
                read += 1;
            } else {
                let error = refusal(&encoded, DecodeLimits::default());
                assert_eq!(error.kind(), DecodeErrorKind::Corrupt, "first byte {first}: {error}");
            }
        }
        assert_eq!(read, 8, "compression {compression}");
    }
}

#[test]
fn short_or_damaged_alpha_is_a_verdict() {
    let [_, compressed, _] = cut_at_alpha();
    let raw = vec![0; 1 + 32 * 24];
    for alpha in [&raw, &compressed] {
        for len in 0..alpha.len() {
            let error = refusal(&with_alpha(&alpha[..len]), DecodeLimits::default());
            assert_eq!(error.kind(), DecodeErrorKind::Corrupt, "{len} of {} bytes", alpha.len());
        }
    }
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let mut refused = 0;
    for bit in 8..8 * compressed.len() {
        let mut changed = compressed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        match decoder.decode(&with_alpha(&changed)) {
            Ok(_) => {}
            Err(DecodeFailure::Bytes(_)) => refused += 1,
            Err(DecodeFailure::Passing { reason }) => panic!("bit {bit}: {reason}"),
        }
    }
    assert!(refused > 100, "{refused}");
    decoder.decode(&with_alpha(&compressed)).expect("the decoder is as good as new");
}
