//! How requests and their answers are bounded.

use headwater_config_derive::Section;

/// How requests and their answers are bounded.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct RequestConfig {
    /// Connections at the same time with an admitted request; further ones are refused.
    /// `security.strangers_max` limits the others.
    #[key(unit = "connections", default = 4096)]
    pub connections_max: usize,
    /// Requests at the same time, over all connections, until their answers begin; a further one is
    /// refused, and the caller tries again.
    #[key(unit = "requests", default = 4096)]
    pub requests_max: usize,
    /// Requests at the same time that have begun and are not complete; beyond this the oldest of
    /// the host with the most is refused.
    #[key(unit = "requests", default = 512)]
    pub requests_arriving_max: usize,
    /// Time for a request to arrive completely, in ms.
    #[key(unit = "milliseconds", default = 10_000)]
    pub request_timeout_ms: u64,
    /// Bytes of answers that callers have not read yet; beyond this the caller with the most is
    /// disconnected.
    #[key(unit = "bytes", default = 1 << 30)]
    pub answer_bytes_max: u64,
    /// Time for a caller to read the next piece of an answer, in ms; then it is disconnected.
    #[key(unit = "milliseconds", default = 20_000)]
    pub answer_timeout_ms: u64,
    /// Time for running answers to finish when the node is asked to stop, in ms.
    #[key(unit = "milliseconds", default = 20_000)]
    pub drain_timeout_ms: u64,
}
