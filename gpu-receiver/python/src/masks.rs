//! A batch's masks as tensors of their own.

use std::sync::Arc;

use headwater_core::{Dtype, Masks};

use crate::memory::Aligned;
use crate::tensor::Tensor;

/// The three tensors by which Python knows a batch's masks.
pub(crate) fn tensors(masks: &Masks) -> [Tensor; 3] {
    let masked = vec![masks.indices().len() as u64];
    let indices: Vec<u8> = masks.indices().iter().flat_map(|index| index.to_le_bytes()).collect();
    let weight: Vec<u8> = masks.weight().iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let tensor = |name: &str, dtype, shape, bytes: &[u8]| {
        Tensor::owning(name.to_owned(), dtype, shape, Arc::new(Aligned::of(bytes)))
    };
    let shape = vec![masks.rows() as u64, masks.patches() as u64];
    [
        tensor("masks", Dtype::Bool, shape, masks.cells()),
        tensor("mask_indices", Dtype::I64, masked.clone(), &indices),
        tensor("masks_weight", Dtype::F32, masked, &weight),
    ]
}
