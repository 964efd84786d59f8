//! Storage tier: finds, indexes and serves encoded samples.
//!
//! At the start the shards are found ([`DatasetConfig::shards`]), indexed and made into one manifest
//! per dataset. Then samples are read and sent; a caller on the same host learns where the shard
//! lies and reads it itself (`headwater-storage-client`).
//!
//! Two seams divide the work: a source (`source`) gives ranges of bytes of named objects, a format
//! (`format`) finds samples in objects of any source. What is far away, and what has to be unpacked, goes
//! through the host's cache (`through_cache`).
//!
//! Tools that look after shards without serving them use [`Inspector`]; for a tar by itself there are
//! [`InspectedShard`] and [`count_samples`].
//!
//! Deliberately absent: pixels (the bits of JPEG images are looked at to find where decoding can begin), order of samples, any memory of who read what (who wants what next
//! is remembered, to fetch it ahead), writing to sources, encryption, watching for new shards. A dataset
//! is what it was when the node started; shards must not be written to meanwhile.
#![forbid(unsafe_code)]

mod config;
mod dataset;
mod drain;
mod entries;
mod error;
mod filter;
mod find;
mod format;
mod fuzz_entry;
mod in_order;
mod inspect;
mod kept;
mod look_ahead;
mod metrics;
mod open_files;
mod read_queue;
mod service;
mod source;
mod storage;
mod through_cache;
mod unpacked;

pub use config::{
    DatasetConfig, JpegEntries, LongSequences, MegatronConfig, NodeCacheConfig, OnBrokenShard,
    PackBy, PackConfig, PythonConfig, ReadConfig, RequestConfig, SourceConfig, StorageConfig,
    usual_cache_dir,
};
pub use dataset::{FirstPlace, first_place};
pub use error::StorageError;
pub use filter::{FilterConfig, FilterKind};
pub use find::{find_shards, listed};
pub use format::{
    CLASSES_FILE, DaliIndex, Damage, FormatKind, IdxForm, InspectedShard, SampleCount,
    count_samples,
};
pub use fuzz_entry::fuzz_entry;
pub use headwater_cache::CacheLevel;
pub use inspect::{FoundPlace, FoundShard, InspectedSamples, Inspector, ShardEntriesKept};
#[doc(hidden)]
pub use metrics::describe_metrics;
pub use service::{listen, serve};
pub use source::{SUMS_FILE, Sum, sum_of_line};
pub use storage::Storage;
