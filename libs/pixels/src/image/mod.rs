//! Pixels in memory: whole decoded images and views, both planar.

mod channels;
mod planes;

pub use planes::Planes;

use headwater_core::draw::{CropBox, Extent};

use crate::simd::Simd;

/// A buffer that a big image has grown beyond this goes back to it with the next small one.
const RETAINED_BYTES_MAX: usize = 32 << 20;

/// Bytes of a cache line, and of the longest vector.
const LINE_BYTES: usize = 64;

/// Bytes after the last row of a plane, so that a vector may be read or written from any pixel on.
pub(crate) const SLACK_BYTES: usize = LINE_BYTES;

/// Bytes after the last of interleaved pixels that are split, for the same reason.
pub const INTERLEAVED_SLACK_BYTES: usize = 3 * LINE_BYTES;

/// What the padding of all rows may take, see `docs/memory.md`. That of a JPEG, which has at most
/// 65535 rows, never takes more.
const PADDING_BYTES_MAX: usize = 12 << 20;

/// Rows that are a multiple of this apart fall into few sets of the nearest cache.
const ALIASING_BYTES: usize = 1024;

/// A decoded image: `u8[3, height, width]`, planes R, G, B, rows [`RgbImage::stride`] bytes apart.
/// Keeps its memory between images.
#[derive(Debug)]
pub struct RgbImage {
    extent: Extent,
    /// What the sides have been divided by.
    reduction: u32,
    /// Bytes from a row to the next one.
    stride: usize,
    /// Where the first plane begins in `memory`: at a cache line.
    start: usize,
    memory: Vec<u8>,
}

/// Reverses each of a plane's rows of `width` values.
pub fn reverse_columns<T>(plane: &mut [T], width: usize) {
    plane.chunks_exact_mut(width).for_each(<[T]>::reverse);
}

/// Reverses the order of a plane's rows of `width` values.
pub fn reverse_rows<T>(plane: &mut [T], width: usize) {
    let rows = plane.len() / width;
    for row in 0..rows / 2 {
        let (upper, lower) = plane.split_at_mut((rows - 1 - row) * width);
        upper[row * width..][..width].swap_with_slice(&mut lower[..width]);
    }
}

