//! Blocks of c-blosc 1: <https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst>.
//!
//! A header, the offsets of the blocks, and each block as one stream or one a byte of an element. The
//! bytes or bits of a block's elements may lie in another order. Own code: the crates for it compile
//! all of c-blosc and its compressors, for the ninety lines that unpacking takes.

use super::unpack::{inflate, unpack_zstd};

const HEADER_BYTES: usize = 16;
const BYTE_SHUFFLE: u8 = 0x01;
const AS_IT_IS: u8 = 0x02;
const BIT_SHUFFLE: u8 = 0x04;
const ONE_STREAM: u8 = 0x10;
/// Elements of more bytes are never split into streams.
const STREAMS_MAX: usize = 16;
/// Streams shorter than this are never made.
const STREAM_BYTES_MIN: usize = 128;

fn int(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(i32::from_le_bytes(four.try_into().ok()?)).ok()
}

/// Unpacks a chunk of no more than `limit` bytes.
///
/// # Errors
/// Says in a sentence what is wrong with the bytes, or what is not supported.
pub(super) fn unpack(bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let cut = || "blosc: it is cut off".to_owned();
    if bytes.len() < HEADER_BYTES {
        return Err(cut());
    }
    let (flags, element) = (bytes[2], usize::from(bytes[3]).max(1));
    let whole = int(bytes, 4).ok_or_else(cut)?;
    let block = int(bytes, 8).ok_or_else(cut)?;
    if whole > limit {
        return Err(format!("blosc: {whole} bytes, at most {limit} are expected"));
    }
    if flags & AS_IT_IS != 0 {
        let content = bytes.get(HEADER_BYTES..HEADER_BYTES + whole);
        return content.map(<[u8]>::to_vec).ok_or_else(cut);
    }
    if whole == 0 {
        return Ok(Vec::new());
    }
    // Every block has an offset of four bytes, so that no more is set aside than the chunk can fill.
    if block == 0 || bytes.len() < HEADER_BYTES + 4 * whole.div_ceil(block) {
        return Err(cut());
    }
    let mut unpacked = Vec::new();
    for number in 0..whole.div_ceil(block) {
        let start = int(bytes, HEADER_BYTES + 4 * number).ok_or_else(cut)?;
        let length = block.min(whole - number * block);
        let split = flags & ONE_STREAM == 0
            && element <= STREAMS_MAX
            && block / element >= STREAM_BYTES_MIN
            && length == block;
        let streams = if split { element } else { 1 };
        let held = unpack_block(bytes, start, length, streams, flags >> 5)?;
        unpacked.extend(unshuffle(held, element, flags));
    }
    Ok(unpacked)
}

fn unpack_block(
    bytes: &[u8],
    mut at: usize,
    length: usize,
    streams: usize,
    compressor: u8,
) -> Result<Vec<u8>, String> {
    let cut = || "blosc: a block is cut off".to_owned();
    let mut block = Vec::new();
    for _ in 0..streams {
        let expected = length / streams;
        let held = int(bytes, at).ok_or_else(cut)?;
        at += 4;
        let stream = bytes.get(at..at.saturating_add(held)).ok_or_else(cut)?;
        at += held;
        let before = block.len();
        match compressor {
            _ if held == expected => block.extend_from_slice(stream),
            1 => block.extend(unpack_lz4(stream, expected)?),
            3 => block.extend(inflate(flate2::read::ZlibDecoder::new(stream), expected)?),
            4 => block.extend(unpack_zstd(stream, expected)?),
            0 => return Err(unsupported("blosclz")),
            2 => return Err(unsupported("snappy")),
            other => return Err(format!("blosc: compressor {other} is not known")),
        }
        if block.len() - before != expected {
            return Err("blosc: a block does not have its size".to_owned());
        }
    }
    match block.len() == length {
        true => Ok(block),
        false => Err("blosc: a block does not have its size".to_owned()),
    }
}

/// Names of the compressors whose blocks are unpacked here.
pub(super) const COMPRESSORS: [&str; 4] = ["lz4", "lz4hc", "zlib", "zstd"];

/// A compressor that is not among them, for a sentence.
pub(super) fn unsupported(compressor: &str) -> String {
    format!("blosc with `{compressor}` is not supported: write with `zstd` or `lz4`")
}

/// LZ4 makes no more than 255 bytes of one.
fn unpack_lz4(stream: &[u8], expected: usize) -> Result<Vec<u8>, String> {
    if expected / 255 > stream.len() {
        return Err("lz4: too few bytes for its size".to_owned());
    }
    lz4_flex::block::decompress(stream, expected).map_err(|error| format!("lz4: {error}"))
}

/// Puts an element's bytes, or its bits, together again.
fn unshuffle(block: Vec<u8>, element: usize, flags: u8) -> Vec<u8> {
    let elements = block.len() / element;
    if flags & BYTE_SHUFFLE != 0 && element > 1 {
        let mut plain = block.clone();
        for at in 0..elements {
            for byte in 0..element {
                plain[at * element + byte] = block[byte * elements + at];
            }
        }
        return plain;
    }
    // c-blosc leaves blocks as they are whose elements are no multiple of eight.
    if flags & BIT_SHUFFLE != 0 && elements.is_multiple_of(8) {
        let mut plain = block.clone();
        plain[..elements * element].fill(0);
        let row_bytes = elements / 8;
        for (row, bits) in block[..elements * element].chunks_exact(row_bytes.max(1)).enumerate() {
            let (byte, bit) = (row / 8, row % 8);
            for at in 0..elements {
                let set = bits[at / 8] >> (at % 8) & 1;
                plain[at * element + byte] |= set << bit;
            }
        }
        return plain;
    }
    block
}
