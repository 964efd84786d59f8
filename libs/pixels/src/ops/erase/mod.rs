//! Boxes of a row that are erased, after the view has been normalised and cast.

pub mod plain;

use headwater_core::Dtype;
use headwater_core::cast::{Normalise, element};
use headwater_core::draw::{CropBox, Extent, Normals};
use headwater_core::op::{DrawnOp, EraseWith, Erased};

use crate::simd::{Simd, twin};

/// Numbers that are made at once.
const NUMBERS: usize = 256;

/// Erases the boxes among `ops` from a row of `[3, height, width]` elements.
///
/// # Panics
/// A box goes beyond the view.
pub fn apply(
    simd: Simd,
    ops: &[DrawnOp],
    dtype: Dtype,
    normalise: &Normalise,
    view: Extent,
    row: &mut [u8],
) {
    for op in ops {
        let DrawnOp::Erase(Erased { area, with }) = *op else { continue };
        let fits =
            |start: u32, len: u32, side: u32| start.checked_add(len).is_some_and(|end| end <= side);
        assert!(
            fits(area.left, area.width, view.width) && fits(area.top, area.height, view.height),
            "{area:?} goes beyond {view:?}"
        );
        match (with, dtype) {
            (EraseWith::Noise(seed), Dtype::Bf16 | Dtype::F16 | Dtype::F32)
                if simd != Simd::Plain =>
            {
                fill_with_noise(simd, area, seed, dtype, view, row);
            }
            _ => plain::erase(area, with, dtype, normalise, view, row),
        }
    }
}

twin! {
    fn fill_with_noise(area: CropBox, seed: [u64; 2], dtype: Dtype, view: Extent, row: &mut [u8]) = noise;
}

#[inline(always)]
fn noise(area: CropBox, seed: [u64; 2], dtype: Dtype, view: Extent, row: &mut [u8]) {
    let half = |value, dtype| (element(value, dtype, 1.0) as u16).to_le_bytes();
    match dtype {
        Dtype::Bf16 => noise_of(area, seed, view, row, |value| half(value, Dtype::Bf16)),
        Dtype::F16 => noise_of(area, seed, view, row, |value| half(value, Dtype::F16)),
        _ => noise_of(area, seed, view, row, f32::to_le_bytes),
    }
}

#[inline(always)]
fn noise_of<const BYTES: usize>(
    area: CropBox,
    seed: [u64; 2],
    view: Extent,
    row: &mut [u8],
    element: impl Fn(f32) -> [u8; BYTES],
) {
    let (width, height) = (view.width as usize, view.height as usize);
    let (top, rows) = (area.top as usize, area.height as usize);
    let (left, columns) = (area.left as usize, area.width as usize);
    let mut normals = Normals::new(seed);
    let mut numbers = [0.0; NUMBERS];
    for plane in row.as_chunks_mut().0.chunks_exact_mut(width * height) {
        for line in plane.chunks_exact_mut(width).skip(top).take(rows) {
            for line in line[left..][..columns].chunks_mut(NUMBERS) {
                let numbers = &mut numbers[..line.len()];
                normals.fill(numbers);
                for (to, number) in line.iter_mut().zip(numbers) {
                    *to = element(*number);
                }
            }
        }
    }
}
