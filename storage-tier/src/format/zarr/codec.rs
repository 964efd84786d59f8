//! From a chunk's bytes as they are stored to its elements.

use bytes::{Buf, Bytes};

use super::blosc;
use super::unpack::{inflate, unpack_zstd};

/// What intermediate codecs may add to a chunk's bytes.
const SLACK_BYTES: usize = 64 << 10;

/// One step between elements and stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Gzip,
    Zlib,
    Zstd,
    Blosc,
    /// Four bytes behind the others.
    Crc32c,
}

// === impl Codec ===

impl Codec {
    /// By its name in metadata.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "gzip" => Some(Self::Gzip),
            "zlib" | "numcodecs.zlib" => Some(Self::Zlib),
            "zstd" => Some(Self::Zstd),
            "blosc" => Some(Self::Blosc),
            "crc32c" => Some(Self::Crc32c),
            _ => None,
        }
    }

    fn undo(self, bytes: Vec<u8>, limit: usize) -> Result<Vec<u8>, String> {
        match self {
            Self::Gzip => inflate(flate2::read::MultiGzDecoder::new(&bytes[..]), limit),
            Self::Zlib => inflate(flate2::read::ZlibDecoder::new(&bytes[..]), limit),
            Self::Zstd => unpack_zstd(&bytes, limit),
            Self::Blosc => blosc::unpack(&bytes, limit),
            Self::Crc32c => check_crc32c(bytes),
        }
    }
}

/// Undoes codecs, the last first; the chunk has to have `expected` bytes.
///
/// # Errors
/// Says in a sentence what is wrong with the bytes.
pub(super) fn decode(bytes: Vec<u8>, codecs: &[Codec], expected: usize) -> Result<Vec<u8>, String> {
    let bytes = undo_all(bytes, codecs, expected)?;
    match bytes.len() == expected {
        true => Ok(bytes),
        false => Err(format!("it has {} bytes instead of {expected}", bytes.len())),
    }
}

/// As [`decode`], of a chunk of values that vary in length: `values` of them, in `limit` bytes at most.
pub(super) fn decode_varying(
    bytes: Vec<u8>,
    codecs: &[Codec],
    values: u64,
    limit: usize,
) -> Result<Vec<Bytes>, String> {
    let mut left = Bytes::from(undo_all(bytes, codecs, limit)?);
    let cut = || "its values are cut off".to_owned();
    let said = left.try_get_u32_le().map_err(|_| cut())?;
    if u64::from(said) != values || u64::from(said) * 4 > left.len() as u64 {
        return Err(format!("it has {said} values instead of {values}"));
    }
    let value = |_| {
        let bytes = left.try_get_u32_le().map_err(|_| cut())? as usize;
        if bytes > left.len() { Err(cut()) } else { Ok(left.split_to(bytes)) }
    };
    (0..said).map(value).collect()
}

fn undo_all(mut bytes: Vec<u8>, codecs: &[Codec], expected: usize) -> Result<Vec<u8>, String> {
    for codec in codecs.iter().rev() {
        bytes = codec.undo(bytes, expected + SLACK_BYTES)?;
    }
    Ok(bytes)
}

fn check_crc32c(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let at = bytes.len().checked_sub(4).ok_or("it has no room for a checksum")?;
    let said = bytes.split_off(at);
    match crc32c(&bytes).to_le_bytes() == said[..] {
        true => Ok(bytes),
        false => Err("it does not have its checksum (CRC-32C)".to_owned()),
    }
}

/// CRC-32C, Castagnoli's polynomial: RFC 3720, appendix B.4.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let (mut value, mut bit) = (at as u32, 0);
            while bit < 8 {
                value = (value >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(value & 1));
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, &byte| (crc >> 8) ^ TABLE[(crc as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_frame_of_zstd_is_compared_with_its_checksum() {
        use std::io::Write;
        let content: Vec<u8> = (0..200).map(|n| (n * n) as u8).collect();
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(&content).unwrap();
        let frame = encoder.finish().unwrap();
        assert_eq!(decode(frame.clone(), &[Codec::Zstd], 200).unwrap(), content);
        for bit in 0..8 * frame.len() {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let found = decode(changed, &[Codec::Zstd], 200);
            assert!(found.is_err() || found.as_ref() == Ok(&content), "bit {bit}");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_fills_memory() {
        let bomb = zstd::encode_all(&vec![0u8; 8 << 20][..], 3).unwrap();
        assert!(bomb.len() < 4096);
        let error = decode(bomb, &[Codec::Zstd], 1000).unwrap_err();
        assert!(error.contains("more than"), "{error}");
    }
}
