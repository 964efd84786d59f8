//! Fields that differ in size from sample to sample: a row of bytes, and how many of them count.

/// The text that bytes are.
pub(super) fn checked(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        format!("it is not text in UTF-8: byte {at} of {} does not fit", bytes.len())
    })
}

/// Writes bytes and their number; too many are cut if `truncate`. `rows` are zero.
pub(super) fn put_bytes(
    bytes: &[u8],
    truncate: bool,
    rows: &mut [&mut [u8]],
) -> Result<(), String> {
    let most = rows[0].len();
    if bytes.len() > most && !truncate {
        return Err(too_long(bytes.len(), most));
    }
    put(&bytes[..bytes.len().min(most)], rows);
    Ok(())
}

/// Writes text and its number of bytes; a longer one is cut between characters if `truncate`.
pub(super) fn put_text(text: &str, truncate: bool, rows: &mut [&mut [u8]]) -> Result<(), String> {
    let most = rows[0].len();
    if text.len() > most && !truncate {
        return Err(too_long(text.len(), most));
    }
    put(&text.as_bytes()[..text.floor_char_boundary(most)], rows);
    Ok(())
}

fn put(bytes: &[u8], rows: &mut [&mut [u8]]) {
    rows[0][..bytes.len()].copy_from_slice(bytes);
    rows[1].copy_from_slice(&(bytes.len() as i64).to_le_bytes());
}

fn too_long(bytes: usize, most: usize) -> String {
    format!("it has {bytes} bytes, more than {most}: raise its bytes_max, or set truncate = true")
}
