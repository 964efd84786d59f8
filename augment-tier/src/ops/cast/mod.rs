//! Normalise and cast: the last step, from uint8 planes to the bytes of a tensor's row.

pub mod e4m3;
pub mod plain;
mod table;

pub use table::CastTable;

use crate::image::Planes;
use crate::simd::Simd;

/// Writes the view as one row `[3, height, width]` of a tensor.
///
/// # Panics
/// `row` is not exactly as long as the elements.
pub fn write(simd: Simd, view: &Planes, table: &CastTable, row: &mut [u8]) {
    let _ = simd;
    plain::write(view, table, row);
}
