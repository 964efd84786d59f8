//! Colour conversion as it is defined.

use headwater_simd::twin;

/// Factors with 16 binary places: 1.402, 1.772, 0.71414, 0.34414.
const RED: i32 = 91881;
const BLUE: i32 = 116_130;
const GREEN_OF_RED: i32 = 46802;
const GREEN_OF_BLUE: i32 = 22554;
const HALF: i32 = 1 << 15;

twin! {
    pub(super) fn ycc_to_planes(ycc: [&[u8]; 3], rgb: [&mut [u8]; 3]) = planes;
}

twin! {
    pub(super) fn ycc_to_rgb(ycc: [&[u8]; 3], pixels: &mut [u8]) = interleaved_ycc;
}

twin! {
    /// Pixels out of three rows.
    pub(crate) fn interleave(rgb: [&[u8]; 3], pixels: &mut [u8]) = interleaved;
}

twin! {
    /// Pixels out of a row of brightness.
    pub(crate) fn gray(row: &[u8], pixels: &mut [u8]) = grays;
}

#[inline(always)]
fn planes([y, cb, cr]: [&[u8]; 3], [red, green, blue]: [&mut [u8]; 3]) {
    let colours = red.iter_mut().zip(green).zip(blue);
    for (((y, cb), cr), ((red, green), blue)) in y.iter().zip(cb).zip(cr).zip(colours) {
        [*red, *green, *blue] = pixel(*y, *cb, *cr);
    }
}

#[inline(always)]
fn interleaved_ycc([y, cb, cr]: [&[u8]; 3], pixels: &mut [u8]) {
    let (pixels, _) = pixels.as_chunks_mut::<3>();
    for (((y, cb), cr), out) in y.iter().zip(cb).zip(cr).zip(pixels) {
        *out = pixel(*y, *cb, *cr);
    }
}

#[inline(always)]
fn interleaved([red, green, blue]: [&[u8]; 3], pixels: &mut [u8]) {
    let (pixels, _) = pixels.as_chunks_mut::<3>();
    for (((red, green), blue), out) in red.iter().zip(green).zip(blue).zip(pixels) {
        *out = [*red, *green, *blue];
    }
}

#[inline(always)]
fn grays(row: &[u8], pixels: &mut [u8]) {
    let (pixels, _) = pixels.as_chunks_mut::<3>();
    for (y, out) in row.iter().zip(pixels) {
        *out = [*y; 3];
    }
}

#[inline(always)]
fn pixel(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((RED * cr + HALF) >> 16);
    let green = y + ((-GREEN_OF_BLUE * cb - GREEN_OF_RED * cr + HALF) >> 16);
    let blue = y + ((BLUE * cb + HALF) >> 16);
    [red, green, blue].map(|value| value.clamp(0, 255) as u8)
}
