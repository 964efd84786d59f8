//! Where a view comes from.

use headwater_core::draw::{CropBox, Extent, Filter, Origin, ViewParams};
use headwater_core::recipe::ResizePasses;

/// What a resize may take for tables and between its passes, whatever the image, in bytes.
pub const WORK_BYTES: u64 = 8 << 20;
/// What a resizer keeps of that for the next view.
pub const KEPT_BYTES: u64 = 16 << 20;
/// What it may take instead for each pixel of a larger image.
const WORK_PIXEL_BYTES: u64 = 4;

/// Fractions at which an image can be decoded, the least first.
const REDUCTIONS: [u32; 4] = [8, 4, 2, 1];

/// Which part of an image becomes which view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The box that is cut, in pixels of the image at its full size; filter taps do not reach
    /// beyond it.
    pub crop: CropBox,
    /// Size to which the whole box is resized.
    pub resized: Extent,
    /// Where the view lies in the resized box.
    pub window: Origin,
    /// Size of the view.
    pub view: Extent,
    /// Which pass comes first.
    pub passes: ResizePasses,
    /// The filter.
    pub filter: Filter,
}

/// One axis of a resize: the stretch of the source that becomes `to` positions, and which of them
/// are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// The first source position that the stretch touches; the others are counted from it.
    pub base: u32,
    /// Source positions that it touches; no tap reaches beyond them.
    pub len: u32,
    /// Where it begins and ends: at positions, or between them where the image is reduced.
    pub stretch: [f64; 2],
    /// Positions that it becomes.
    pub to: u32,
    /// The first of them that is wanted.
    pub start: u32,
    /// How many are wanted.
    pub count: u32,
    /// The filter.
    pub filter: Filter,
}

// === impl Geometry ===

impl Geometry {
    /// How the view described by `params` is cut.
    #[must_use]
    pub fn new(params: &ViewParams, view: Extent, passes: ResizePasses) -> Self {
        let ViewParams { crop, resized, window, filter, .. } = *params;
        // Of a view that reaches beyond the image, the part that is in it.
        let view = if params.padding.is_some() { resized } else { view };
        Self { crop, resized, window, view, passes, filter }
    }

    /// Whether the vertical pass comes first, of an image whose sides have been divided by
    /// `reduction`.
    #[must_use]
    pub fn is_vertical_first(&self, reduction: u32) -> bool {
        let (across, down) = (self.across(reduction), self.down(reduction));
        self.passes.is_vertical_first((across.len, down.len), (across.to, down.to))
    }

    /// The columns, in an image whose sides have been divided by `reduction`.
    #[must_use]
    pub fn across(&self, reduction: u32) -> Axis {
        let Self { crop, resized, window, view, filter, .. } = *self;
        let (to, start, count) = (resized.width, window.left, view.width);
        Axis { to, start, count, filter, ..Axis::cover(crop.left, crop.width, reduction) }
    }

    /// The rows, in an image whose sides have been divided by `reduction`.
    #[must_use]
    pub fn down(&self, reduction: u32) -> Axis {
        let Self { crop, resized, window, view, filter, .. } = *self;
        let (to, start, count) = (resized.height, window.top, view.height);
        Axis { to, start, count, filter, ..Axis::cover(crop.top, crop.height, reduction) }
    }

    /// The pixels that the view is made of, of an image whose sides have been divided by
    /// `reduction`.
    #[must_use]
    pub fn source(&self, reduction: u32) -> CropBox {
        let (across, down) = (self.across(reduction), self.down(reduction));
        let ((left, right), (top, bottom)) = (across.reach(), down.reach());
        CropBox {
            left: across.base + left,
            top: down.base + top,
            width: right - left,
            height: bottom - top,
        }
    }

    /// The most by which the image's sides can be divided so that the view still shrinks its box,
    /// or keeps its size.
    #[must_use]
    pub fn reduction_max(&self) -> u32 {
        let Self { crop, resized, .. } = *self;
        let fits = |from: u32, by: u32, to: u32| u64::from(from) >= u64::from(by) * u64::from(to);
        let shrinks = |by: &u32| {
            fits(crop.width, *by, resized.width) && fits(crop.height, *by, resized.height)
        };
        REDUCTIONS.into_iter().find(shrinks).unwrap_or(1)
    }

    /// Minimum bytes that hold the tables of weights and all that lies between the passes, whichever the
    /// instructions.
    #[must_use]
    pub fn work_bytes(&self, reduction: u32) -> u64 {
        let (across, down) = (self.across(reduction), self.down(reduction));
        let vertical_first = self.is_vertical_first(reduction);
        let (first, second) = if vertical_first { (&down, &across) } else { (&across, &down) };
        let lanes = second.reach_max().next_multiple_of(64);
        let between = 3 * lanes * u64::from(first.count).next_multiple_of(64);
        // Sixteen lanes of the source, or all of one channel, as quads.
        let sixteen = 48 * first.reach_max();
        let channel = if vertical_first { first.reach_max() * lanes } else { 0 };
        across.table_bytes() + down.table_bytes() + between + sixteen + channel
    }

    /// Whether to make the view a piece at a time: else it would take too much for an image of a size.
    #[must_use]
    pub fn is_piecewise(&self, image: Extent, reduction: u32) -> bool {
        let pixels = u64::from(image.width) * u64::from(image.height);
        self.work_bytes(reduction) > WORK_BYTES.max(WORK_PIXEL_BYTES * pixels)
    }
}

// === impl Axis ===

impl Axis {
    /// Only the stretch.
    fn cover(first: u32, len: u32, reduction: u32) -> Self {
        let base = first / reduction;
        let place = |at: u32| f64::from(at) / f64::from(reduction) - f64::from(base);
        Self {
            base,
            len: (first + len).div_ceil(reduction) - base,
            stretch: [place(first), place(first + len)],
            to: 1,
            start: 0,
            count: 1,
            filter: Filter::Bicubic,
        }
    }

    /// Whether every position becomes itself.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.stretch == [0.0, f64::from(self.to)]
    }
}
