//! What each of the 256 levels of each channel becomes.
//!
//! Normalised in binary32, then one rounding to the output dtype. With 256 levels the whole step is
//! a table.

use headwater_core::cast::{LevelElements, level_elements};
use headwater_core::{Dtype, Recipe};

use crate::ops::cast::Normalise;
use crate::ops::cast::affine::Affine;

/// The elements that the levels of each channel become, for one dtype, normalisation and scale.
#[derive(Clone, Debug)]
pub struct CastTable {
    dtype: Dtype,
    normalise: Normalise,
    /// That of FP8 elements; 1 for other types.
    scale: f32,
    /// Per channel and level the element's bits; the lower bytes count.
    bits: Box<LevelElements>,
    /// Per channel the lowest bytes of all elements, and the bytes above them.
    bytes: Box<[[[u8; 256]; 2]; 3]>,
    /// Arithmetic that gives the same, if any was found.
    affine: Option<Affine>,
}

// === impl CastTable ===

impl CastTable {
    /// The table of a tensor of `dtype`; FP8 takes the recipe's static scale.
    ///
    /// # Panics
    /// `dtype` is not one of images, or one with blocks: those have an [`crate::ops::cast::mx::MxTable`].
    #[must_use]
    pub fn new(recipe: &Recipe, dtype: Dtype) -> Self {
        Self::scaled(Normalise::of(recipe), dtype, recipe.fp8_scale())
    }

    /// The table of a tensor of `dtype`. FP8 elements are multiplied by `scale` before they are
    /// rounded.
    ///
    /// # Panics
    /// As for [`CastTable::new`].
    #[must_use]
    pub fn scaled(normalise: Normalise, dtype: Dtype, scale: f32) -> Self {
        let scale = if dtype == Dtype::Fp8E4m3 { scale } else { 1.0 };
        let bits = level_elements(&normalise, dtype, scale);
        let affine = Affine::find(&normalise, dtype, scale, &bits);
        let byte = |n: usize| move |element: u32| element.to_le_bytes()[n];
        let bytes = Box::new(bits.each_ref().map(|of| [of.map(byte(0)), of.map(byte(1))]));
        Self { dtype, normalise, scale, bits, bytes, affine }
    }

    /// Mean and standard deviation that it was made for.
    #[must_use]
    pub fn normalise(&self) -> &Normalise {
        &self.normalise
    }

    /// Arithmetic that gives the same elements, if any was found.
    pub(super) fn affine(&self) -> Option<&Affine> {
        self.affine.as_ref()
    }

    /// Whether the table is the one for this normalisation, dtype and scale.
    #[must_use]
    pub fn serves(&self, normalise: &Normalise, dtype: Dtype, scale: f32) -> bool {
        let scaled = dtype != Dtype::Fp8E4m3 || self.scale.to_bits() == scale.to_bits();
        self.dtype == dtype && self.normalise == *normalise && scaled
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The lowest bytes of the elements of a channel's levels, and the bytes above them.
    pub(super) fn bytes(&self, channel: usize) -> &[[u8; 256]; 2] {
        &self.bytes[channel]
    }

    /// Bits of the element of each level of a channel.
    #[must_use]
    pub fn levels(&self, channel: usize) -> &[u32; 256] {
        &self.bits[channel]
    }
}
