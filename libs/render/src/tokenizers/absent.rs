//! A build without Hugging Face's crate: it has no tokenizers, and says so.

use headwater_core::recipe::TokensSpec;

/// There is none.
pub(super) enum Encoder {}

// === impl Encoder ===

impl Encoder {
    /// # Errors
    /// Always.
    pub(super) fn from_file(_: &[u8]) -> Result<Self, String> {
        Err("cannot be used: this program was built without the feature `tokenizers`".to_owned())
    }

    pub(super) fn of_length(&self, _: &TokensSpec) -> Result<Self, String> {
        match *self {}
    }

    pub(super) fn encode(&self, _: &str, _: bool) -> Result<(Vec<u32>, Vec<u32>), String> {
        match *self {}
    }
}
