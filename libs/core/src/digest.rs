//! 128-bit identities of manifests, recipes and parts.
//!
//! XXH3-128: made to tell accidental differences apart, not to resist an attacker.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Identity of a piece of data; 32 hexadecimal digits in text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest(pub u128);

/// Builds a [`Digest`] from values, each written with its length or at a fixed width, so that
/// two different sequences of values never give the same bytes.
#[derive(Clone, Default)]
pub struct Digester {
    hash: Xxh3,
}

/// Text that is not 32 hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("digest `{text}` is not 32 hexadecimal digits")]
pub struct DigestError {
    text: String,
}

// === impl Digest ===

impl Digest {
    /// Digest of one run of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// Little-endian bytes, as they travel.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The inverse of [`Digest::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        let plain = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(&text, 16) {
            Ok(value) if plain => Ok(Self(value)),
            _ => Err(DigestError { text }),
        }
    }
}

// === impl Digester ===

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Digester").field(&self.finish()).finish()
    }
}

impl Digester {
    /// Starts a digest; `domain` keeps digests of different kinds of things apart.
    #[must_use]
    pub fn new(domain: &str) -> Self {
        let mut digester = Self::default();
        digester.bytes(domain.as_bytes());
        digester
    }

    /// Adds bytes, preceded by their number.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.hash.update(&(bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
        self
    }

    /// Adds a number as eight bytes.
    pub fn number(&mut self, value: u64) -> &mut Self {
        self.hash.update(&value.to_le_bytes());
        self
    }

    /// The digest of all that was added.
    #[must_use]
    pub fn finish(&self) -> Digest {
        Digest(self.hash.digest128())
    }
}
