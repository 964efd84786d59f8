//! What kernels look up to make elements of levels.

use headwater_core::{Dtype, Recipe};

use crate::ops::cast::{CastTable, Normalise};

/// What the levels of each tensor become, one table for each dtype.
#[derive(Debug, Default)]
pub(super) struct Tables {
    known: Vec<CastTable>,
    pub(super) flat: Vec<[u32; 3 * 256]>,
    /// Number of the table of each tensor.
    pub(super) of_tensor: Vec<usize>,
}

/// Whether the kernels leave levels, of which the processor makes elements: it needs the levels for
/// amaxes and for the scales of blocks.
pub(super) fn leaves_levels(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3)
}

// === impl Tables ===

impl Tables {
    /// Makes the tables of a recipe, unless they are those of the last one.
    pub(super) fn prepare(&mut self, recipe: &Recipe) {
        let (normalise, scale) = (Normalise::of(recipe), 1.0);
        if !self.known.iter().all(|table| table.serves(&normalise, table.dtype(), scale)) {
            self.known.clear();
            self.flat.clear();
        }
        self.of_tensor.clear();
        for spec in &recipe.tensors {
            let dtype = if leaves_levels(spec.dtype) { Dtype::U8 } else { spec.dtype };
            let known = self.known.iter().position(|table| table.serves(&normalise, dtype, scale));
            let number = known.unwrap_or_else(|| {
                let table = CastTable::new(recipe, dtype);
                let levels = std::array::from_fn(|at| table.levels(at / 256)[at % 256]);
                self.flat.push(levels);
                self.known.push(table);
                self.known.len() - 1
            });
            self.of_tensor.push(number);
        }
    }
}
