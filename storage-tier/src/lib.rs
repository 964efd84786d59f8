//! Storage tier: finds, indexes and serves encoded samples.
//!
//! At the start the shards are found ([`DatasetConfig::shards`]), indexed and made into one
//! manifest per dataset. Then samples are read and sent; a caller on the same host is told where the
//! shard lies and reads it itself (`headwater-storage-client`).
//!
//! Tools that look after shards without serving them use [`InspectedShard`] and [`count_samples`].
//!
//! Deliberately absent: decoding, order of samples, any memory of who asked for what, a cache of
//! sample bytes beside the kernel's, object stores, encryption, watching for new shards. A dataset
//! is what it was when the node started; shards must not be written to meanwhile.
#![forbid(unsafe_code)]

mod config;
mod dataset;
mod error;
mod find;
mod index;
mod metrics;
mod open_files;
mod read_queue;
mod service;
mod storage;

pub use config::{DatasetConfig, OnBrokenShard, StorageConfig};
pub use error::StorageError;
pub use find::find_shards;
pub use index::{IdxForm, InspectedShard, SampleCount, count_samples};
pub use service::{listen, serve};
pub use storage::Storage;
