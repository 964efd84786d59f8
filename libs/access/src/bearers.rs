//! The token on plain HTTP, for servers and clients without gRPC.

use std::sync::Arc;

use headwater_core::hex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::Access;
use crate::token::Token;

const SCHEME: &[u8] = b"Bearer ";
/// Keeps a pass apart from all other hashes of the token.
const PASS_DOMAIN: &[u8] = b"headwater pass 1\0";

/// Judges the `authorization` headers of HTTP requests, and makes such headers.
///
/// A server takes the token itself, or its pass: a hash of the token. A pass opens what is shown to people,
/// no gRPC service, so it may travel where the token must not.
#[derive(Clone, Debug)]
pub struct Bearers {
    token: Option<Arc<Token>>,
}

// === impl Access ===

impl Access {
    /// For HTTP servers and clients.
    #[must_use]
    pub fn bearers(&self) -> Bearers {
        Bearers { token: self.inner.token.clone() }
    }
}

// === impl Bearers ===

impl Bearers {
    /// Whether a token is configured.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.token.is_some()
    }

    /// Whether a request with this `authorization` header may be answered: it has the token or the pass, or
    /// none is configured.
    #[must_use]
    pub fn admits(&self, authorization: Option<&[u8]>) -> bool {
        if !self.is_needed() {
            return true;
        }
        let shown = authorization.and_then(|value| value.strip_prefix(SCHEME));
        shown.is_some_and(|shown| self.admits_word(shown))
    }

    /// Whether `shown` is the token or the pass; true where no token is configured.
    #[must_use]
    pub fn admits_word(&self, shown: &[u8]) -> bool {
        let Some(token) = &self.token else { return true };
        // Both are compared in any case. The time this takes tells the token's length at most.
        token.any(|word| shown.ct_eq(word) | shown.ct_eq(pass(word).as_bytes()))
    }

    /// The pass: 64 hexadecimal digits; `None` where no token is configured.
    #[must_use]
    pub fn pass(&self) -> Option<String> {
        self.token.as_ref().map(|token| pass(&token.word()))
    }
}

fn pass(word: &[u8]) -> String {
    hex(&Sha256::new().chain_update(PASS_DOMAIN).chain_update(word).finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccessConfig;

    #[test]
    fn the_token_and_its_pass_are_admitted_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "sixteen characters\n").unwrap();
        let config = AccessConfig { token_file, ..AccessConfig::default() };
        let bearers = Access::open(&config).unwrap().bearers();
        let pass = bearers.pass().unwrap();
        assert!(bearers.is_needed() && pass.len() == 64, "{pass}");
        assert!(bearers.admits(Some(b"Bearer sixteen characters")));
        assert!(bearers.admits(Some(format!("Bearer {pass}").as_bytes())));
        let wrong: [&[u8]; 6] = [
            b"Bearer sixteen character",
            b"Bearer sixteen characterz",
            b"Bearer ",
            b"sixteen characters",
            b"Basic sixteen characters",
            b"",
        ];
        for wrong in wrong {
            assert!(!bearers.admits(Some(wrong)), "{}", String::from_utf8_lossy(wrong));
        }
        assert!(!bearers.admits(None));
    }

    #[test]
    fn a_token_in_a_second_line_is_admitted_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        let open = |text: &str| {
            std::fs::write(&token_file, text).unwrap();
            let config = AccessConfig { token_file: token_file.clone(), ..AccessConfig::default() };
            Access::open(&config).map(|access| access.bearers())
        };
        let both = open("the later token of both\nthe earlier token of both\n").unwrap();
        assert!(both.admits(Some(b"Bearer the later token of both")));
        assert!(both.admits(Some(b"Bearer the earlier token of both")));
        assert!(!both.admits(Some(b"Bearer the later token of both\nthe earlier token of both")));
        let one = open("the later token of both").unwrap();
        assert_eq!(both.pass(), one.pass());
        assert!(!one.admits(Some(b"Bearer the earlier token of both")));
        for wrong in ["sixteen characters\n\nsixteen characterz", "sixteen characters\nshort"] {
            open(wrong).unwrap_err();
        }
    }

    #[test]
    fn without_a_token_everybody_is_admitted() {
        let bearers = Access::default().bearers();
        assert!(!bearers.is_needed() && bearers.admits(None) && bearers.pass().is_none());
    }
}
