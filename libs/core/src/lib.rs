//! What two tiers must compute alike, so that a batch is a pure function of its coordinates:
//! dtypes, recipes and their digests, the layout of a batch, sample references, manifests,
//! random draws, masks, mixing and the order of samples. And what all tiers do alike: pauses between tries,
//! counts, errors and names of fields in words, bytes in digits, text that a terminal can be
//! shown, when to say that a wait goes on, and who reads the same stream.
//!
//! Deliberately absent: files, sockets, clocks, threads, async, logging, any state shared
//! between calls. Everything here can be computed again anywhere from its arguments.
#![forbid(unsafe_code)]

pub mod backoff;
pub mod cast;
pub mod digest;
pub mod draw;
pub mod dtype;
mod error_chain;
mod escape_control;
pub mod fields;
mod filter;
pub mod fp8;
pub mod geometry;
mod hex;
mod index_bytes;
pub mod layout;
pub mod manifest;
pub mod masks;
pub mod mixing;
pub mod op;
mod padding;
pub mod part;
pub mod patches;
mod pluralize;
pub mod recipe;
mod reminder;
pub mod rendezvous;
pub mod sample;
pub mod sampler;
pub mod seats;
pub mod serde_words;
pub mod shard_entries;
pub mod shard_index;
pub mod streams;

pub use backoff::Backoff;
pub use digest::{Digest, Digester};
pub use draw::{DrawKey, DrawRng};
pub use dtype::Dtype;
pub use error_chain::{error_chain, innermost};
pub use escape_control::escape_control;
pub use fp8::{AmaxHistory, AmaxState};
pub use hex::hex;
pub use index_bytes::cached_shard_key;
pub use layout::{Layout, Region, TensorLayout};
pub use manifest::{Manifest, ManifestError, ShardEntry};
pub use masks::{MaskKey, MaskPlan, MaskSpec, Masks};
pub use mixing::{MixPlan, MixSpec, Mixing};
pub use part::{BadSamplePolicy, PartKey, PartScope, PartSettings, cut};
pub use patches::{PatchMasks, PatchPlan, PatchSpec};
pub use pluralize::pluralize;
pub use recipe::{Recipe, RecipeError};
pub use reminder::Reminder;
pub use rendezvous::{deal, owner, owner_bounded, rendezvous};
pub use sample::{SampleId, SampleRef};
pub use sampler::{BatchPlan, Sampler, SamplerConfig, SamplerError, State};
pub use shard_entries::{ShardEntries, ShardEntriesBuilder};
pub use shard_index::{IndexedField, ShardIndex, ShardIndexBuilder};
