//! Reads manifests and encoded samples from storage nodes. Where a node runs on the caller's own
//! host and its shard is visible here as the very same file, the file is mapped and sliced instead:
//! no bytes travel and none are copied.
//!
//! Deliberately absent: decoding, order of samples, caching of sample bytes, writing. Which way a
//! read went is counted (`headwater_storage_read_bytes_total{way}`) and logged once per node.
//!
//! ```no_run
//! # async fn example() -> Result<(), headwater_storage_client::StorageClientError> {
//! use headwater_storage_client::{DatasetRef, FieldSelection, StorageClient, StorageClientConfig};
//!
//! let nodes = vec!["127.0.0.1:7401".to_owned()];
//! let client = StorageClient::connect(StorageClientConfig { nodes, ..Default::default() }).await?;
//! let manifest = client.manifest("photos").await?;
//! let dataset = DatasetRef { name: "photos".to_owned(), manifest: manifest.digest() };
//! let fields = FieldSelection::parse(&["jpg|jpeg|png", "cls"]).unwrap();
//! for sample in client.dataset(&dataset).read(0, &[4, 2], &fields).await? {
//!     println!("{} {} bytes", sample.key, sample.bytes());
//! }
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod client;
mod config;
mod error;
mod host;
mod local;
mod map;
mod metrics;
mod node;
mod nodes;
mod open_shards;
mod shard;

pub use client::{Advised, Dataset, StorageClient};
pub use config::{LocalMap, StorageClientConfig};
pub use error::StorageClientError;
pub use host::{host_id, host_name};
pub use map::{FileIdentity, MapError, ShardMap};
pub use metrics::BytesRead;
pub use open_shards::OpenShards;
pub use shard::{MappedShard, ShardReadError};

pub use headwater_proto::storage::{
    DatasetRef, EncodedSample, FieldSelection, READ_SAMPLES_MAX, SAMPLE_MAX_BYTES, StorageFailure,
};
