//! How shards are read, and fetched in advance.

use headwater_config_derive::Section;

/// How shards are read, and fetched in advance.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct ReadConfig {
    /// Sum of the samples in one block of an answer, in bytes.
    // Few enough to stay in a core's cache from the file to the socket.
    #[key(unit = "bytes", default = 512 << 10)]
    pub block_bytes: usize,
    /// Threads that wait for the disk at the same time, at the start and while serving.
    #[key(unit = "threads", default = 16)]
    pub readers: usize,
    /// Reads answered at the same time; further ones wait.
    #[key(unit = "reads", default = 256)]
    pub max_concurrent_reads: usize,
    /// Reads that may wait; a further one is refused, and the caller tries again.
    #[key(unit = "reads", default = 1024)]
    pub max_waiting_reads: usize,
    /// Shards kept open; the least recently used one is closed.
    #[key(unit = "shards", default = 512)]
    pub open_shards_max: usize,
    /// Shards fetched in advance at the same time, each by a thread in addition to `readers`. More
    /// of them hide a longer latency of the source.
    #[key(unit = "shards", default = 8)]
    pub shard_prefetch_window: usize,
    /// Bytes of shards that are fetched in advance and not yet passed by the callers that announced
    /// them. One caller holds at most as many as it leaves free.
    #[key(unit = "bytes", default = 16 << 30)]
    pub prefetch_bytes: u64,
}