/// The first `len` bytes of `buffer`, their values unspecified. Memory is only taken, and
/// filled, when it has never been that long, and given back after an exceptionally big image.
pub fn at_least(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() > RETAINED_BYTES_MAX && len <= RETAINED_BYTES_MAX {
        buffer.truncate(RETAINED_BYTES_MAX);
        buffer.shrink_to_fit();
    }
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

fn byte_len(extent: Extent) -> usize {
    extent.width as usize * extent.height as usize * 3
}

// === impl RgbImage ===

impl RgbImage {
    /// A black image of one pixel.
    #[must_use]
    pub fn new() -> Self {
        Self::from_pixels(Extent { width: 1, height: 1 }, vec![0; 3])
    }

    /// An image of given pixels, `u8[height, width, 3]`, R G B.
    ///
    /// # Panics
    /// The number of bytes is not 3 * width * height, or it is 0.
    #[must_use]
    pub fn from_pixels(extent: Extent, mut pixels: Vec<u8>) -> Self {
        assert_eq!(pixels.len(), byte_len(extent), "bytes of {extent:?}");
        assert!(!pixels.is_empty(), "an image has pixels");
        pixels.resize(pixels.len() + INTERLEAVED_SLACK_BYTES, 0);
        let mut image = Self { extent, reduction: 1, stride: 0, start: 0, memory: Vec::new() };
        image.reset(extent);
        let Extent { width, height } = extent;
        image.set_window(Simd::Plain, CropBox { left: 0, top: 0, width, height }, &pixels);
        image
    }

    /// Bytes from a row to the next one of an image of a size: whole cache lines, unless a narrow image
    /// is so high that this would take too much.
    pub fn stride_of(extent: Extent) -> usize {
        let (width, height) = (extent.width as usize, extent.height as usize);
        let lines = width.next_multiple_of(LINE_BYTES);
        let apart = if lines.is_multiple_of(ALIASING_BYTES) { lines + LINE_BYTES } else { lines };
        let fits = |stride: &usize| 3 * (stride - width) * height <= PADDING_BYTES_MAX;
        [apart, lines].into_iter().find(fits).unwrap_or(width)
    }

    /// Size in pixels, as it is here.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// What the sides of the image in the file have been divided by, and rounded up, to come to
    /// this size: 1, 2, 4 or 8.
    #[must_use]
    pub fn reduction(&self) -> u32 {
        self.reduction
    }

    /// Bytes from a row of a plane to the next one, at least the width.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The planes R, G and B: rows `stride` bytes apart. After the last row there are 64 bytes more at
    /// least; these and the bytes between rows have any value.
    #[must_use]
    pub fn planes(&self) -> [&[u8]; 3] {
        let (room, rest) = (self.plane_room(), &self.memory[self.start..]);
        [0, 1, 2].map(|channel| &rest[channel * room..][..room])
    }

    /// The rows of the plane R (0), G (1) or B (2).
    pub fn rows(&self, channel: usize) -> impl Iterator<Item = &[u8]> {
        let (width, height) = (self.extent.width as usize, self.extent.height as usize);
        self.planes()[channel].chunks_exact(self.stride).take(height).map(move |row| &row[..width])
    }

    /// All pixels, interleaved, row by row: `u8[height, width, 3]`.
    #[must_use]
    pub fn pixels(&self) -> Vec<u8> {
        let mut pixels = vec![0; byte_len(self.extent)];
        self.write_pixels(Simd::best(), &mut pixels);
        pixels
    }

    /// Writes all pixels, interleaved, row by row: `u8[height, width, 3]`.
    ///
    /// # Panics
    /// There is not room for exactly that.
    pub fn write_pixels(&self, simd: Simd, to: &mut [u8]) {
        assert_eq!(to.len(), byte_len(self.extent), "bytes of {:?}", self.extent);
        channels::merge(simd, self.planes(), self.stride, self.extent, to);
    }

    /// All pixels, interleaved as by [`RgbImage::write_pixels`], in memory that is kept.
    pub fn pixels_in<'a>(&self, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        let pixels = at_least(buffer, self.pixels_len());
        self.write_pixels(Simd::best(), pixels);
        pixels
    }

    /// Bytes of all pixels, interleaved.
    #[must_use]
    pub fn pixels_len(&self) -> usize {
        byte_len(self.extent)
    }

    /// Takes over size and values of a view, of an image whose sides have been divided by
    /// `reduction`.
    pub fn set_planes(&mut self, view: &Planes, reduction: u32) {
        let width = view.extent().width as usize;
        let (planes, stride) = self.reset_reduced(view.extent(), reduction);
        for (to, from) in planes.into_iter().zip(view.planes()) {
            for (to, from) in to.chunks_mut(stride).zip(from.chunks_exact(width)) {
                to[..width].copy_from_slice(from);
            }
        }
    }

    /// Sets the size and gives the planes to be overwritten, their values unspecified, and their
    /// stride. Each plane has 64 bytes after its last row at least; these and the bytes between rows may be
    /// overwritten too. The planes begin with a cache line, and so does each row of an image of up to
    /// 65535 rows.
    pub fn reset(&mut self, extent: Extent) -> ([&mut [u8]; 3], usize) {
        self.reset_reduced(extent, 1)
    }

    /// As [`RgbImage::reset`], for an image whose sides have been divided by `reduction`.
    pub fn reset_reduced(&mut self, extent: Extent, reduction: u32) -> ([&mut [u8]; 3], usize) {
        self.extent = extent;
        self.reduction = reduction;
        self.stride = Self::stride_of(extent);
        let room = self.plane_room();
        let memory = at_least(&mut self.memory, 3 * room + LINE_BYTES);
        self.start = memory.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
        let stride = self.stride;
        (self.planes_mut(), stride)
    }

    /// Bytes that [`RgbImage::set_window`] wants after the pixels.
    pub const WINDOW_SPARE_BYTES: usize = 192;

    /// Sets the pixels of a window, which are given interleaved without padding, with 192 bytes of any
    /// value after them. Others may change.
    ///
    /// # Panics
    /// The window goes beyond the image, or there are less pixels.
    pub fn set_window(&mut self, simd: Simd, window: CropBox, pixels: &[u8]) {
        let CropBox { left, top, width, height } = window;
        let whole = self.extent;
        assert!(left + width <= whole.width && top + height <= whole.height, "beyond the image");
        let stride = self.stride;
        let first = top as usize * stride + left as usize;
        let planes = self.planes_mut().map(|plane| &mut plane[first..]);
        channels::split(simd, pixels, window.extent(), planes, stride);
    }

    /// The planes of [`RgbImage::planes`], to be changed.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        let room = self.plane_room();
        let (red, rest) = self.memory[self.start..].split_at_mut(room);
        let (green, rest) = rest.split_at_mut(room);
        [red, green, &mut rest[..room]]
    }

    /// Bytes from a plane to the next one.
    fn plane_room(&self) -> usize {
        (self.stride * self.extent.height as usize + SLACK_BYTES).next_multiple_of(LINE_BYTES)
    }
}

impl Default for RgbImage {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_with_a_cache_line_unless_that_takes_too_much() {
        for (width, height, stride) in [
            (500, 375, 512),
            (1, 1, 64),
            (1, 65535, 64),
            (1024, 768, 1088),
            (1000, 65535, 1024),
            (4096, 4096, 4160),
            (1, 1 << 26, 1),
        ] {
            assert_eq!(RgbImage::stride_of(Extent { width, height }), stride, "{width} x {height}");
        }
        let mut image = RgbImage::new();
        for width in [1, 63, 64, 500, 1024] {
            let extent = Extent { width, height: 7 };
            let (planes, stride) = image.reset(extent);
            for plane in planes {
                assert_eq!(plane.as_ptr().addr() % LINE_BYTES, 0, "{extent:?}");
                assert!(plane.len() >= stride * 7 + SLACK_BYTES, "{extent:?}");
            }
        }
    }
}
