//! A batch's masks, patches and mixing as tensors of their own.

use std::sync::Arc;

use headwater_core::{Dtype, Masks, Mixing, PatchMasks};

use crate::memory::Aligned;
use crate::tensor::Tensor;

/// The three tensors by which Python knows a batch's masks.
pub(crate) fn of_masks(masks: &Masks) -> [Tensor; 3] {
    let masked = vec![masks.indices().len() as u64];
    let shape = vec![masks.rows() as u64, masks.patches() as u64];
    [
        tensor("masks", Dtype::Bool, shape, masks.cells()),
        tensor("mask_indices", Dtype::I64, masked.clone(), &of_i64(masks.indices())),
        tensor("masks_weight", Dtype::F32, masked, &of_f32(masks.weight())),
    ]
}

/// The tensors by which Python knows a batch's patches.
pub(crate) fn of_patches(patches: &PatchMasks) -> Vec<Tensor> {
    let made = patches.tensors().iter();
    made.map(|made| tensor(made.name, Dtype::I64, made.shape.clone(), &of_i64(&made.values)))
        .collect()
}

/// The three tensors by which Python knows how a batch is mixed.
pub(crate) fn of_mixing(mixing: &Mixing) -> [Tensor; 3] {
    let samples = mixing.lam().len() as u64;
    let boxes = of_i64(mixing.boxes().as_flattened());
    [
        tensor("mixing_partner", Dtype::I64, vec![samples], &of_i64(mixing.partner())),
        tensor("mixing_lam", Dtype::F32, vec![samples], &of_f32(mixing.lam())),
        tensor("mixing_box", Dtype::I64, vec![samples, 4], &boxes),
    ]
}

fn tensor(name: &str, dtype: Dtype, shape: Vec<u64>, bytes: &[u8]) -> Tensor {
    Tensor::owning(name.to_owned(), dtype, shape, Arc::new(Aligned::of(bytes)))
}

fn of_i64(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn of_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
