//! The verdict on the alpha of a lossy WebP.
//!
//! libwebp says that it has no memory both where that is so and where it refuses alpha by its first bytes. The second
//! follows from the bytes of the image, and it would be wrong to try again.

use super::libwebp::{self, Header};
use super::webp::{chunks, file};
use crate::decode::{DecodeError, DecodeFailure};

/// Compression, two bits: 0 is none, 1 is that of lossless WebP.
const COMPRESSION: u8 = 1;
/// Bits of the first byte that have to be zero: the higher ones of the compression and of the pre-processing, and
/// two that are reserved. All values of the filter between them have a meaning.
const ZERO: u8 = 0b1110_0010;

/// What a failure to decode an image that is not animated says of its bytes.
pub(super) fn verdict(failure: DecodeFailure, encoded: &[u8], header: Header) -> DecodeFailure {
    let is_verdict = matches!(failure, DecodeFailure::Bytes(_));
    if is_verdict || !chunk(encoded).is_some_and(|alpha| is_refused(alpha, header)) {
        return failure;
    }
    DecodeError::corrupt("libwebp cannot decode its alpha").into()
}

/// The alpha that libwebp takes: the last before the pixels.
fn chunk(encoded: &[u8]) -> Option<&[u8]> {
    let before = chunks(encoded.get(12..)?).take_while(|(name, _)| *name != b"VP8 ");
    before.filter(|(name, _)| *name == b"ALPH").map(|(_, alpha)| alpha).last()
}

/// Whether libwebp refuses alpha for its first bytes.
fn is_refused(alpha: &[u8], Header { width, height, .. }: Header) -> bool {
    let Some((first, data)) = alpha.split_first().filter(|(_, data)| !data.is_empty()) else {
        return true;
    };
    if first & ZERO != 0 {
        return true;
    }
    if first & COMPRESSION == 0 {
        return data.len() < width as usize * height as usize;
    }
    // Compressed alpha is a lossless image without its head: a signature, both sides less one in 14 bits each, and
    // four bits of zeros. Padding would be read as part of it.
    let sides = (width.wrapping_sub(1) & 0x3fff) | ((height.wrapping_sub(1) & 0x3fff) << 14);
    let still = [&[0x2f], &sides.to_le_bytes()[..], data].concat();
    let refused = libwebp::decode_corner(&file(b"VP8L", &still, &[]));
    matches!(refused, Err(DecodeFailure::Bytes(_)))
}
