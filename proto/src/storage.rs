//! The strict models of the storage protocol: what callers ask storage nodes and what they answer.

mod failure;
mod fields;
mod locate;
mod manifest;
mod read;
mod verdict;
mod welcome;

pub use failure::StorageFailure;
pub use fields::{FIELDS_WANTED_MAX, FieldSelection};
pub use locate::{ShardPlace, ShardQuery};
pub use manifest::{ManifestAssembly, manifest_pieces};
pub use read::{EncodedSample, Field, READ_SAMPLES_MAX, ReadQuery, SAMPLE_MAX_BYTES};
pub use verdict::BadBytes;
pub use welcome::{ServedDataset, StorageWelcome};

pub use crate::augment::{DatasetRef, MessageError};
