//! What an entry is asked for by.

use std::fmt;

/// A digest of all that decides an entry's bytes: a URL, its version and the range, say. Who makes
/// it vouches that two entries with one key are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 16]);

// === impl Key ===

impl Key {
    /// From 16 bytes of a digest.
    #[must_use]
    pub const fn new(digest: [u8; 16]) -> Self {
        Self(digest)
    }

    /// The digest.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The key of a file's name, as [`fmt::Display`] writes it.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let is_digest = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digest = u128::from_str_radix(name, 16).ok().filter(|_| is_digest)?;
        Some(Self(digest.to_be_bytes()))
    }

    /// The folder that its files lie in, of 256.
    pub(crate) fn fan(&self) -> String {
        format!("{:02x}", self.0[0])
    }
}

impl fmt::Display for Key {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
