//! Making and comparing session keys.

use std::hint::black_box;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::contract::SessionKey;

// === impl SessionKey ===

impl SessionKey {
    /// A new key from the operating system's random numbers.
    ///
    /// # Errors
    /// The system has none to give.
    pub fn random() -> io::Result<Self> {
        Ok(Self(random_bytes()?))
    }

    /// Whether `presented` is this key, in a time that does not depend on where they differ.
    #[must_use]
    pub fn matches(&self, presented: &[u8; 32]) -> bool {
        let differing =
            self.0.iter().zip(presented).fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
        differing == 0
    }
}

/// Bytes that nobody can guess.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(got) => filled += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_matches_itself_and_no_other() {
        let key = SessionKey::random().expect("random numbers");
        assert!(key.matches(&key.0));
        for at in 0..32 {
            let mut other = key.0;
            other[at] ^= 1;
            assert!(!key.matches(&other));
        }
        assert_ne!(key, SessionKey::random().expect("random numbers"));
    }
}
