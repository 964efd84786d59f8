//! The definition: Pillow's `ImageEnhance.Sharpness`, a blend with `ImageFilter.SMOOTH`
//! (`ImagingFilter3x3` in `Filter.c`). The outermost pixels are not smoothed.

use crate::image::Planes;
use crate::ops::blend::plain::blend;
use crate::ops::level::truncated;

const NEIGHBOUR: f32 = 1.0 / 13.0;
const CENTRE: f32 = 5.0 / 13.0;

/// Blends with the smoothed view. `spare` is memory.
#[inline(always)]
pub fn apply(view: &mut Planes, factor: f32, spare: &mut Planes) {
    let extent = view.extent();
    let (width, height) = (extent.width as usize, extent.height as usize);
    if width < 3 || height < 3 {
        return;
    }
    spare.reset(extent);
    for (plane, out) in view.planes_mut().into_iter().zip(spare.planes_mut()) {
        out.copy_from_slice(plane);
        for y in 1..height - 1 {
            let rows = [y + 1, y, y - 1].map(|row| &plane[row * width..][..width]);
            let out = &mut out[y * width..][..width];
            smooth(rows, factor, &mut out[1..width - 1]);
        }
        plane.copy_from_slice(out);
    }
}

/// Blends the inner pixels of a row, which lies between the row below it and the row above.
#[inline(always)]
fn smooth([below, row, above]: [&[u8]; 3], factor: f32, out: &mut [u8]) {
    let count = out.len();
    // One length for all, so that nothing is checked within the loop.
    let at = |row, by: usize| -> &[u8] {
        let row: &[u8] = row;
        &row[by..][..count]
    };
    let below = [0, 1, 2].map(|by| at(below, by));
    let around = [0, 1, 2].map(|by| at(row, by));
    let above = [0, 1, 2].map(|by| at(above, by));
    for (n, out) in out.iter_mut().enumerate() {
        let mut sum = 0.5;
        sum += line([below[0][n], below[1][n], below[2][n]], NEIGHBOUR);
        sum += line([around[0][n], around[1][n], around[2][n]], CENTRE);
        sum += line([above[0][n], above[1][n], above[2][n]], NEIGHBOUR);
        *out = blend(truncated(sum), around[1][n], factor);
    }
}

#[inline(always)]
fn line([left, centre, right]: [u8; 3], weight: f32) -> f32 {
    f32::from(left) * NEIGHBOUR + f32::from(centre) * weight + f32::from(right) * NEIGHBOUR
}
