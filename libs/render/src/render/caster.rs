//! The last step of a view: from planes of levels to the bytes of a tensor's row.

use headwater_core::op::DrawnOp;
use headwater_core::recipe::TensorSpec;
use headwater_core::{Dtype, Recipe};

use headwater_pixels::image::Planes;
use headwater_pixels::ops::cast::mx::{self, MxTable};
use headwater_pixels::ops::cast::{CastTable, Normalise};
use headwater_pixels::ops::{amax, cast, erase};
use headwater_simd::Simd;

/// Tables that are kept: one for each dtype of images, for a few recipes, and for FP8 one for each
/// scale of the batches that are made at the same time.
const TABLES_MAX: usize = 32;

/// Normalises and casts one view after the other, by tables that it keeps.
#[derive(Debug)]
pub(super) struct Caster {
    simd: Simd,
    tables: Vec<CastTable>,
    mx_tables: Vec<MxTable>,
    /// Of the view that was written last.
    block_scales: Vec<u8>,
}

// === impl Caster ===

impl Caster {
    pub(super) fn new(simd: Simd) -> Self {
        Self { simd, tables: Vec::new(), mx_tables: Vec::new(), block_scales: Vec::new() }
    }

    /// Writes a view to a row of a tensor, less the boxes that are erased, whose FP8 elements have `scale`. Gives the scales of its
    /// blocks where the tensor's dtype has blocks.
    pub(super) fn write(
        &mut self,
        recipe: &Recipe,
        spec: &TensorSpec,
        scale: f32,
        (view, ops): (&Planes, &[DrawnOp]),
        row: &mut [u8],
    ) -> &[u8] {
        let Self { simd, tables, mx_tables, block_scales } = self;
        let normalise = Normalise::of(recipe);
        if spec.dtype == Dtype::Mxfp8E4m3 {
            let serves = |table: &MxTable| *table.normalise() == normalise;
            let table = kept(mx_tables, serves, || MxTable::new(normalise));
            let blocks = (spec.width as usize).div_ceil(mx::BLOCK) * spec.height as usize;
            block_scales.resize(3 * blocks, 0);
            mx::write(*simd, view, table, row, block_scales);
            erase::apply(*simd, ops, spec.dtype, &normalise, view.extent(), row);
            return block_scales;
        }
        let serves = |table: &CastTable| table.serves(&normalise, spec.dtype, scale);
        let make = || CastTable::scaled(normalise, spec.dtype, scale);
        cast::write(*simd, view, kept(tables, serves, make), row);
        erase::apply(*simd, ops, spec.dtype, &normalise, view.extent(), row);
        &[]
    }

    /// The largest magnitude of a view, normalised for `recipe`.
    pub(super) fn amax(&self, recipe: &Recipe, view: &Planes) -> f32 {
        amax::of_view(self.simd, view, &Normalise::of(recipe))
    }
}

/// The entry that serves; made when it is not there.
fn kept<T>(tables: &mut Vec<T>, serves: impl FnMut(&T) -> bool, make: impl FnOnce() -> T) -> &T {
    let found = tables.iter().position(serves);
    let index = found.unwrap_or_else(|| {
        if tables.len() == TABLES_MAX {
            tables.clear();
        }
        tables.push(make());
        tables.len() - 1
    });
    &tables[index]
}
