//! The tokenizers that this worker has: files named in its configuration, known by their SHA-256.

#[cfg(not(feature = "tokenizers"))]
mod absent;
#[cfg(feature = "tokenizers")]
mod hugging_face;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater_core::hex;
use headwater_core::recipe::TokensSpec;
use sha2::{Digest as _, Sha256};

#[cfg(not(feature = "tokenizers"))]
use self::absent::Encoder;
#[cfg(feature = "tokenizers")]
use self::hugging_face::Encoder;

/// Maximum bytes of a `tokenizer.json`. Those of large multilingual models have 35 MB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Tokenizers by the SHA-256 of their files. By default none.
#[derive(Clone, Default)]
pub struct Tokenizers {
    files: Arc<Vec<TokenizerFile>>,
}

struct TokenizerFile {
    path: PathBuf,
    sha256: String,
    encoder: Encoder,
}

/// Why a file named in the configuration is no tokenizer of this worker's.
#[derive(Debug, thiserror::Error)]
#[error("augment.tokenizers is `{}`: {rule}", .path.display())]
pub struct TokenizerError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub rule: String,
}

/// A tokenizer with the length of one field.
#[derive(Clone)]
pub(crate) struct FieldTokenizer {
    encoder: Arc<Encoder>,
    special_tokens: bool,
    bytes_max: usize,
}

// === impl Tokenizers ===

impl Tokenizers {
    /// Reads files of Hugging Face's `tokenizers`.
    ///
    /// # Errors
    /// One cannot be read, is too large, or is no tokenizer.
    pub fn open(paths: &[PathBuf]) -> Result<Self, TokenizerError> {
        let open = |path: &PathBuf| {
            TokenizerFile::open(path).map_err(|rule| TokenizerError { path: path.clone(), rule })
        };
        Ok(Self { files: Arc::new(paths.iter().map(open).collect::<Result<_, _>>()?) })
    }

    /// The SHA-256 of one of the files, in hexadecimal digits; `None` for others.
    #[must_use]
    pub fn sha256(&self, path: &Path) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.sha256)
    }

    /// The tokenizer of a field of the recipe.
    ///
    /// # Errors
    /// It is not here, or cannot make ids of the length asked for; the sentence says what to do.
    pub(crate) fn of(&self, name: &str, spec: &TokensSpec) -> Result<FieldTokenizer, String> {
        let sha256 = &spec.sha256;
        let Some(file) = self.files.iter().find(|file| file.sha256 == *sha256) else {
            let known: Vec<String> = self.files.iter().map(TokenizerFile::to_string).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!(
                "field `{name}` of the recipe wants the tokenizer with SHA-256 {sha256}, which this worker \
                 does not have: name its tokenizer.json in augment.tokenizers; there are {known}"
            ));
        };
        let encoder = file.encoder.of_length(spec);
        let encoder =
            encoder.map_err(|error| format!("field `{name}`, length {}: {error}", spec.length))?;
        let (special_tokens, bytes_max) = (spec.special_tokens, spec.bytes_max as usize);
        Ok(FieldTokenizer { encoder: Arc::new(encoder), special_tokens, bytes_max })
    }
}

impl fmt::Debug for Tokenizers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files.iter().map(|file| &file.path)).finish()
    }
}

// === impl TokenizerFile ===

impl TokenizerFile {
    fn open(path: &Path) -> Result<Self, String> {
        let said = |error: std::io::Error| format!("cannot be read: {error}");
        let bytes = std::fs::metadata(path).map_err(said)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(format!("has {bytes} bytes, more than {FILE_BYTES_MAX}"));
        }
        let bytes = std::fs::read(path).map_err(said)?;
        let encoder = Encoder::from_file(&bytes)?;
        let sha256 = hex(&Sha256::digest(&bytes));
        Ok(Self { path: path.to_owned(), sha256, encoder })
    }
}

impl fmt::Display for TokenizerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}", self.path.display(), self.sha256)
    }
}

// === impl FieldTokenizer ===

impl FieldTokenizer {
    /// Ids of a text, and which of them are not padding; as many as the field's length.
    ///
    /// # Errors
    /// The text is too long, or the tokenizer has no ids for it.
    pub(crate) fn encode(&self, text: &str) -> Result<(Vec<u32>, Vec<u32>), String> {
        if text.len() > self.bytes_max {
            let (bytes, most) = (text.len(), self.bytes_max);
            return Err(format!(
                "the text has {bytes} bytes, more than {most}: raise its bytes_max"
            ));
        }
        self.encoder.encode(text, self.special_tokens)
    }
}

impl fmt::Debug for FieldTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldTokenizer").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}
