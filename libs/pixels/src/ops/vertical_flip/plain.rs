//! The definition: Pillow's `transpose(FLIP_TOP_BOTTOM)`.

use crate::image::{Planes, reverse_rows};

/// Reverses the order of the rows.
pub fn apply(view: &mut Planes) {
    let width = view.extent().width as usize;
    view.planes_mut().into_iter().for_each(|plane| reverse_rows(plane, width));
}
