//! Samples of whole images, which are fewer bytes than their colours: to be kept, and to be made colours of later.

use std::ops::Range;

use crate::decoder::Decoder;
use crate::layout::Layout;
use crate::pixels::{Output, Window};

// === impl Decoder ===

impl Decoder {
    /// The samples of the image that was decoded last, a plane for each component, if it was decoded as a whole.
    pub fn samples(&mut self) -> Option<(Layout, impl Iterator<Item = &[u8]>)> {
        let layout = self.sampled?;
        Some((layout, self.planes.of(&layout).map(|plane| &*plane)))
    }

    /// From now on [`Decoder::samples`] has nothing to give until the next image.
    pub fn forget_samples(&mut self) {
        self.sampled = None;
    }

    /// Makes the colours of a window out of the samples of an image: those that [`Image::decode`](crate::Image::decode)
    /// makes of its file. The window's first pixel is the first of `output`.
    ///
    /// `read` is called for each component with its number, the rows that are looked at, and the whole plane. It sets
    /// at least these rows of the plane. Where it returns `false` no more is done. Returns whether all were read.
    ///
    /// # Panics
    /// The window is empty or not within the image, or the output has no room for it.
    pub fn convert(
        &mut self,
        layout: &Layout,
        window: Window,
        output: Output<'_>,
        mut read: impl FnMut(usize, Range<usize>, &mut [u8]) -> bool,
    ) -> bool {
        let Window { left, top, width, height } = window;
        assert!(width > 0 && height > 0, "an empty window");
        let is_inside =
            left + width <= layout.width() as usize && top + height <= layout.height() as usize;
        assert!(is_inside, "a window beyond the image");
        self.sampled = None;
        let planes = self.planes.of(layout).zip(layout.rows(window)).enumerate();
        for (n, (plane, rows)) in planes {
            if !read(n, rows, plane) {
                return false;
            }
        }
        let components = layout.components(self.planes.of(layout).map(|plane| &*plane));
        self.upsampler.convert(components, window, output);
        true
    }
}
