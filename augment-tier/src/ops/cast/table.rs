//! What each of the 256 levels of each channel becomes.
//!
//! Source: torchvision `to_tensor` (x / 255) and `normalize` ((x - mean) / std), in binary32,
//! then one rounding to the output dtype. With 256 levels the whole step is a table.

use headwater_core::{Dtype, Recipe};

use crate::ops::cast::affine::Affine;
use crate::ops::cast::e4m3;

/// The elements that the levels of each channel become, for one dtype and normalisation.
#[derive(Clone, Debug)]
pub struct CastTable {
    dtype: Dtype,
    mean: [f32; 3],
    std: [f32; 3],
    /// Per channel and level the element's bits; the lower bytes count.
    bits: Box<[[u32; 256]; 3]>,
    /// Arithmetic that gives the same, if any was found.
    affine: Option<Affine>,
}

// === impl CastTable ===

impl CastTable {
    /// The table of a tensor of `dtype`; FP8 takes the recipe's static scale.
    ///
    /// # Panics
    /// `dtype` is not one of images; a validated recipe has none such.
    #[must_use]
    pub fn new(recipe: &Recipe, dtype: Dtype) -> Self {
        let scale = recipe.fp8_scale();
        let mut bits = Box::new([[0; 256]; 3]);
        for (channel, levels) in bits.iter_mut().enumerate() {
            for (level, element) in levels.iter_mut().enumerate() {
                let share = level as f32 / 255.0;
                let value = (share - recipe.mean[channel]) / recipe.std[channel];
                *element = match dtype {
                    Dtype::U8 => level as u32,
                    Dtype::F32 => value.to_bits(),
                    Dtype::Bf16 => u32::from(half::bf16::from_f32(value).to_bits()),
                    Dtype::F16 => u32::from(half::f16::from_f32(value).to_bits()),
                    Dtype::Fp8E4m3 => u32::from(e4m3::from_f32(value * scale)),
                    Dtype::I64 | Dtype::Bool => panic!("{dtype} is no dtype for images"),
                };
            }
        }
        let mut table = Self { dtype, mean: recipe.mean, std: recipe.std, bits, affine: None };
        table.affine = Affine::find(&table, recipe.mean, recipe.std, scale);
        table
    }

    /// Arithmetic that gives the same elements, if any was found.
    pub(super) fn affine(&self) -> Option<&Affine> {
        self.affine.as_ref()
    }

    /// Whether the table is the one for this recipe and dtype.
    #[must_use]
    pub fn serves(&self, recipe: &Recipe, dtype: Dtype) -> bool {
        self.dtype == dtype && self.mean == recipe.mean && self.std == recipe.std
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Bits of the element of each level of a channel.
    #[must_use]
    pub fn levels(&self, channel: usize) -> &[u32; 256] {
        &self.bits[channel]
    }
}
