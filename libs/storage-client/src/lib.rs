//! Reads manifests and encoded samples from storage nodes. Where a node runs on the caller's own
//! host and its shard is visible here as the very same file, in a folder that the caller allows, the
//! file is read instead: no bytes travel.
//!
//! An error is never a word on a sample: what cannot be read now is tried elsewhere and again, until a
//! limit. What is wrong with a sample itself is a [`BadBytes`] in its place.
//!
//! Deliberately absent: decoding, order of samples, caching of sample bytes, writing. Which way a
//! read went is counted (`headwater_storage_read_bytes_total{way}`) and logged once per node.
//!
//! ```no_run
//! # async fn example() -> Result<(), headwater_storage_client::StorageClientError> {
//! use headwater_storage_client::{FieldSelection, StorageClient, StorageClientConfig};
//!
//! let nodes = vec!["127.0.0.1:7401".to_owned()];
//! let client = StorageClient::connect(StorageClientConfig { nodes, ..Default::default() }).await?;
//! let manifest = client.manifest("photos").await?;
//! let fields = FieldSelection::parse(&["jpg|jpeg|png", "cls"]).unwrap();
//! for sample in client.dataset(manifest.into()).read(0, &[4, 2], &fields).await? {
//!     println!("{} {} bytes", sample.key, sample.bytes());
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
mod buffers;
mod cached;
mod client;
mod config;
mod error;
mod file;
mod hedging;
mod host;
mod local;
mod metrics;
mod node;
mod nodes;
mod object;
mod object_error;
mod open_shards;
mod round;
mod shard;

pub use cached::CachedObject;
pub use client::{Dataset, StorageClient};
pub use config::{LocalFiles, StorageClientConfig};
pub use error::StorageClientError;
pub use file::{FileIdentity, ShardFile, ShardFileError};
pub use host::{host_id, host_name};
pub use metrics::{BytesRead, describe_buffers, describe_metrics, jpegs};
pub use object::{Object, ObjectReader};
pub use object_error::ObjectError;
pub use open_shards::OpenShards;
pub use shard::{IndexedShard, LeftOut, ShardReadError};

pub use headwater_proto::storage::{
    BadBytes, DatasetRef, EncodedSample, Field, FieldSelection, READ_SAMPLES_MAX, SAMPLE_MAX_BYTES,
    StorageFailure,
};
