//! The definition: each level looked up, each element written once, little-endian, CHW.

use headwater_core::Dtype;

use crate::image::Planes;
use crate::ops::cast::CastTable;

/// Writes the view as one row `[3, height, width]` of a tensor.
///
/// # Panics
/// `row` is not exactly as long as the elements.
pub fn write(view: &Planes, table: &CastTable, row: &mut [u8]) {
    let element_bytes = table.dtype().size_bytes() as usize;
    check_row(view, table, row);
    let plane_len = view.plane_len();
    let planes = view.values().chunks_exact(plane_len);
    for (channel, (plane, to)) in
        planes.zip(row.chunks_exact_mut(plane_len * element_bytes)).enumerate()
    {
        let levels = table.levels(channel);
        match table.dtype() {
            Dtype::U8 => to.copy_from_slice(plane),
            Dtype::Fp8E4m3 => look_up(plane, to, |level| [levels[level] as u8]),
            Dtype::Bf16 | Dtype::F16 => {
                look_up(plane, to, |level| (levels[level] as u16).to_le_bytes());
            }
            Dtype::F32 => look_up(plane, to, |level| levels[level].to_le_bytes()),
            dtype => unreachable!("a table is never made for {dtype}"),
        }
    }
}

/// Panics unless `row` is as long as the elements of the view.
pub(super) fn check_row(view: &Planes, table: &CastTable, row: &[u8]) {
    let bytes = view.values().len() as u64 * table.dtype().size_bytes();
    assert_eq!(row.len() as u64, bytes, "bytes of the row of a view");
}

fn look_up<const N: usize>(plane: &[u8], to: &mut [u8], element: impl Fn(usize) -> [u8; N]) {
    for (&level, bytes) in plane.iter().zip(to.chunks_exact_mut(N)) {
        bytes.copy_from_slice(&element(usize::from(level)));
    }
}
