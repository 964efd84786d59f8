//! Where the pixels of a view come from when it is rotated, sheared, moved or put in perspective.
//!
//! Sources: torchvision `transforms.{RandomRotation, RandomAffine, RandomPerspective}` and
//! `functional._get_inverse_affine_matrix`; Pillow `Image.rotate`.

use std::fmt::{self, Write as _};

use super::sines::sin_cos;
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::Interpolation;

/// Decimal places to which Pillow rounds the sines of a rotation.
const PLACES: usize = 15;

/// The default of rotations and affine transforms.
pub(super) fn nearest() -> Interpolation {
    Interpolation::Nearest
}

/// The default of perspectives.
pub(super) fn bilinear() -> Interpolation {
    Interpolation::Bilinear
}

/// A matrix in words.
pub(super) fn numbers(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:.4}")).collect();
    values.join(" ")
}

/// Pillow's `Image.rotate`: counter-clockwise, about the centre, in a frame that stays.
pub(super) fn rotation(degrees: f64, view: Extent) -> [f64; 6] {
    let (width, height) = (f64::from(view.width), f64::from(view.height));
    let degrees = degrees.rem_euclid(360.0);
    // Pillow turns these by whole pixels.
    if degrees == 0.0 {
        return [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    }
    if degrees == 180.0 {
        return [-1.0, 0.0, width, 0.0, -1.0, height];
    }
    if view.width == view.height && degrees == 90.0 {
        return [0.0, -1.0, width, 1.0, 0.0, 0.0];
    }
    if view.width == view.height && degrees == 270.0 {
        return [0.0, 1.0, 0.0, -1.0, 0.0, height];
    }
    let angle = -degrees.to_radians();
    let (sin, cos) = sin_cos(angle);
    let (sin, cos) = (rounded(sin), rounded(cos));
    let (x, y) = (width / 2.0, height / 2.0);
    let across = cos * -x + sin * -y + 0.0 + x;
    let down = -sin * -x + cos * -y + 0.0 + y;
    [cos, sin, across, -sin, cos, down]
}

/// A number from -1 to 1 to [`PLACES`] decimal digits, as Python's `round` does it.
fn rounded(value: f64) -> f64 {
    let mut digits = Digits { bytes: [0; PLACES + 3], len: 0 };
    let written = write!(digits, "{value:.PLACES$}");
    let text = std::str::from_utf8(&digits.bytes[..digits.len]).unwrap_or_default();
    written.ok().and_then(|()| text.parse().ok()).unwrap_or(value)
}

/// A number in decimal digits: sign, one digit, a point, [`PLACES`] digits. It allocates no heap
/// memory.
struct Digits {
    bytes: [u8; PLACES + 3],
    len: usize,
}

// === impl Digits ===

impl fmt::Write for Digits {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// torchvision's `_get_inverse_affine_matrix`: `degrees` clockwise about `centre`, `shear` in degrees.
pub(super) fn inverse(
    centre: [f64; 2],
    degrees: f64,
    translate: [f64; 2],
    scale: f64,
    shear: [f64; 2],
) -> [f64; 6] {
    let rotation = degrees.to_radians();
    let [shear_x, shear_y] = shear.map(f64::to_radians);
    let ([x, y], [right, down]) = (centre, translate);
    let ((sin, cos), (turned_sin, turned_cos)) = (sin_cos(rotation), sin_cos(rotation - shear_y));
    let (cos_y, tan_x) = (sin_cos(shear_y).1, libm::tan(shear_x));
    let a = turned_cos / cos_y;
    let b = -turned_cos * tan_x / cos_y - sin;
    let c = turned_sin / cos_y;
    let d = -turned_sin * tan_x / cos_y + cos;
    let mut matrix = [d, -b, 0.0, -c, a, 0.0].map(|value| value / scale);
    matrix[2] += matrix[0] * (-x - right) + matrix[1] * (-y - down);
    matrix[5] += matrix[3] * (-x - right) + matrix[4] * (-y - down);
    matrix[2] += x;
    matrix[5] += y;
    matrix
}

/// torchvision's `RandomPerspective.get_params`: where the corners go, clockwise from the top left.
pub(super) fn corners(distortion: f64, view: Extent, rng: &mut DrawRng) -> [[i64; 2]; 4] {
    let (width, height) = (i64::from(view.width), i64::from(view.height));
    let mut below = |side: i64| {
        let most = (distortion * (side / 2) as f64) as u64;
        rng.below(most + 1) as i64
    };
    let top_left = [below(width), below(height)];
    let top_right = [width - 1 - below(width), below(height)];
    let bottom_right = [width - 1 - below(width), height - 1 - below(height)];
    let bottom_left = [below(width), height - 1 - below(height)];
    [top_left, top_right, bottom_right, bottom_left]
}

/// The eight coefficients that lead from `ends` back to the corners of a view: torchvision's
/// `_get_perspective_coeffs`, by elimination with pivots in binary64.
pub(super) fn perspective(view: Extent, ends: &[[i64; 2]; 4]) -> [f64; 8] {
    let (right, bottom) = (i64::from(view.width) - 1, i64::from(view.height) - 1);
    let starts = [[0, 0], [right, 0], [right, bottom], [0, bottom]];
    let mut rows = [[0.0; 9]; 8];
    for (pair, (start, end)) in starts.iter().zip(ends).enumerate() {
        let [from_x, from_y] = start.map(|value| value as f64);
        let [to_x, to_y] = end.map(|value| value as f64);
        rows[2 * pair] = [to_x, to_y, 1.0, 0.0, 0.0, 0.0, -from_x * to_x, -from_x * to_y, from_x];
        rows[2 * pair + 1] =
            [0.0, 0.0, 0.0, to_x, to_y, 1.0, -from_y * to_x, -from_y * to_y, from_y];
    }
    solve(rows)
}

/// Gauss' elimination. Corners that fell together leave zeros.
fn solve(mut rows: [[f64; 9]; 8]) -> [f64; 8] {
    for column in 0..8 {
        let size = |row: &usize| rows[*row][column].abs();
        let pivot = (column..8).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        rows.swap(column, pivot);
        let lead = rows[column];
        if lead[column] == 0.0 {
            return [0.0; 8];
        }
        for (number, row) in rows.iter_mut().enumerate() {
            if number != column {
                let factor = row[column] / lead[column];
                for (value, lead) in row.iter_mut().zip(&lead) {
                    *value -= factor * lead;
                }
            }
        }
    }
    std::array::from_fn(|number| rows[number][8] / rows[number][number])
}
