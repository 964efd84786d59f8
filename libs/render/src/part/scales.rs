//! The scales of a part's FP8 tensors, and the largest magnitudes that were found under them.

use std::sync::atomic::{AtomicU32, Ordering};

use headwater_core::Recipe;

/// One scale and one amax for each FP8 tensor of a recipe. Threads that render samples of the part
/// note amaxes here without waiting for one another.
#[derive(Debug)]
pub struct PartScales {
    /// For each tensor of the recipe its number among the FP8 tensors.
    number: Vec<Option<usize>>,
    scales: Vec<f32>,
    /// Bits of binary32: of numbers without a sign, the larger one has the larger bits.
    amaxes: Vec<AtomicU32>,
}

// === impl PartScales ===

impl PartScales {
    /// The scales of a lease; `None` where there is not one for each FP8 tensor.
    #[must_use]
    pub fn new(recipe: &Recipe, scales: Vec<f32>) -> Option<Self> {
        let mut number = vec![None; recipe.tensors.len()];
        let mut count = 0;
        for tensor in recipe.fp8_tensors() {
            number[tensor] = Some(count);
            count += 1;
        }
        let amaxes = (0..count).map(|_| AtomicU32::new(0)).collect();
        (scales.len() == count).then_some(Self { number, scales, amaxes })
    }

    /// The scales, one for each FP8 tensor.
    #[must_use]
    pub fn given(&self) -> &[f32] {
        &self.scales
    }

    /// The recipe's static scales.
    #[must_use]
    pub fn of(recipe: &Recipe) -> Self {
        let scales = recipe.fp8_tensors().map(|_| recipe.fp8_scale()).collect();
        Self::new(recipe, scales).expect("one for each")
    }

    /// The scale of a tensor of the recipe, where it has one.
    pub(super) fn scale(&self, tensor: usize) -> Option<f32> {
        self.number[tensor].map(|number| self.scales[number])
    }

    /// Notes the largest magnitude of some values of a tensor.
    pub(super) fn note(&self, tensor: usize, amax: f32) {
        if let Some(number) = self.number[tensor] {
            self.amaxes[number].fetch_max(amax.abs().to_bits(), Ordering::Relaxed);
        }
    }

    /// The largest magnitude of each FP8 tensor so far; 0 where nothing was written.
    #[must_use]
    pub fn amaxes(&self) -> Vec<f32> {
        self.amaxes.iter().map(|bits| f32::from_bits(bits.load(Ordering::Relaxed))).collect()
    }
}
