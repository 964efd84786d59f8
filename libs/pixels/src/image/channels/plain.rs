//! The definition.

use headwater_core::draw::Extent;

/// See [`super::split`].
#[inline(always)]
pub(super) fn split(pixels: &[u8], extent: Extent, planes: [&mut [u8]; 3], stride: usize) {
    let width = extent.width as usize;
    let [red, green, blue] = planes;
    for (row, pixels) in pixels.chunks_exact(3 * width).take(extent.height as usize).enumerate() {
        let places = red[row * stride..][..width].iter_mut();
        let places = places.zip(&mut green[row * stride..][..width]);
        let places = places.zip(&mut blue[row * stride..][..width]);
        for (pixel, ((red, green), blue)) in pixels.as_chunks::<3>().0.iter().zip(places) {
            [*red, *green, *blue] = *pixel;
        }
    }
}

/// See [`super::merge`].
#[inline(always)]
pub(super) fn merge(planes: [&[u8]; 3], stride: usize, extent: Extent, pixels: &mut [u8]) {
    let (width, height) = (extent.width as usize, extent.height as usize);
    for (row, pixels) in pixels.chunks_exact_mut(3 * width).take(height).enumerate() {
        let [red, green, blue] = planes.map(|plane| &plane[row * stride..][..width]);
        let values = red.iter().zip(green).zip(blue);
        for (pixel, ((red, green), blue)) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(values) {
            *pixel = [*red, *green, *blue];
        }
    }
}
