//! Configuration of `headwater publish`: `[publish]` in `headwater.toml`.

mod address;
mod files;

use headwater_config_derive::Keys;
use serde::{Deserialize, Serialize};

use crate::ConfigError;

pub use address::{Address, Kind, SocketAddress, client_addresses};
pub use files::FileSeries;

/// Where batches are published, and how many may wait there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct PublishConfig {
    /// Addresses as in Tensorcom; every address gets every batch. `zrpush://HOST:PORT` listens for
    /// `zrpull` clients, which share the batches and lose none. `zpub://` listens for `zsub`
    /// clients; each gets all batches that it is fast enough for. `zpush://` and `zrpub://` connect
    /// to clients that listen. `{7410..7429}` means twenty addresses. `file:batches-{000000..}.ten`
    /// writes each batch to a file.
    pub urls: Vec<String>,
    /// What sets the pace: `all`: the slowest address, for all of them; `each`: each address for
    /// itself, with a receiver of its own, its memory and, in a separate folder, its checkpoints.
    pub pace: Pace,
    /// Batches that may wait for one client, in memory of this process: beyond them a `push` waits
    /// and a `pub` drops.
    #[key(unit = "batches")]
    pub queue_batches: u32,
    /// Subscriptions that each `pub` address waits for before the first batch.
    #[key(unit = "subscriptions")]
    pub subscribers_min: u32,
    /// How messages are cut: `multipart` (Tensorcom's default) or `single`.
    pub framing: Framing,
    /// Sends class indices as 64-bit integers, which Tensorcom itself only sends if configured.
    pub labels_wide: bool,
    /// How long to wait at the end for clients to take queued batches, in ms.
    #[key(unit = "milliseconds")]
    pub linger_ms: u32,
    /// Threads of ZeroMQ that move bytes.
    #[key(unit = "threads")]
    pub io_threads: u32,
}

/// Who sets the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// One receiver takes the batches for all addresses: they go at the pace of the slowest.
    All,
    /// A receiver for each address, with its own place in the stream.
    Each,
}

/// How the tensors of a batch become frames of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// A frame for each header and each tensor.
    Multipart,
    /// One frame with all of them as chunks.
    Single,
}

// === impl PublishConfig ===

impl Default for PublishConfig {
    fn default() -> Self {
        Self {
            urls: vec!["zpub://127.0.0.1:7404".into()],
            pace: Pace::All,
            queue_batches: 4,
            subscribers_min: 0,
            framing: Framing::Multipart,
            labels_wide: false,
            linger_ms: 60_000,
            io_threads: 1,
        }
    }
}

impl PublishConfig {
    /// The addresses, ranges of ports written out.
    ///
    /// # Errors
    /// The first key that is out of range, or an address that cannot be understood.
    pub fn addresses(&self) -> Result<Vec<Address>, ConfigError> {
        let wrong = |key, value, rule| Err(ConfigError::Value { key, value, rule });
        for (key, value, most) in [
            ("publish.queue_batches", self.queue_batches, 100_000),
            ("publish.io_threads", self.io_threads, 64),
            ("publish.linger_ms", self.linger_ms, i32::MAX as u32),
        ] {
            if !(1..=most).contains(&value) {
                return wrong(key, value.to_string(), format!("must be from 1 to {most}"));
            }
        }
        let key = "publish.urls";
        if self.urls.is_empty() {
            return wrong(key, "[]".to_owned(), "give one address at least".to_owned());
        }
        let mut addresses = Vec::new();
        for url in &self.urls {
            match address::parse(url) {
                Ok(parsed) => addresses.extend(parsed),
                Err(rule) => return wrong(key, format!("`{url}`"), rule),
            }
        }
        Ok(addresses)
    }
}
