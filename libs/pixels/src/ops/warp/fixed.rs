//! The definition for affine maps with the nearest pixel (Pillow's `Geometry.c`): `ImagingScaleAffine` where rows stay
//! rows, else `affine_fixed` with 16 bits behind the point, or sums of binary64 where places lie too far for that. The
//! places are sums, so there is no twin.

use std::ops::AddAssign;

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
    let first = |a: f64, b: f64, c: f64| c + a * 0.5 + b * 0.5;
    let [across, across_row, x, down, down_row, y] = *matrix;
    let (x, y) = (first(across, across_row, x), first(down, down_row, y));
    let lines = to.chunks_exact_mut(width);
    if is_near(matrix, extent) {
        let [across, across_row, _, down, down_row, _] = matrix.map(fixed);
        let within = |at: i64, side: usize| {
            (0..side as i64).contains(&(at >> 16)).then_some((at >> 16) as usize)
        };
        let pixel = |[x, y]: [i64; 2]| Some(within(y, height)? * width + within(x, width)?);
        write(
            plane,
            fill,
            lines,
            pixel,
            [fixed(x), fixed(y)],
            [across, down],
            [across_row, down_row],
        );
    } else {
        let within = |at: f64, side: usize| (at >= 0.0 && at < side as f64).then_some(at as usize);
        let pixel = |[x, y]: [f64; 2]| Some(within(y, height)? * width + within(x, width)?);
        write(plane, fill, lines, pixel, [x, y], [across, down], [across_row, down_row]);
    }
}

/// Writes lines of pixels whose places are sums: those of a line by one step, and the first ones of lines by another.
fn write<'a, T: Copy + 'a, N: Copy + AddAssign>(
    plane: &[T],
    fill: T,
    lines: impl Iterator<Item = &'a mut [T]>,
    pixel: impl Fn([N; 2]) -> Option<usize>,
    mut first: [N; 2],
    across: [N; 2],
    down: [N; 2],
) {
    let add = |place: &mut [N; 2], step: [N; 2]| {
        place[0] += step[0];
        place[1] += step[1];
    };
    for line in lines {
        let mut place = first;
        for level in line {
            *level = pixel(place).map_or(fill, |pixel| plane[pixel]);
            add(&mut place, across);
        }
        add(&mut first, down);
    }
}

/// Whether the corners come from where 16 bits before the point are enough: `check_fixed`.
fn is_near(&[a, b, c, d, e, f]: &[f64; 6], extent: Extent) -> bool {
    let (width, height) = (f64::from(extent.width), f64::from(extent.height));
    let corners = [(0.0, 0.0), (width, height), (0.0, height), (width, 0.0)];
    corners
        .iter()
        .all(|(x, y)| (x * a + y * b + c).abs() < 32768.0 && (x * d + y * e + f).abs() < 32768.0)
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
