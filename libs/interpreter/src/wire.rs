//! Requests and answers: a line of JSON each.

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Request<'a> {
    Call { function: &'a str, sha256: &'a str, shape: [u32; 3], seed: &'a [u64] },
    Digest { module: &'a str, functions: &'a [&'a str] },
    Open { dataset: &'a str, arguments: &'a serde_json::Map<String, serde_json::Value> },
    Read { index: u64 },
}

/// A request as it is sent.
#[derive(Debug, Serialize)]
pub(crate) struct Numbered<'a> {
    pub(crate) id: u64,
    #[serde(flatten)]
    pub(crate) request: &'a Request<'a>,
}

/// An answer, the number of its request, and the process that gives it.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer<T> {
    pub(crate) id: u64,
    pub(crate) pid: u64,
    #[serde(flatten)]
    pub(crate) reply: Reply<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply<T> {
    Answer(T),
    /// A verdict on the sample.
    Bad(String),
    /// Any other error while a sample was read or changed.
    Passing(String),
    /// An error before that.
    Raised(String),
    Short(String),
}

/// What a call that changes the shared memory answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

#[derive(Debug, Deserialize)]
pub(crate) struct Digest {
    pub(crate) digest: String,
    pub(crate) path: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Read {
    /// Names, and bytes of each in the memory, one behind the other.
    pub(crate) fields: Vec<(String, u64)>,
}
