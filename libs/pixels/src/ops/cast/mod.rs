//! Normalise and cast: the last step, from uint8 planes to the bytes of a tensor's row.

mod affine;
pub mod mx;
pub mod plain;
mod table;

pub use headwater_core::cast::{Normalise, e4m3};
pub use table::CastTable;

use headwater_core::Dtype;

use crate::image::Planes;
use crate::ops::lookup;
use crate::simd::{Simd, twin};

/// Writes the view as one row `[3, height, width]` of a tensor.
///
/// # Panics
/// `row` is not exactly as long as the elements.
pub fn write(simd: Simd, view: &Planes, table: &CastTable, row: &mut [u8]) {
    match simd {
        Simd::Plain => plain::write(view, table, row),
        _ if lookup::is_fast(simd)
            && matches!(table.dtype(), Dtype::Bf16 | Dtype::F16 | Dtype::Fp8E4m3) =>
        {
            by_registers(simd, view, table, row);
        }
        // Its arithmetic costs more than eight lookups in memory.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) if table.dtype() == Dtype::Fp8E4m3 => plain::write(view, table, row),
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        _ => by_arithmetic(simd, view, table, row),
    }
}

/// Elements of one byte or two, each looked up.
fn by_registers(simd: Simd, view: &Planes, table: &CastTable, row: &mut [u8]) {
    plain::check_row(view, table, row);
    let plane_bytes = row.len() / 3;
    let planes = view.planes().into_iter().zip(row.chunks_exact_mut(plane_bytes));
    for (channel, (plane, to)) in planes.enumerate() {
        let bytes = table.bytes(channel);
        match table.dtype() {
            Dtype::Fp8E4m3 => lookup::map_into(simd, plane, &bytes[0], to),
            _ => lookup::map_into_words(simd, plane, bytes, to),
        }
    }
}

twin! {
    fn by_arithmetic(view: &Planes, table: &CastTable, row: &mut [u8]) = compute;
}

#[inline(always)]
fn compute(view: &Planes, table: &CastTable, row: &mut [u8]) {
    let Some(affine) = table.affine() else {
        return plain::write(view, table, row);
    };
    plain::check_row(view, table, row);
    let plane_bytes = row.len() / 3;
    let planes = view.planes().into_iter().zip(row.chunks_exact_mut(plane_bytes));
    for (channel, (plane, to)) in planes.enumerate() {
        affine.write_plane(table.dtype(), channel, plane, to);
    }
}
