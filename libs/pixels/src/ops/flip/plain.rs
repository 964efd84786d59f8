//! The definition: Pillow's `transpose(FLIP_LEFT_RIGHT)`.

use crate::image::Planes;

/// Reverses each row.
#[inline(always)]
pub fn apply(view: &mut Planes) {
    let width = view.extent().width as usize;
    view.values_mut().chunks_exact_mut(width).for_each(<[u8]>::reverse);
}
