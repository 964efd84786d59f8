//! Default values of a storage node's configuration.

use headwater_access::AccessConfig;

use super::{CACHE_TIMEOUT_MS_DEFAULT, JpegEntries, OnBrokenShard, StorageConfig};

const LISTEN_DEFAULT: &str = "127.0.0.1:7401";
/// Few enough to stay in a core's cache from the file to the socket.
const BLOCK_BYTES_DEFAULT: usize = 512 << 10;
const READERS_DEFAULT: usize = 16;
const CONNECTIONS_DEFAULT: usize = 4096;
const REQUESTS_DEFAULT: usize = 4096;
const REQUESTS_ARRIVING_DEFAULT: usize = 512;
const REQUEST_TIMEOUT_MS_DEFAULT: u64 = 10_000;
const ANSWER_BYTES_DEFAULT: u64 = 1 << 30;
const ANSWER_TIMEOUT_MS_DEFAULT: u64 = 20_000;
const CONCURRENT_READS_DEFAULT: usize = 256;
const WAITING_READS_DEFAULT: usize = 1024;
const OPEN_SHARDS_DEFAULT: usize = 512;
const PREFETCH_WINDOW_DEFAULT: usize = 8;
const PREFETCH_BYTES_DEFAULT: u64 = 16 << 30;
const DRAIN_TIMEOUT_MS_DEFAULT: u64 = 20_000;
const SOURCE_TIMEOUT_MS_DEFAULT: u64 = 30_000;
const SOURCE_RETRY_MS_DEFAULT: u64 = 60_000;
const SOURCE_REQUESTS_DEFAULT: usize = 64;
/// Datasets may take long to be opened.
const PYTHON_TIMEOUT_MS_DEFAULT: u64 = 300_000;
const PYTHON_BAD_SAMPLE_ERRORS_DEFAULT: [&str; 2] = ["ValueError", "UnicodeError"];

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            listen: LISTEN_DEFAULT.to_owned(),
            node: String::new(),
            datasets: Vec::new(),
            roots: Vec::new(),
            index_dir: None,
            jpeg_entries: JpegEntries::Read,
            block_bytes: BLOCK_BYTES_DEFAULT,
            readers: READERS_DEFAULT,
            connections_max: CONNECTIONS_DEFAULT,
            requests_max: REQUESTS_DEFAULT,
            requests_arriving_max: REQUESTS_ARRIVING_DEFAULT,
            request_timeout_ms: REQUEST_TIMEOUT_MS_DEFAULT,
            answer_bytes_max: ANSWER_BYTES_DEFAULT,
            answer_timeout_ms: ANSWER_TIMEOUT_MS_DEFAULT,
            max_concurrent_reads: CONCURRENT_READS_DEFAULT,
            max_waiting_reads: WAITING_READS_DEFAULT,
            open_shards_max: OPEN_SHARDS_DEFAULT,
            shard_prefetch_window: PREFETCH_WINDOW_DEFAULT,
            prefetch_bytes: PREFETCH_BYTES_DEFAULT,
            drain_timeout_ms: DRAIN_TIMEOUT_MS_DEFAULT,
            cache: Vec::new(),
            cache_timeout_ms: CACHE_TIMEOUT_MS_DEFAULT,
            cache_all: false,
            cache_group_read: false,
            source_timeout_ms: SOURCE_TIMEOUT_MS_DEFAULT,
            source_retry_ms: SOURCE_RETRY_MS_DEFAULT,
            source_requests_max: SOURCE_REQUESTS_DEFAULT,
            hub_endpoint: String::new(),
            on_broken_shard: OnBrokenShard::Fail,
            python_modules: Vec::new(),
            python: "python3".into(),
            python_path: Vec::new(),
            python_timeout_ms: PYTHON_TIMEOUT_MS_DEFAULT,
            python_bad_sample_errors: PYTHON_BAD_SAMPLE_ERRORS_DEFAULT.map(str::to_owned).into(),
            python_processes: 0,
            security: AccessConfig::default(),
        }
    }
}
