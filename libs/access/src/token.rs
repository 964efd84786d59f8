//! The shared token, as an `authorization` header. While it is replaced, a second one is accepted too.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use subtle::{Choice, ConstantTimeEq as _};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::files::{NamedFile, Stamp};
use crate::{Access, AccessError, ConnectionAuth};

const HEADER: &str = "authorization";
const SCHEME: &str = "Bearer ";
/// Shorter ones could be guessed.
const TOKEN_MIN_BYTES: usize = 16;
/// One header stays far below what HTTP/2 takes.
const TOKEN_MAX_BYTES: usize = 4096;
/// The one that is shown, and the one before or after it.
const TOKENS_MAX: usize = 2;

/// The tokens of a file, a line each: the first is shown to others, all are accepted.
pub(crate) struct Token {
    file: NamedFile,
    held: Mutex<Held>,
}

struct Held {
    stamp: Option<Stamp>,
    /// Each with its scheme, and marked as secret. Never empty.
    values: Vec<MetadataValue<Ascii>>,
}

/// Puts the token on requests.
#[derive(Clone, Debug)]
pub struct Bearer {
    token: Option<Arc<Token>>,
}

/// Refuses requests without the token.
#[derive(Clone, Debug)]
pub struct Guard {
    token: Option<Arc<Token>>,
    /// Whether a request that is let in gives its connection a seat.
    seats: bool,
}

// === impl Access ===

impl Access {
    /// For clients.
    #[must_use]
    pub fn bearer(&self) -> Bearer {
        Bearer { token: self.inner.token.clone() }
    }

    /// For servers whose callers have shown enough with a request that is let in.
    #[must_use]
    pub fn guard(&self) -> Guard {
        Guard { token: self.inner.token.clone(), seats: true }
    }

    /// For servers that want to hear more first, and call [`ConnectionAuth::let_in`] themselves.
    #[must_use]
    pub fn token_guard(&self) -> Guard {
        Guard { token: self.inner.token.clone(), seats: false }
    }
}

// === impl Token ===

impl Token {
    pub(crate) fn open(path: &Path) -> Result<Self, AccessError> {
        let file = NamedFile::new("token_file", path);
        let stamp = file.stamp();
        let values = read(&file)?;
        Ok(Self { file, held: Mutex::new(Held { stamp, values }) })
    }

    /// The token that is shown, without its scheme, as the file has it now.
    pub(crate) fn word(&self) -> Vec<u8> {
        word(&self.current()[0])
    }

    /// Whether one of the tokens is what `is_it` says of it, without its scheme. All of them are compared in any case.
    pub(crate) fn any(&self, is_it: impl Fn(&[u8]) -> Choice) -> bool {
        let none = Choice::from(0);
        self.current().iter().fold(none, |found, value| found | is_it(&word(value))).into()
    }

    /// The tokens as the file has them now; those before while the file is being changed.
    fn current(&self) -> Vec<MetadataValue<Ascii>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.file.stamp();
        if stamp.is_some() && stamp != held.stamp {
            match read(&self.file) {
                Ok(values) => {
                    let tokens = values.len();
                    tracing::info!(path = %self.file.path.display(), tokens, "token read again");
                    held.values = values;
                }
                Err(error) => tracing::warn!(%error, "the token before stays in force"),
            }
            held.stamp = stamp;
        }
        held.values.clone()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A token without its scheme.
fn word(value: &MetadataValue<Ascii>) -> Vec<u8> {
    let bytes = value.as_encoded_bytes();
    bytes.strip_prefix(SCHEME.as_bytes()).unwrap_or(bytes).to_vec()
}

fn read(file: &NamedFile) -> Result<Vec<MetadataValue<Ascii>>, AccessError> {
    let bytes = file.read()?;
    let lines = bytes.trim_ascii().split(|byte| *byte == b'\n');
    let tokens: Vec<_> = lines.map(<[u8]>::trim_ascii).collect();
    if tokens.len() > TOKENS_MAX {
        return Err(file.wrong(format!(
            "this file has {} lines: a token, and while it is replaced the other one, each in a line",
            tokens.len()
        )));
    }
    tokens.into_iter().map(|token| value(file, token)).collect()
}

fn value(file: &NamedFile, token: &[u8]) -> Result<MetadataValue<Ascii>, AccessError> {
    if !(TOKEN_MIN_BYTES..=TOKEN_MAX_BYTES).contains(&token.len()) {
        return Err(file.wrong(format!(
            "a token has {TOKEN_MIN_BYTES} to {TOKEN_MAX_BYTES} characters, this one has {}; make \
             one with `head -c 32 /dev/urandom | base64`",
            token.len()
        )));
    }
    let value = MetadataValue::try_from([SCHEME.as_bytes(), token].concat());
    let mut value = value.map_err(|_| file.wrong("a token is of visible ASCII characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

// === impl Bearer ===

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.token {
            request.metadata_mut().insert(HEADER, token.current().swap_remove(0));
        }
        Ok(request)
    }
}

// === impl Guard ===

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let standing = request.extensions().get::<ConnectionAuth>();
        let peer = standing.map(ConnectionAuth::peer);
        let let_in = || match !self.seats || standing.is_none_or(ConnectionAuth::let_in) {
            true => Ok(()),
            false => {
                tracing::warn!(?peer, "a caller is refused: as many are connected as may be");
                Err(Status::resource_exhausted(
                    "as many callers are connected as may be: try again",
                ))
            }
        };
        let Some(token) = &self.token else { return let_in().map(|()| request) };
        let refused = |problem: &str| {
            tracing::warn!(?peer, problem, "a caller is refused");
            let remedy = "give both sides the same file as security.token_file";
            Status::unauthenticated(format!("{problem}: {remedy}"))
        };
        let Some(given) = request.metadata().get(HEADER) else {
            return Err(refused("the caller has no token"));
        };
        let given = given.as_encoded_bytes();
        let given = given.strip_prefix(SCHEME.as_bytes()).unwrap_or_default();
        // The time this takes tells the tokens' length at most.
        if token.any(|wanted| given.ct_eq(wanted)) {
            let_in().map(|()| request)
        } else {
            Err(refused("the caller's token is not this job's"))
        }
    }
}
