//! What kernels look up to make elements of levels.

use headwater_core::cast::{Normalise, level_elements};
use headwater_core::{Dtype, Recipe};
use headwater_pixels::ops::cast::mx::plain::{element_of, scale_of};

use super::arena::padded;

/// Tables that are kept from part to part: with delayed scaling each batch has new ones.
const KEPT_MAX: usize = 16;
/// Bytes of `u32[3, 256]`.
const TABLE_BYTES: u64 = 3 * 256 * 4;

/// What the levels of tensors become, one table for each dtype and scale.
#[derive(Debug, Default)]
pub(super) struct Tables {
    known: Vec<Table>,
    /// Number of the table of each tensor.
    chosen: Vec<usize>,
    /// Of the known ones, each with the gap behind it.
    bytes: u64,
}

#[derive(Debug)]
struct Table {
    normalise: Normalise,
    dtype: Dtype,
    /// Bits of the scale of FP8 elements; 0 for other types.
    scale: u32,
    /// As `words.cu` has it.
    bytes: Vec<u8>,
}

/// The table that changes nothing, as the kernels read it.
pub(super) fn levels() -> impl Iterator<Item = u8> {
    (0..3).flat_map(|_| (0..256u32).flat_map(u32::to_le_bytes))
}

// === impl Tables ===

impl Tables {
    /// Begins a part: nothing refers to tables that were made before.
    pub(super) fn begin(&mut self) {
        if self.known.len() > KEPT_MAX {
            self.known.clear();
            self.bytes = 0;
        }
    }

    /// Chooses the tables for a sample's tensors. `scale`: that of a tensor of
    /// [`Dtype::Fp8E4m3`]; without one it is the recipe's static scale.
    pub(super) fn choose(&mut self, recipe: &Recipe, scale: impl Fn(usize) -> Option<f32>) {
        let normalise = Normalise::of(recipe);
        self.chosen.clear();
        for (tensor, spec) in recipe.tensors.iter().enumerate() {
            let scale = if spec.dtype == Dtype::Fp8E4m3 {
                scale(tensor).unwrap_or_else(|| recipe.fp8_scale())
            } else {
                0.0
            };
            let serves = |table: &Table| {
                (table.dtype, table.scale) == (spec.dtype, scale.to_bits())
                    && table.normalise == normalise
            };
            let number = self.known.iter().position(serves).unwrap_or_else(|| {
                let table = Table::new(normalise, spec.dtype, scale);
                self.bytes += padded(table.bytes.len() as u64);
                self.known.push(table);
                self.known.len() - 1
            });
            self.chosen.push(number);
        }
    }

    /// Number of the table that was chosen for a tensor.
    pub(super) fn of_tensor(&self, tensor: usize) -> usize {
        self.chosen[tensor]
    }

    /// The tables, in the order of their numbers.
    pub(super) fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.known.iter().map(|table| &table.bytes[..])
    }

    /// Bytes of all of them and of [`levels`], gaps included.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes + padded(TABLE_BYTES)
    }
}

// === impl Table ===

impl Table {
    fn new(normalise: Normalise, dtype: Dtype, scale: f32) -> Self {
        let bytes = if dtype == Dtype::Mxfp8E4m3 {
            of_blocks(&normalise)
        } else {
            let elements = level_elements(&normalise, dtype, scale);
            elements.as_flattened().iter().flat_map(|bits| bits.to_le_bytes()).collect()
        };
        Self { normalise, dtype, scale: scale.to_bits(), bytes }
    }
}

/// For each channel and level the scale of a block in which it is the largest, and the number of that
/// scale; then for each number the elements of all levels of its channel under its scale. A block's
/// scale is the largest of its levels' scales, because larger magnitudes have no smaller ones.
fn of_blocks(normalise: &Normalise) -> Vec<u8> {
    let (mut words, mut elements) = (Vec::new(), Vec::new());
    let mut numbers: Vec<(usize, u8)> = Vec::new();
    for channel in 0..3 {
        for level in 0..=u8::MAX {
            let scale = scale_of(normalise.value(channel, level).abs());
            let known = numbers.iter().position(|&known| known == (channel, scale));
            let number = known.unwrap_or_else(|| {
                let element = |level| element_of(normalise.value(channel, level), scale);
                elements.extend((0..=u8::MAX).map(element));
                numbers.push((channel, scale));
                numbers.len() - 1
            });
            words.extend((u32::from(scale) << 16 | number as u32).to_le_bytes());
        }
    }
    words.extend(elements);
    words
}
