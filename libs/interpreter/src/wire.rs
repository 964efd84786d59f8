//! Requests and answers: a line of JSON each.

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Request<'a> {
    Call { function: &'a str, shape: [u32; 3], seed: &'a [u64] },
    Digest { module: &'a str },
    Open { dataset: &'a str, arguments: &'a serde_json::Map<String, serde_json::Value> },
    Read { index: u64 },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply<T> {
    Answer(T),
    Raised(String),
    Short(String),
    Passing(String),
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
pub(crate) struct Opened {
    pub(crate) samples: u64,
    pub(crate) version: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Read {
    /// Names, and bytes of each in the memory, one behind the other.
    pub(crate) fields: Vec<(String, u64)>,
}
