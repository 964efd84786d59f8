//! The strict models of the storage protocol: what callers ask storage nodes and what they answer.

mod chunks;
mod failure;
mod fields;
mod locate;
mod manifest;
mod plan;
mod read;
mod verdict;
mod welcome;

pub use chunks::{BlockAssembly, READ_SAMPLES_PATH, block_chunks, request_bytes, request_message};
pub use failure::StorageFailure;
pub use fields::{FIELDS_WANTED_MAX, FieldSelection};
pub use locate::{ShardPlace, ShardQuery};
pub use manifest::{ManifestAssembly, manifest_pieces};
pub use plan::{PLAN_SHARDS_MAX, ShardPlan};
pub use read::{EncodedSample, Field, READ_SAMPLES_MAX, ReadQuery, SAMPLE_MAX_BYTES};
pub use verdict::BadBytes;
pub use welcome::{ServedDataset, StorageWelcome};

pub use crate::augment::{DatasetRef, MessageError};
