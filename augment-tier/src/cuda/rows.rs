//! Rows as the kernels leave them, and where they go: elements to the part's memory, and what lies
//! behind them to whom it concerns.
//!
//! Where the device can reach the part's memory it writes the rows there by itself; else they come by way of
//! memory of the device's own.
#![allow(unsafe_code)]

use headwater_core::cast::Normalise;
use headwater_core::{Dtype, Recipe};

use super::arena::Row;
use super::device::{Device, DeviceError, DirectRow};
use crate::ops::amax;
use crate::render::{RenderError, ViewSink, check_row};

/// Rows that a device writes to their sinks by itself.
pub(super) struct Direct(Vec<DirectRow>);

// === impl Direct ===

impl Direct {
    /// All rows of a load, which lies at `rows_at`; `None` where something lies behind elements, or one of them goes
    /// where the device cannot reach.
    pub(super) fn all(
        device: &impl Device,
        recipe: &Recipe,
        (rows, rows_at): (&[Row], u64),
        sinks: &mut [&mut dyn ViewSink],
    ) -> Option<Self> {
        let pins = device.pins()?;
        let is_bare = |dtype| !matches!(dtype, Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3);
        if !recipe.tensors.iter().all(|tensor| is_bare(tensor.dtype)) {
            return None;
        }
        let direct = |row: &Row| {
            let to = sinks[row.sample].device_row(row.tensor, row.view, pins)?;
            let offset = rows_at + row.offset;
            (to.len() as u64 == row.bytes).then_some(DirectRow { offset, to })
        };
        rows.iter().map(direct).collect::<Option<_>>().map(Self)
    }

    /// Has the device write them, and gives other bytes of its arena.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub(super) fn download<'d>(
        &self,
        device: &'d mut impl Device,
        (offset, bytes): (u64, u64),
    ) -> Result<&'d [u8], DeviceError> {
        // SAFETY: the device's own pins were asked by `all` for each place. The sinks, which are borrowed for the
        // whole of `render_all`, have a row each for every view, and are not asked for it while this waits.
        unsafe { device.download_rows(&self.0, offset, bytes) }
    }
}

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
