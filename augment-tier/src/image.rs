//! Pixels in memory: whole decoded images, interleaved, and views, planar.

use headwater_core::draw::{Extent, Origin};

/// A buffer that a big image has grown beyond this goes back to it with the next small one.
const RETAINED_BYTES_MAX: usize = 32 << 20;

/// Bytes after the last pixel, so that a vector may be read from any pixel on.
const SLACK_BYTES: usize = 64;

/// A decoded image: `u8[height, width, 3]`, R G B, rows without padding. Keeps its memory
/// between images.
#[derive(Debug)]
pub struct RgbImage {
    extent: Extent,
    /// What the sides have been divided by.
    reduction: u32,
    /// The pixels and then at least [`SLACK_BYTES`] of any value.
    padded: Vec<u8>,
}

/// A view while it is worked on: `u8[3, height, width]`, planes R, G, B. Keeps its memory
/// between views.
#[derive(Clone, Debug)]
pub struct Planes {
    extent: Extent,
    values: Vec<u8>,
}

/// The first `len` bytes of `buffer`, their values unspecified. Memory is only taken, and
/// filled, when it has never been that long, and given back after an exceptionally big image.
pub(crate) fn at_least(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() > RETAINED_BYTES_MAX && len <= RETAINED_BYTES_MAX {
        buffer.truncate(RETAINED_BYTES_MAX);
        buffer.shrink_to_fit();
    }
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

// === impl RgbImage ===

impl RgbImage {
    /// A black image of one pixel.
    #[must_use]
    pub fn new() -> Self {
        let extent = Extent { width: 1, height: 1 };
        Self { extent, reduction: 1, padded: vec![0; 3 + SLACK_BYTES] }
    }

    /// An image of given pixels.
    ///
    /// # Panics
    /// The number of bytes is not 3 * width * height, or it is 0.
    #[must_use]
    pub fn from_pixels(extent: Extent, mut pixels: Vec<u8>) -> Self {
        assert_eq!(pixels.len(), byte_len(extent), "bytes of {extent:?}");
        assert!(!pixels.is_empty(), "an image has pixels");
        pixels.resize(pixels.len() + SLACK_BYTES, 0);
        Self { extent, reduction: 1, padded: pixels }
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

    /// All pixels, row by row.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.padded[..byte_len(self.extent)]
    }

    /// All pixels, and 64 bytes of any value after them at least.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.padded
    }

    /// Bytes of one row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.extent.width as usize * 3
    }

    /// Takes over size and values of a view, of an image whose sides have been divided by
    /// `reduction`.
    pub fn set_planes(&mut self, view: &Planes, reduction: u32) {
        let [red, green, blue] = view.planes();
        let pixels = self.reset_reduced(view.extent(), reduction).chunks_exact_mut(3);
        for (((pixel, &red), &green), &blue) in pixels.zip(red).zip(green).zip(blue) {
            pixel.copy_from_slice(&[red, green, blue]);
        }
    }

    /// Sets the size and gives the pixels to be overwritten, their values unspecified.
    pub fn reset(&mut self, extent: Extent) -> &mut [u8] {
        self.reset_reduced(extent, 1)
    }

    /// As [`RgbImage::reset`], for an image whose sides have been divided by `reduction`.
    pub fn reset_reduced(&mut self, extent: Extent, reduction: u32) -> &mut [u8] {
        self.extent = extent;
        self.reduction = reduction;
        let len = byte_len(extent);
        &mut at_least(&mut self.padded, len + SLACK_BYTES)[..len]
    }
}

impl Default for RgbImage {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Planes ===

impl Planes {
    /// A black view of one pixel.
    #[must_use]
    pub fn new() -> Self {
        Self { extent: Extent { width: 1, height: 1 }, values: vec![0; 3] }
    }

    /// A view of given values.
    ///
    /// # Panics
    /// The number of bytes is not 3 * width * height, or it is 0.
    #[must_use]
    pub fn from_values(extent: Extent, values: Vec<u8>) -> Self {
        assert_eq!(values.len(), byte_len(extent), "bytes of {extent:?}");
        assert!(!values.is_empty(), "a view has pixels");
        Self { extent, values }
    }

    /// Size in pixels.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Sets the size and gives the values to be overwritten, their values unspecified.
    pub fn reset(&mut self, extent: Extent) -> &mut [u8] {
        self.extent = extent;
        at_least(&mut self.values, byte_len(extent))
    }

    /// Takes over size and pixels of an image.
    pub fn set_pixels(&mut self, image: &RgbImage) {
        self.reset(image.extent());
        let [red, green, blue] = self.planes_mut();
        let pixels = image.pixels().chunks_exact(3);
        for (((pixel, red), green), blue) in pixels.zip(red).zip(green).zip(blue) {
            [*red, *green, *blue] = [pixel[0], pixel[1], pixel[2]];
        }
    }

    /// Becomes a window of another view.
    ///
    /// # Panics
    /// The window goes beyond it.
    pub fn set_window(&mut self, whole: &Self, origin: Origin, extent: Extent) {
        let (right, bottom) = (origin.left + extent.width, origin.top + extent.height);
        assert!(right <= whole.extent.width && bottom <= whole.extent.height, "beyond the view");
        self.reset(extent);
        let (from_width, width) = (whole.extent.width as usize, extent.width as usize);
        let start = origin.top as usize * from_width + origin.left as usize;
        for (to, from) in self.planes_mut().into_iter().zip(whole.planes()) {
            let rows = from[start..].chunks(from_width);
            for (to, from) in to.chunks_exact_mut(width).zip(rows) {
                to.copy_from_slice(&from[..width]);
            }
        }
    }

    /// The three planes one after the other.
    #[must_use]
    pub fn values(&self) -> &[u8] {
        &self.values[..byte_len(self.extent)]
    }

    /// The three planes one after the other.
    pub fn values_mut(&mut self) -> &mut [u8] {
        &mut self.values[..byte_len(self.extent)]
    }

    /// Values of one plane.
    #[must_use]
    pub fn plane_len(&self) -> usize {
        self.values().len() / 3
    }

    /// The planes R, G and B.
    #[must_use]
    pub fn planes(&self) -> [&[u8]; 3] {
        let plane_len = self.plane_len();
        let (red, rest) = self.values().split_at(plane_len);
        let (green, blue) = rest.split_at(plane_len);
        [red, green, blue]
    }

    /// The planes R, G and B, to be changed.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        let plane_len = self.plane_len();
        let (red, rest) = self.values_mut().split_at_mut(plane_len);
        let (green, blue) = rest.split_at_mut(plane_len);
        [red, green, blue]
    }
}

impl PartialEq for Planes {
    fn eq(&self, other: &Self) -> bool {
        self.extent == other.extent && self.values() == other.values()
    }
}

impl Eq for Planes {}

impl Default for Planes {
    fn default() -> Self {
        Self::new()
    }
}

fn byte_len(extent: Extent) -> usize {
    extent.width as usize * extent.height as usize * 3
}
