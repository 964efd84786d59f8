//! Rows as the kernels leave them, and where they go: elements to the part's memory, and what lies
//! behind them to whom it concerns.

use headwater_core::cast::Normalise;
use headwater_core::{Dtype, Recipe};

use super::arena::Row;
use crate::ops::amax;
use crate::render::{RenderError, ViewSink, check_row};

/// Hands out a row.
///
/// # Errors
/// The sink gave memory of another length than the recipe says.
pub(super) fn hand_out(
    recipe: &Recipe,
    row: &Row,
    bytes: &[u8],
    out: &mut dyn ViewSink,
) -> Result<(), RenderError> {
    let Row { tensor, view, .. } = *row;
    let spec = &recipe.tensors[tensor];
    let values = 3 * u64::from(spec.width) * u64::from(spec.height);
    let (elements, behind) = bytes.split_at((values * spec.dtype.size_bytes()) as usize);
    let to = out.row(tensor, view);
    check_row(tensor, view, elements.len(), to.len())?;
    to.copy_from_slice(elements);
    match spec.dtype {
        Dtype::Fp8E4m3 => {
            let ranges = [0, 2, 4].map(|at| [behind[at], behind[at + 1]]);
            out.fp8_amax(tensor, amax::of_ranges(&ranges, &Normalise::of(recipe)));
        }
        Dtype::Mxfp8E4m3 => {
            let to = out.block_scales(tensor, view);
            check_row(tensor, view, behind.len(), to.len())?;
            to.copy_from_slice(behind);
        }
        _ => {}
    }
    Ok(())
}
