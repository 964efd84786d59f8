//! Making and comparing session keys.

use std::collections::HashMap;
use std::hint::black_box;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};

use super::terms::{PeerId, SessionKey};

// === impl SessionKey ===

impl SessionKey {
    /// A new key from the operating system's random numbers.
    ///
    /// # Errors
    /// The system has none to give.
    pub fn random() -> io::Result<Self> {
        Ok(Self(random_bytes()?))
    }

    /// What stands for this key in the hello of connection `attempt`, on a stream that others may
    /// read: SHA-256 over a name, the key and the number, all of fixed length.
    pub(crate) fn proof(&self, attempt: u64) -> [u8; 32] {
        let hash = Sha256::new_with_prefix(b"headwater tcp 2\0");
        hash.chain_update(self.0).chain_update(attempt.to_le_bytes()).finalize().into()
    }

    /// Whether `presented` is this key, in a time that does not depend on where they differ.
    #[must_use]
    pub fn matches(&self, presented: &[u8; 32]) -> bool {
        let differing =
            self.0.iter().zip(presented).fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
        differing == 0
    }
}

/// The peer for which `owns` is true, and its number. Every peer is asked, so that the time does not
/// tell which key was close.
///
/// # Errors
/// None of them: what the caller gets to know.
pub(crate) fn owner<P>(
    peers: &mut HashMap<PeerId, P>,
    owns: impl Fn(&P) -> bool,
) -> Result<(PeerId, &mut P), String> {
    let owner = peers.iter_mut().filter(|(_, peer)| owns(peer)).last();
    owner.map(|(&id, peer)| (id, peer)).ok_or_else(|| "unknown session key".into())
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

    #[test]
    fn a_proof_is_of_one_key_and_one_connection() {
        let (key, other) = (SessionKey([1; 32]), SessionKey([2; 32]));
        assert_eq!(key.proof(1), key.proof(1));
        assert_ne!(key.proof(1), key.proof(2));
        assert_ne!(key.proof(1), other.proof(1));
        // Python's hashlib.sha256(b"headwater tcp 2\0" + b"\1" * 32 + (7).to_bytes(8, "little")).
        let known = "41e9b924d3c744601376ebdb9369bbf8ebdf041ffa0578a205434d4eaecc40b5";
        let hex = key.proof(7).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(hex, known);
    }
}
