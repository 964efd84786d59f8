//! What a loader and the services of its host say to each other: objects of JSON, one a line.
//!
//! The services speak first. Both are of one version: another one has another socket.

use std::path::PathBuf;

use headwater_inventory::Cores;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::LocalErrorKind;

/// The services' lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// Somebody attends to this connection.
    Welcome,
    /// Indices are being made.
    Indexing {
        /// Shards that have one.
        done: usize,
        /// All shards.
        of: usize,
    },
    /// The services are ready for this loader.
    Ready(Ready),
    /// A trace was begun or ended, or why not.
    Traced(Option<String>),
    /// There are none, or none any more.
    Failed {
        /// Who has to do something about it.
        kind: LocalErrorKind,
        /// The sentence.
        text: String,
    },
}

/// Where services are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ready {
    /// Address of the storage node.
    pub(crate) storage: String,
    /// Names of the fields that the datasets' samples have.
    pub(crate) fields: Vec<String>,
    /// Address of the worker on the loader's cores.
    pub(crate) worker: String,
    /// File of the token that both want to be shown.
    pub(crate) token_file: PathBuf,
}

/// A loader's lines once the services are ready: a trace of theirs begins, or ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Ask {
    /// To this file, `%h` standing for the host.
    Trace {
        /// The file.
        path: String,
        /// At which it ends.
        bytes_max: u64,
    },
    /// No more.
    EndTrace,
}

/// A loader's first line, after it was welcomed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hello {
    /// The cores that it may use.
    pub(crate) cores: Cores,
    /// Threads that may render on them.
    pub(crate) threads: usize,
}

/// As it is sent.
pub(crate) fn line(said: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(said).expect("plain data");
    line.push(b'\n');
    line
}

/// As it was received, without the line's end.
pub(crate) fn read<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}
