//! The made-up sides, and the bytes that a part must have.

pub(crate) mod expect;
pub(crate) mod gate;
pub(crate) mod receiver;
pub(crate) mod shards;
pub(crate) mod storage;
pub(crate) mod worker;

use std::time::Duration;

use headwater_core::recipe::TensorSpec;
use headwater_core::{Dtype, Recipe, SampleRef};

/// Longest wait for anything that must happen.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Long enough for anything that must not happen to show.
pub(crate) const A_WHILE: Duration = Duration::from_millis(300);

/// DINOv2's recipe with views small enough for a test.
pub(crate) fn recipe() -> Recipe {
    let mut recipe = Recipe::preset("dinov2", Dtype::Bf16).unwrap();
    for (tensor, side) in recipe.tensors.iter_mut().zip([32, 16]) {
        let TensorSpec { height, width, .. } = tensor;
        (*height, *width) = (side, side);
    }
    recipe
}

/// A sample of the first dataset in its first pass.
pub(crate) fn sample(shard: u32, index: u32) -> SampleRef {
    SampleRef { dataset: 0, shard, index, pass: 0 }
}

pub(crate) fn samples(shard: u32, indices: impl IntoIterator<Item = u32>) -> Vec<SampleRef> {
    indices.into_iter().map(|index| sample(shard, index)).collect()
}
