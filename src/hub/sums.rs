//! `SHA256SUMS` next to shards, in the form of `sha256sum`. The storage tier reads it.

use std::io::{self, Read};

use headwater_core::hex;
use sha2::{Digest as _, Sha256};

/// Bytes that are read and digested at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// A line of the file.
pub(crate) fn sum_line(sum: &str, name: &str) -> String {
    format!("{sum}  {name}\n")
}

/// SHA-256 in hexadecimal digits.
///
/// # Errors
/// The bytes cannot be read.
pub(crate) fn sha256(mut bytes: impl Read) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match bytes.read(&mut block)? {
            0 => break,
            read => digest.update(&block[..read]),
        }
    }
    Ok(hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use headwater_storage::sum_of_line;

    use super::*;

    /// FIPS 180-2, appendix B.1.
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_line_that_is_written_is_read() {
        assert_eq!(sha256(&b"abc"[..]).unwrap(), OF_ABC);
        let line = sum_line(OF_ABC, "a b.tar");
        let (sum, name) = sum_of_line(line.trim_end()).unwrap();
        assert_eq!((hex(&sum).as_str(), name), (OF_ABC, "a b.tar"));
    }
}
