//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Two lower-case digits for each byte, as people write checksums.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[0, 1, 0x9a, 0xff]), "00019aff");
        assert_eq!(hex(&[]), "");
    }
}
