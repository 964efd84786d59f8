//! Samples with the bytes of their shards, for trainers that decode by themselves.

use serde::{Deserialize, Serialize};

/// Default maximum of the bytes of a sample.
pub const RAW_BYTES_MAX: u32 = 1 << 20;

/// Two tensors: `image_bytes`, `u8[batch, bytes_max]`, zero beyond each sample's bytes, and
/// `image_sizes`, `i64[batch]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSpec {
    /// Maximum bytes of a sample; a larger one is a bad sample.
    pub bytes_max: u32,
}

// === impl RawSpec ===

impl RawSpec {
    /// Name of the tensor of bytes.
    pub const BYTES: &'static str = "image_bytes";
    /// Name of the tensor of their numbers.
    pub const SIZES: &'static str = "image_sizes";
}
