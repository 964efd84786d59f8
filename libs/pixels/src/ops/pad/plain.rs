//! The definition: torchvision's `functional.pad` with Pillow images; only the view is made.

use headwater_core::draw::{CropBox, Extent, Padding};

use crate::image::Planes;

/// Fills `view` of size `extent` with the part `shown` of an image of size `image`, which lies at `crop`, and with
/// what is about the image.
///
/// # Panics
/// The view shows pixels that are not in `crop`.
pub fn apply(
    padding: &Padding,
    image: Extent,
    crop: CropBox,
    shown: &Planes,
    extent: Extent,
    view: &mut Planes,
) {
    let at = |start: i32, count: u32, side: u32, first: u32| -> Vec<Option<usize>> {
        let source = |n: u32| padding.mode.source(start + n as i32, side);
        (0..count).map(|n| source(n).map(|at| (at - first) as usize)).collect()
    };
    let rows = at(padding.top, extent.height, image.height, crop.top);
    let columns = at(padding.left, extent.width, image.width, crop.left);
    view.reset(extent);
    let (width, from_width) = (extent.width as usize, crop.width as usize);
    for (channel, (plane, from)) in view.planes_mut().into_iter().zip(shown.planes()).enumerate() {
        let fill = padding.fill[channel];
        for (row, line) in rows.iter().zip(plane.chunks_exact_mut(width)) {
            let Some(row) = row else {
                line.fill(fill);
                continue;
            };
            let from = &from[row * from_width..][..from_width];
            for (column, level) in columns.iter().zip(line) {
                *level = column.map_or(fill, |column| from[column]);
            }
        }
    }
}
