//! A view while it is worked on.

use headwater_core::draw::{Extent, Origin};

use crate::image::{RgbImage, at_least, byte_len};

/// A view while it is worked on: `u8[3, height, width]`, planes R, G, B. Keeps its memory
/// between views.
#[derive(Clone, Debug)]
pub struct Planes {
    extent: Extent,
    values: Vec<u8>,
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
        let width = image.extent().width as usize;
        self.reset(image.extent());
        for (channel, plane) in self.planes_mut().into_iter().enumerate() {
            for (to, from) in plane.chunks_exact_mut(width).zip(image.rows(channel)) {
                to.copy_from_slice(from);
            }
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
