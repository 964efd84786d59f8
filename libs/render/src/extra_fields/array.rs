//! NumPy's arrays as rows of tensors.

use headwater_core::Dtype;
use headwater_npy::{Array, Element, Kind};

/// Writes an array of just this type and shape, in C order and little-endian.
pub(super) fn put(
    array: &Array<'_>,
    dtype: Dtype,
    shape: &[u32],
    row: &mut [u8],
) -> Result<(), String> {
    let Array { header, elements } = array;
    let same = header.shape.iter().copied().eq(shape.iter().map(|&side| u64::from(side)));
    if !(same && is_of(header.element, dtype)) {
        let (name, found) = (header.element.name(), &header.shape);
        return Err(format!("it is an array {name}{found:?}, not {dtype}{shape:?}"));
    }
    let width = dtype.size_bytes() as usize;
    if dtype == Dtype::Bool && elements.iter().any(|&truth| truth > 1) {
        return Err("it has truth values that are neither 0 nor 1".to_owned());
    }
    if header.is_fortran {
        reorder(elements, shape, width, row);
    } else {
        row.copy_from_slice(elements);
    }
    if header.element.big_endian {
        row.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Ok(())
}

fn is_of(element: Element, dtype: Dtype) -> bool {
    let kind = match dtype {
        Dtype::Bool => Kind::Bool,
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Kind::Int,
        Dtype::U8 | Dtype::U16 | Dtype::U32 => Kind::Uint,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => Kind::Float,
        _ => return false,
    };
    element.kind == kind && u64::from(element.bytes) == dtype.size_bytes()
}

/// From an order in which the first axis varies fastest to one in which the last does.
fn reorder(elements: &[u8], shape: &[u32], width: usize, row: &mut [u8]) {
    let mut at = vec![0u32; shape.len()];
    for to in row.chunks_exact_mut(width) {
        let place = at
            .iter()
            .zip(shape)
            .rev()
            .fold(0, |place, (&index, &side)| place * side as usize + index as usize);
        to.copy_from_slice(&elements[place * width..][..width]);
        for (index, &side) in at.iter_mut().zip(shape).rev() {
            *index += 1;
            if *index < side {
                break;
            }
            *index = 0;
        }
    }
}
