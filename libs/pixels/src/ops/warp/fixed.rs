//! The definition for affine maps with the nearest pixel: Pillow's `ImagingScaleAffine` where rows stay rows,
//! else `affine_fixed` with 16 bits behind the point (`Geometry.c`). The places are sums, so there is no twin.

use headwater_core::draw::Extent;

use crate::image::Planes;

/// Writes the moved pixels of `view` to `to`, which has its size. `columns` is memory.
pub(super) fn nearest(
    view: &Planes,
    matrix: &[f64; 6],
    fill: [u8; 3],
    to: &mut Planes,
    columns: &mut Vec<Option<usize>>,
) {
    let extent = view.extent();
    for ((plane, to), fill) in view.planes().into_iter().zip(to.planes_mut()).zip(fill) {
        nearest_plane((plane, extent), matrix, fill, to, columns);
    }
}

/// The same for one plane of any type and its size.
pub(super) fn nearest_plane<T: Copy>(
    (plane, extent): (&[T], Extent),
    matrix: &[f64; 6],
    fill: T,
    to: &mut [T],
    columns: &mut Vec<Option<usize>>,
) {
    let (width, height) = (extent.width as usize, extent.height as usize);
    if matrix[1] == 0.0 && matrix[3] == 0.0 {
        columns.clear();
        columns.extend(along(matrix[2], matrix[0], width));
        return fill_in(plane, fill, to, columns, along(matrix[5], matrix[4], height));
    }
    let [across, across_row, _, down, down_row, _] = matrix.map(fixed);
    let first = |a: f64, b: f64, c: f64| fixed(c + a * 0.5 + b * 0.5);
    let (x, y) = (first(matrix[0], matrix[1], matrix[2]), first(matrix[3], matrix[4], matrix[5]));
    for (row, line) in to.chunks_exact_mut(width).enumerate() {
        let row = row as i64;
        let (mut x, mut y) = (x + row * across_row, y + row * down_row);
        for level in line {
            let (column, row) = (x >> 16, y >> 16);
            let within = (0..width as i64).contains(&column) && (0..height as i64).contains(&row);
            *level = if within { plane[row as usize * width + column as usize] } else { fill };
            x += across;
            y += down;
        }
    }
}

/// The position that each of `count` comes from, where it is one of them. Pillow adds up steps, and so do we.
fn along(offset: f64, step: f64, count: usize) -> impl Iterator<Item = Option<usize>> {
    let mut at = offset + step * 0.5;
    (0..count).map(move |_| {
        let found = (at >= 0.0 && (at as usize) < count).then_some(at as usize);
        at += step;
        found
    })
}

/// Rows come from whole rows, and the columns of all rows from the same ones.
fn fill_in<T: Copy>(
    plane: &[T],
    fill: T,
    to: &mut [T],
    columns: &[Option<usize>],
    rows: impl Iterator<Item = Option<usize>>,
) {
    let width = columns.len();
    for (from, line) in rows.zip(to.chunks_exact_mut(width)) {
        let Some(from) = from else {
            line.fill(fill);
            continue;
        };
        let from = &plane[from * width..][..width];
        for (level, column) in line.iter_mut().zip(columns) {
            *level = column.map_or(fill, |column| from[column]);
        }
    }
}

/// With 16 bits behind the point.
fn fixed(value: f64) -> i64 {
    (value * 65536.0 + 0.5).floor() as i64
}
