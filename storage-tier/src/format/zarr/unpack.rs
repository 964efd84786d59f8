//! Compressed bytes to plain ones, within a limit.

use std::io::Read;

/// Reads what a decoder gives, up to `limit` bytes; memory grows with what comes.
pub(super) fn inflate(decoder: impl Read, limit: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() <= limit {
        true => Ok(bytes),
        false => Err(format!("it has more than {limit} bytes")),
    }
}

/// A frame of Zstandard, up to `limit` bytes of it.
pub(super) fn unpack_zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes);
    let mut decoder = decoder.map_err(|error| error.to_string())?;
    // A frame may ask for a window of memory: no more than 128 MiB of it.
    decoder.window_log_max(27).map_err(|error| error.to_string())?;
    inflate(decoder, limit)
}
